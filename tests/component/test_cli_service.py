"""`lembasd status`, `stop` and `run --check` beside a hub that the test plays."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from lembasd.cli import hub_status, reload_command, stopping
from lembasd.device.lock import HubLock, Membership, all_gone, hub_pid
from lembasd.device.paths import Paths
from lembasd.hub.main import check
from lembasd.ipc.framing import AssemblyBudget
from lembasd.ipc.listen import bind, serve
from tests.support.command_line import CommandLine, Done
from tests.support.played_hub import PlayedHub, played_hub

STATUS = {
    "hub": {"pid": 7, "version": "0.1.0", "socket": "/run/hub.sock"},
    "config_problem": "config.yaml, line 1: mode must be a mode",
    "alarms": [{"kind": "crash_loop", "channel": "pty", "text": "terminals cannot start"}],
    "link": {"state": "refused", "server": "https://x.org", "reason": "log in again"},
    "zygotes": [
        {"kind": "worker", "pid": 11, "ready": True, "spare": False, "version": "0.1.0"},
        {"kind": "pty", "pid": 12, "ready": False, "spare": True},
        {
            "kind": "pty",
            "pid": 13,
            "ready": True,
            "spare": False,
            "version": "0.0.9",
            "earlier": True,
        },
    ],
    "workers": [
        {
            "session_id": "ses_1",
            "pid": 8,
            "state": "working",
            "version": "0.0.9",
            "turn_id": "t1",
            "root": "/p",
        }
    ],
    "terminals": [{"terminal_id": "term_1", "pid": 9, "version": "0.1.0"}],
    "strangers": [
        {"role": "pty", "channel": "term_2", "pid": 14, "version": "0.0.1", "protocol": [0, 0]}
    ],
    "clients": [{"client_id": 1, "kind": "local", "pid": 10}, {"client_id": 2, "kind": "link"}],
}


def hub(paths: Paths) -> AbstractAsyncContextManager[PlayedHub]:
    return played_hub(paths, STATUS)


@pytest.fixture
def run(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    monkeypatch.setattr(hub_status, "STARTING_S", 0.2)
    return CommandLine(short_tmp / "h", monkeypatch, capsys)


_MEMBER = """
import signal, sys, time
from lembasd.device.lock import HubLock, Membership
from lembasd.device.paths import find_paths
paths = find_paths()
lock = HubLock.acquire(paths) if sys.argv[1] == "hub" else None
share = Membership.join(paths)
if sys.argv[1] == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
while sys.argv[1] != "worker" or not paths.stopping.exists():
    time.sleep(0.01)
"""


def member(kind: str) -> "subprocess.Popen[bytes]":
    """Another process of the install: a worker that minds the stopping marker, one that does not, or a hub."""
    child = subprocess.Popen([sys.executable, "-c", _MEMBER, kind], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    child.stdout.close()
    return child


# ── status ──────────────────────────────────────────────────────────────────────────────────────


def test_without_a_hub_status_exits_3_and_starts_none(run: CommandLine) -> None:
    done = run.lembasd("status")
    assert done == Done(3, "lembasd is not running; start it with `lembasd run`\n", "")
    assert not run.paths.run.exists()
    done = run.lembasd("status", "--json")
    assert (done.code, done.value) == (
        3,
        {"running": False, "processes_left": False, "pids": []},
    )


def test_workers_without_a_hub_are_said_to_run(run: CommandLine) -> None:
    run.paths.make()
    left = member("stubborn")
    assert run.lembasd("status") == Done(
        3,
        f"no hub runs, but workers do (pids {left.pid}); start it with `lembasd run`, or `lembasd stop`\n",
        "",
    )
    said = {"running": False, "processes_left": True, "pids": [left.pid]}
    assert run.lembasd("status", "--json").value == said
    left.kill()
    left.wait()


async def test_status_shows_what_the_hub_says(run: CommandLine) -> None:
    async with hub(run.paths):
        done = await asyncio.to_thread(run.lembasd, "status", "--json")
        assert (done.code, done.value) == (0, {"running": True, **STATUS})
        assert await asyncio.to_thread(run.lembasd, "status") == Done(
            0,
            "hub        pid 7, version 0.1.0, /run/hub.sock\n"
            "link       refused, https://x.org: log in again\n"
            "config     config.yaml, line 1: mode must be a mode\n"
            "alarm      terminals cannot start\n"
            "zygote     worker, pid 11, version 0.1.0\n"
            "spare      pty, pid 12, loads\n"
            "zygote     pty, pid 13, version 0.0.9, ends with its last process\n"
            "session    ses_1  pid 8, version 0.0.9, working, turn t1  /p\n"
            "terminal   term_1  pid 9, version 0.1.0\n"
            "left out   term_2  pid 14, version 0.0.1, speaks protocol 0 to 0\n"
            "client     local, pid 10\n"
            "client     link\n",
            "",
        )


def test_a_hub_that_does_not_answer_is_named(run: CommandLine) -> None:
    run.paths.make()
    lock = HubLock.acquire(run.paths)
    done = run.lembasd("status")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"the hub (pid {os.getpid()}) does not answer")
    lock.release()


async def test_a_hub_that_is_just_starting_is_waited_for(
    run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_status, "STARTING_S", 10.0)
    run.paths.make()
    lock = HubLock.acquire(run.paths)
    asking = asyncio.ensure_future(asyncio.to_thread(run.lembasd, "status", "--json"))
    listening = await serve(bind(run.paths.socket), PlayedHub(STATUS), AssemblyBudget())
    assert (await asking).value == {"running": True, **STATUS}
    listening.close()
    lock.release()


async def test_a_hub_that_takes_nothing_of_this_version_is_quoted(run: CommandLine) -> None:
    async with hub(run.paths) as played:
        played.refuses_all = "this hub speaks protocol 2 to 2"
        for command in ("status", "reload"):
            done = await asyncio.to_thread(run.lembasd, command)
            assert done == Done(1, "", f"{played.refuses_all}\n")


# ── reload ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_version_that_takes_over_is_waited_for(run: CommandLine) -> None:
    before, after = {"pid": 7, "version": "0.1.0"}, {"pid": 7, "version": "0.2.0", "reloads": 1}
    async with played_hub(run.paths, {"hub": before}) as played:
        played.reloaded = {"hub": after}
        assert await asyncio.to_thread(run.lembasd, "reload") == Done(
            0,
            "lembasd 0.2.0 has taken over from 0.1.0 (pid 7); sessions and terminals go on\n",
            "",
        )


async def test_why_no_version_takes_over_is_quoted(run: CommandLine) -> None:
    async with hub(run.paths) as played:
        played.refuses_reload = (
            "the installed version does not start (no module); nothing was changed"
        )
        done = await asyncio.to_thread(run.lembasd, "reload")
        assert done == Done(1, "", f"{played.refuses_reload}\n")


async def test_a_version_that_does_not_come_up_is_told_of(
    run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload_command, "COMES_S", 0.3)
    async with hub(run.paths):
        done = await asyncio.to_thread(run.lembasd, "reload")
        assert done == Done(
            1,
            "",
            "the installed version did not come up; `lembasd logs` and `lembasd run --check` say why, "
            "sessions go on and wait for it\n",
        )


def test_with_no_hub_there_is_nothing_to_reload(run: CommandLine) -> None:
    assert run.lembasd("reload") == Done(
        3, "", "lembasd is not running; start it with `lembasd run`\n"
    )


def test_a_check_says_what_this_build_is_to_a_hub(run: CommandLine) -> None:
    done = run.lembasd("run", "--check", "--json")
    assert (done.code, done.value) == (
        0,
        {
            "version": "0.1.0",
            "link_protocol": 3,
            "hub_protocol": [1, 1],
            "journal_format": 1,
            "takeover": 1,
        },
    )
    assert run.lembasd("run", "--json").code == 2


# ── stop ────────────────────────────────────────────────────────────────────────────────────────


def test_with_nothing_to_stop_stop_exits_3(run: CommandLine) -> None:
    assert run.lembasd("stop") == Done(3, "lembasd is not running\n", "")


async def test_the_hub_is_asked_and_its_end_is_waited_for(run: CommandLine) -> None:
    async with hub(run.paths):
        done = await asyncio.to_thread(run.lembasd, "stop")
        assert done == Done(0, "lembasd has stopped\n", "")
        assert (hub_pid(run.paths), all_gone(run.paths)) == (None, True)


async def test_a_hub_that_refuses_to_stop_is_quoted(run: CommandLine) -> None:
    async with hub(run.paths) as played:
        played.refuses_stop = "a session's own processes may not stop lembasd"
        done = await asyncio.to_thread(run.lembasd, "stop")
        assert done == Done(4, "", f"{played.refuses_stop}\n")
        assert not run.paths.stopping.exists()


def test_without_a_hub_those_who_are_left_are_told_by_the_marker(run: CommandLine) -> None:
    run.paths.make()
    worker = member("worker")
    assert run.lembasd("stop") == Done(0, "lembasd has stopped\n", "")
    assert worker.wait(10) == 0
    assert not run.paths.stopping.exists()


def test_a_hub_that_cannot_be_asked_is_told_to_stop_by_a_signal(run: CommandLine) -> None:
    run.paths.make()
    deaf = member("hub")
    assert run.lembasd("stop") == Done(0, "lembasd has stopped\n", "")
    assert deaf.wait(10) == -signal.SIGTERM


def test_a_hub_that_does_not_end_is_killed(
    run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "DEAF_HUB_ENDS_S", 0.1)
    run.paths.make()
    frozen = member("hub")
    frozen.send_signal(signal.SIGSTOP)
    worker = member("worker")
    assert run.lembasd("stop") == Done(0, "lembasd has stopped\n", "")
    assert (frozen.wait(10), worker.wait(10)) == (-signal.SIGKILL, 0)
    assert not run.paths.stopping.exists()


def test_who_does_not_end_is_killed(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "MEMBERS_END_S", 0.1)
    run.paths.make()
    child = member("stubborn")
    assert run.lembasd("stop") == Done(0, "lembasd has stopped\n", "")
    assert child.wait(10) == -signal.SIGKILL


def test_who_cannot_be_ended_is_told_of(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "MEMBERS_END_S", 0.1)
    monkeypatch.setattr(stopping, "GONE_S", 0.1)
    run.paths.make()
    share = Membership.join(run.paths)
    assert run.lembasd("stop") == Done(
        1, "", "these processes do not end: (look with `ps`); end them with `kill -9`\n"
    )
    share.leave()


# ── run ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_good_installation_passes_its_check(run: CommandLine) -> None:
    done = run.lembasd("run", "--check")
    assert (done.code, done.err) == (0, "")
    assert "link protocol 3, hub socket protocol 1 to 1, journal format 1" in done.out
    assert check() == 0


def test_an_unknown_setting_is_said_by_the_check(run: CommandLine) -> None:
    run.paths.make()
    run.paths.config_file.write_text("moddel: x\n")
    done = run.lembasd("run", "--check")
    assert (done.code, done.err) == (
        0,
        f"{run.paths.config_file}, line 1: moddel is not a setting; remove it\n",
    )


def test_a_broken_config_does_not_pass_the_check(run: CommandLine) -> None:
    run.paths.make()
    run.paths.config_file.write_text("mode: wide\n")
    done = run.lembasd("run", "--check")
    assert done.code == 1
    assert f"{run.paths.config_file}, line 1: mode must be one of" in done.err


def test_a_second_hub_says_which_runs(run: CommandLine) -> None:
    run.paths.make()
    lock = HubLock.acquire(run.paths)
    done = run.lembasd("run")
    assert (done.code, f"a hub runs already (pid {os.getpid()})" in done.err) == (1, True)
    lock.release()
