"""`lembasd doctor`."""

import asyncio
import copy
import os
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
import structlog

from lembasd import __version__
from lembasd.cli.doctor import bounds, files
from lembasd.cli.doctor.finding import Finding
from lembasd.device import credentials
from lembasd.device.credentials import Credentials
from lembasd.device.person import find_person
from tests.support.command_line import CommandLine
from tests.support.fake_instance import TOKEN, Answer, FakeInstance
from tests.support.played_hub import played_hub

STATUS: dict[str, Any] = {
    "hub": {
        "pid": 7,
        "version": __version__,
        "uptime_s": 7300.0,
        "fds": 20,
        "max_fds": 1024,
        "environment": {"PATH": "/bin", "LANG": "C.UTF-8"},
    },
    "config_problem": None,
    "link": {"state": "up", "server": "https://x.org", "reason": ""},
    "zygotes": [
        {"kind": "worker", "pid": 11, "ready": True, "spare": False},
        {"kind": "pty", "pid": 12, "ready": True, "spare": False},
    ],
    "workers": [{"session_id": "ses_1", "version": __version__}],
}


class Doctor:
    """Runs the command and keeps what it found."""

    def __init__(self, run: CommandLine, home: Path) -> None:
        self.paths = run.paths
        self.home = home
        self._run = run

    def look(self) -> dict[str, list[tuple[str, str]]]:
        """(state, text) by name; the exit code says whether one failed."""
        done = self._run.lembasd("doctor", "--json")
        assert done.err == ""
        found: dict[str, list[tuple[str, str]]] = {}
        for one in done.value["findings"]:
            found.setdefault(one["name"], []).append((one["state"], one["text"]))
        failed = any(state == "fail" for said in found.values() for state, _text in said)
        assert (done.code, done.value["failed"]) == (int(failed), failed)
        return found

    async def look_beside(self) -> dict[str, list[tuple[str, str]]]:
        return await asyncio.to_thread(self.look)

    def lines(self) -> list[str]:
        return self._run.lembasd("doctor").out.splitlines()


@pytest.fixture
def doctor(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Doctor]:
    monkeypatch.setenv("HOME", str(short_tmp))
    monkeypatch.setenv("LANG", "C.UTF-8")
    yield Doctor(CommandLine(short_tmp / "h", monkeypatch, capsys), short_tmp)
    structlog.reset_defaults()


def states(found: dict[str, list[tuple[str, str]]]) -> dict[str, str]:
    return {name: "/".join(state for state, _text in said) for name, said in found.items()}


def test_a_new_installation_is_told_what_is_still_to_do(doctor: Doctor) -> None:
    found = doctor.look()
    assert found["login"] == [("warn", "nobody is logged in; run `lembas login --server URL`")]
    assert found["hub"] == [("warn", "lembasd is not running; start it with `lembasd run`")]
    assert "the first `lembasd run` makes them" in found["directories"][0][1]
    assert {found[name][0][0] for name in ("config", "socket", "log", "environment")} == {"ok"}
    assert not doctor.paths.run.exists()


def test_a_line_says_state_name_and_sentence(doctor: Doctor) -> None:
    assert (
        "warn  hub          lembasd is not running; start it with `lembasd run`" in doctor.lines()
    )


def test_files_that_cannot_be_used_fail(doctor: Doctor) -> None:
    doctor.paths.make()
    doctor.paths.run.chmod(0o770)
    doctor.paths.config_file.write_text("mode: wide\n")
    doctor.paths.credentials_file.write_text("{}")
    doctor.paths.credentials_file.chmod(0o644)
    doctor.paths.socket.write_text("")
    found = doctor.look()
    assert found["directories"] == [
        (
            "fail",
            f"others may enter or change {doctor.paths.run}; run `chmod 700 {doctor.paths.run}`",
        )
    ]
    assert "line 1: mode must be one of" in found["config"][0][1]
    assert "can be read by others; run `chmod 600" in found["login"][0][1]
    assert found["socket"][0] == (
        "warn",
        f"{doctor.paths.socket} is no socket; the next hub removes it",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("moddel: x\n", "moddel is not a setting; remove it"),
        ("remote: {enabled: true}\n", "name one with `lembas remote add`"),
        ("remote: {enabled: true, roots: [/tmp]}\n", "see `lembas trust add`"),
    ],
)
def test_a_config_that_does_not_do_what_it_seems_is_a_warning(
    doctor: Doctor, text: str, said: str
) -> None:
    doctor.paths.make()
    doctor.paths.config_file.write_text(text)
    ((state, sentence),) = doctor.look()["config"]
    assert (state, said in sentence) == ("warn", True)


def test_sessions_that_take_more_than_they_may_are_told(doctor: Doctor) -> None:
    assert doctor.look()["store"] == [("ok", "0 sessions take 0 B; 10 GB is when you are warned")]
    doctor.paths.make()
    journal = doctor.paths.session(f"ses_{0:026d}") / "journal.jsonl"
    journal.parent.mkdir()
    journal.write_bytes(b"x" * 3000)
    doctor.paths.config_file.write_text("retention: {size: 1kB}\n")
    ((state, text),) = doctor.look()["store"]
    assert state == "warn"
    assert text.startswith("1 sessions take 3 kB, over retention.size (1 kB); see `lembas")


def test_a_disk_that_fills_is_told_in_time(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LOW_DISK_BYTES", 1 << 62)
    assert doctor.look()["disk"][0][0] == "warn"
    monkeypatch.setattr(files, "FULL_DISK_BYTES", 1 << 62)
    assert doctor.look()["disk"][0][0] == "fail"


def test_a_path_that_is_too_long_for_a_socket_is_found(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_SOCKET_PATH_BYTES", 10)
    assert "is too long a path" in doctor.look()["socket"][0][1]


async def test_with_a_hub_and_an_instance_all_is_well(doctor: Doctor) -> None:
    async with FakeInstance() as instance, played_hub(doctor.paths, STATUS):
        credentials.store(doctor.paths.credentials_file, Credentials(instance.url, TOKEN))
        found = await doctor.look_beside()
    # what the machine itself lacks is not this test's business
    ours = states(found).keys() - {"disk", "terminals", "processes", "ripgrep", "shell", "git"}
    assert {states(found)[name] for name in ours} == {"ok"}
    assert found["hub"] == [("ok", f"pid 7, version {__version__}, for 2 h, 1 sessions open")]
    assert found["link"] == [("ok", "up, https://x.org")]
    assert found["token"] == [("ok", "accepted, for models memory link")]
    assert found["descriptors"] == [("ok", "20 of 1024 open in the hub")]
    assert "commands get your login shell's" in found["environment"][0][1]


async def test_what_is_wrong_with_a_hub_is_said(doctor: Doctor) -> None:
    status = copy.deepcopy(STATUS)
    status["hub"].update(version="0.0.1", fds=1000, uptime_s=200_000.0)
    status["hub"]["environment"]["SSH_AUTH_SOCK"] = "/gone"
    status["link"] = {"state": "refused", "server": "https://x.org", "reason": "log in again"}
    status["config_problem"] = "config.yaml, line 1: odd"
    status["workers"] = [{"version": "0.0.0"}]
    del status["zygotes"][0]
    async with played_hub(doctor.paths, status) as played:
        found = await doctor.look_beside()
        assert found["hub"][0] == (
            "warn",
            f"pid 7, version 0.0.1, for 2 days, but {__version__} is installed; run `lembasd reload`",
        )
        assert found["link"] == [("fail", "log in again")]
        assert found["settings"][0][1].endswith("config.yaml, line 1: odd")
        assert found["workers"] == [("ok", "some are of version 0.0.0 until they end")]
        assert states(found)["helpers"] == "fail"
        assert states(found)["descriptors"] == "warn"
        assert "ssh agent (/gone) is gone" in found["environment"][0][1]
        played.status["link"] = {"state": "waiting", "server": "https://x.org", "reason": "away"}
        played.status["zygotes"] = [{**one, "ready": False} for one in STATUS["zygotes"]]
        found = await doctor.look_beside()
        assert found["link"] == [("warn", "away; it is dialled again")]
        assert found["helpers"] == [("ok", "still loading")]
        played.status["link"]["state"] = "off"
        assert states(await doctor.look_beside())["link"] == "ok"


async def test_an_instance_that_cannot_be_used_is_said(doctor: Doctor) -> None:
    doctor.paths.make()
    async with FakeInstance() as instance:
        credentials.store(doctor.paths.credentials_file, Credentials(instance.url, "another"))
        found = await doctor.look_beside()
        assert states(found)["instance"] == "ok/fail"
        assert "does not accept this login any more" in found["instance"][1][1]
    assert states(await doctor.look_beside())["instance"] == "fail"


async def test_a_clock_that_is_wrong_and_a_token_for_less_are_warnings(doctor: Doctor) -> None:
    doctor.paths.make()
    async with FakeInstance() as instance:
        credentials.store(doctor.paths.credentials_file, Credentials(instance.url, TOKEN))
        said = Answer.of(instance.discovery)
        said.headers["Date"] = formatdate(0)
        instance.instead["/.well-known/lembas.json"] = said
        instance.about = {**(instance.about or {}), "scope": "models"}
        found = await doctor.look_beside()
    assert found["clock"][0][1].endswith("s ahead of the instance's; turn time synchronisation on")
    assert found["token"] == [("warn", "it may not use link; log in again with `lembas login`")]


def test_a_login_shell_that_says_nothing_is_a_failure(doctor: Doctor) -> None:
    if find_person(os.environ).shell.kind != "bash":
        pytest.skip("the startup file is bash's")
    (doctor.home / ".bash_profile").write_text("exit 3\n")
    ((state, text),) = doctor.look()["environment"]
    assert (state, "does not say its environment" in text) == ("fail", True)


@pytest.mark.parametrize(
    ("used", "state", "text"),
    [
        (79, "ok", "79 of 100 in use"),
        (80, "warn", "80 of 100 in use; do something"),
        (100, "fail", "100 of 100 in use: none is left; do something"),
    ],
)
def test_a_bound_is_judged_before_it_is_reached(used: int, state: Any, text: str) -> None:
    assert bounds.judge("x", used, 100, "in use", "do something") == Finding("x", state, text)
