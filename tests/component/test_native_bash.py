"""Commands on real processes: what is seen while they run, and that nothing of them is left."""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from lembasd.device import process_tree, runtime
from lembasd.device.process_tree import EndReport
from lembasd.engine.api import Decision, TurnOutcome
from lembasd.engine.native.core.live_output import MAX_CHARS
from lembasd.engine.native.kept import Kept
from lembasd.engine.native.login_environment import LoginEnvironment
from lembasd.engine.native.tools.bash import DRAIN_S, REAP_S, Commands
from lembasd.engine.native.tools.outcome import Outcome
from lembasd.protocol.events import ToolOutput
from lembasd.store.records import ToolResult, ToolStarted
from tests.support.recorder_host import RecorderHost
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.subreaper import no_subreaper

Use = Callable[..., Any]

#: each leaves a process behind that writes its pid to $1, and has detached itself in another way
LEAVE = {
    "a background job": "sleep 300 & echo $! > $1",
    "nohup": "nohup sleep 300 > /dev/null 2>&1 & echo $! > $1",
    "disown": "sleep 300 & echo $! > $1; disown -a",
    "setsid": "setsid sh -c 'echo $$ > $1; exec sleep 300' x $1 & until test -s $1; do :; done",
    "a pipe held open": "(exec sleep 300) & echo $! > $1",
    "deaf to signals": "sh -c 'trap \"\" TERM HUP INT; echo $$ > $1; while :; do sleep 1; done' x $1 & until test -s $1; do :; done",
    "stopped": "sh -c 'echo $$ > $1; kill -STOP $$' x $1 & until test -s $1; do :; done",
    "a daemon with a cleared environment": f"{sys.executable} daemon.py $1; until test -s $1; do :; done",
}
DAEMON = """
import os, sys
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.closerange(0, 3)
os.execve("/bin/sh", ["sh", "-c", "echo $$ > $1; exec sleep 300", "sh", sys.argv[1]], {})
"""


@pytest.fixture
def host(
    short_tmp: Path, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RecorderHost]:
    """A host in a project of a person with an empty home, whose process is a subreaper as a worker is."""
    for name in ("home", "project", "run"):
        (short_tmp / name).mkdir()
    monkeypatch.setenv("HOME", str(short_tmp / "home"))
    monkeypatch.setenv("LEMBAS_HOME", str(short_tmp))
    runtime.become_subreaper()
    project = (short_tmp / "project").resolve()
    (project / "daemon.py").write_text(DAEMON)
    recorder = RecorderHost(project, model.base_url)
    # what is run here is odd enough to be asked about, and what is held is its end
    recorder.decisions = [Decision(outcome="once")] * 50
    yield recorder
    no_subreaper()


@pytest.fixture
def use(host: RecorderHost, model: ScriptedModel) -> Use:
    """Have one command run, and give its result."""

    async def call(command: str, **args: Any) -> ToolResult:
        model.script(Reply(calls=[("bash", {"command": command, **args})]))
        engine = host.engine("auto")
        assert await host.turn(engine) == TurnOutcome(stop_reason="end_turn")
        await engine.aclose()
        return host.results()[-1]

    return call


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _until_written(path: Path) -> str:
    end = time.monotonic() + 20
    while not path.exists() or not (text := path.read_text()).endswith("\n"):
        assert time.monotonic() < end, f"{path} was not written"
        os.sched_yield()
    return text


async def file_with_text(path: Path) -> str:
    """What a command writes to a file, once it is there."""
    return await asyncio.to_thread(_until_written, path)


# ── while it runs ───────────────────────────────────────────────────────────────────────────────


async def test_what_a_command_says_is_shown_while_it_runs(
    host: RecorderHost, model: ScriptedModel
) -> None:
    command = "mkfifo 1 2; echo one; read x < 1; printf ' 50%%'; read x < 2; printf '\\r100%%\\n'"
    model.script(Reply(calls=[("bash", {"command": command})]))
    engine = host.engine("auto")
    running = asyncio.create_task(host.turn(engine))
    for number, so_far in enumerate(("one\n", "one\n 50%"), start=1):
        shown = await host.until(ToolOutput, number)
        assert shown.text == so_far
        with await asyncio.to_thread((host.root / str(number)).open, "w") as fifo:
            fifo.write("go\n")
    assert await running == TurnOutcome(stop_reason="end_turn")
    assert host.results()[-1].output == "one\n100%\n"
    assert {one.toolCallId for one in host.events if isinstance(one, ToolOutput)} == {
        host.ends()[-1].toolCallId
    }
    await engine.aclose()


async def test_a_command_that_says_much_is_shown_four_times_a_second(
    host: RecorderHost, use: Use
) -> None:
    begun = time.monotonic()
    await use("for i in {1..400}; do echo $i; read -t 0.002 < <(:); done")
    looks = [one for one in host.events if isinstance(one, ToolOutput)]
    assert 1 <= len(looks) <= 1 + 4 * (time.monotonic() - begun)


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("printf '\\e[31mred\\e[0m\\n'", "red\n"),
        ("for i in 1 2 3; do printf '\\r%s of 3' $i; done; echo", "3 of 3\n"),
        ("printf '\\303'; sleep 0.05; printf '\\251\\n'", "é\n"),
        ("printf 'a\\377b\\n'", "a\ufffdb\n"),
        ("printf 'a\\0b\\r\\n'", "ab\n"),
    ],
)
async def test_a_model_sees_text_and_no_terminals_codes(
    use: Use, command: str, output: str
) -> None:
    assert (await use(command)).output == output


async def test_of_an_enormous_output_the_ends_are_kept_and_all_of_it_is_counted(
    host: RecorderHost, short_tmp: Path
) -> None:
    login = LoginEnvironment(host.session_id, 1, lambda: short_tmp / "run")
    commands = Commands(host.session_id, 1, host.root, login, Kept())
    args = {"command": "echo begin; yes | head -c 20000000; echo end"}
    outcome = await commands.run(args, lambda: None, lambda _text: None)
    await commands.aclose()
    dropped = len("begin\nend\n") + 20_000_000 - MAX_CHARS
    head, counted, tail = outcome.output.partition(f"\n[{dropped} characters left out]\n")
    ends = (head[:8], bool(counted), tail[-6:])
    assert (ends, len(head) + len(tail)) == (("begin\ny\n", True, "y\nend\n"), MAX_CHARS)


async def test_a_command_that_closes_its_output_goes_on(host: RecorderHost, use: Use) -> None:
    result = await use("echo begun; exec >&- 2>&-; sleep 0.1; touch done")
    assert (result.output, (host.root / "done").exists()) == ("begun\n", True)


async def test_a_command_has_what_the_persons_startup_files_export(
    short_tmp: Path, use: Use
) -> None:
    (short_tmp / "home" / ".profile").write_text("export FROM_PROFILE='yes it is'\n")
    assert (await use("echo $FROM_PROFILE $TERM $PAGER")).output == "yes it is dumb cat\n"
    (short_tmp / "home" / ".profile").write_text("export FROM_PROFILE=changed\n")
    assert (await use("echo $FROM_PROFILE")).output == "changed\n"


# ── nothing is left ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("leave", LEAVE)
async def test_what_a_command_left_behind_ends_with_it(
    host: RecorderHost, use: Use, leave: str
) -> None:
    result = await use(f"set -- pid; {LEAVE[leave]}")
    pid = int(await file_with_text(host.root / "pid"))
    assert gone(pid)
    assert "left in the background were ended with it]" in result.output
    assert process_tree.by_marker(host.session_id) == []


@pytest.mark.parametrize("leave", LEAVE)
async def test_what_a_command_left_behind_ends_when_its_time_is_over(
    host: RecorderHost, use: Use, leave: str
) -> None:
    result = await use(f"set -- pid; {LEAVE[leave]}; sleep 300", timeout=1)
    assert result.output.startswith("[ended after 1 s; ")
    assert gone(int(await file_with_text(host.root / "pid")))
    assert process_tree.by_marker(host.session_id) == []


@pytest.mark.parametrize("leave", LEAVE)
async def test_what_a_command_left_behind_ends_with_a_cancel(
    host: RecorderHost, model: ScriptedModel, leave: str
) -> None:
    command = f"set -- pid; {LEAVE[leave]}; echo > done; sleep 300"
    model.script(Reply(calls=[("bash", {"command": command})]))
    engine = host.engine("auto")
    running = asyncio.create_task(host.turn(engine))
    await host.until(ToolStarted)
    await file_with_text(host.root / "done")
    engine.cancel()
    assert await running == TurnOutcome(stop_reason="cancelled")
    await engine.aclose()
    assert gone(int(await file_with_text(host.root / "pid")))
    assert process_tree.by_marker(host.session_id) == []


#: of processes that run away: each forks the next one and ends. `go` ends the process once so many were forked
STORMS = {
    "one": "go(); os.fork() and os._exit(0)",
    "sixteen": "first and [go() or os.fork() for _ in range(4)]; go(); os.fork() and os._exit(0)",
    "one into sessions of its own": "go(); os.fork() and os._exit(0); os.setsid()",
    "many": "go(); os.fork() or (time.sleep(0.05), os._exit(0)); time.sleep(0.0005)",
    "two each": "go(); os.fork(); time.sleep(0.01)",
}
#: as many forks as there are bytes in a pipe: what a storm that nothing ends leaves on a machine is bounded
STORM = """
import os, sys, time
left, give = os.pipe()
os.write(give, bytes(200))
os.close(give)

def go():
    if not os.read(left, 1):
        os._exit(0)

open(sys.argv[1], "w").close()
first = True
while True:
    {storm}
    first = False
"""


@pytest.mark.parametrize("storm", STORMS)
async def test_a_storm_of_forks_ends(host: RecorderHost, use: Use, storm: str) -> None:
    script = host.root / "storm.py"
    script.write_text(STORM.format(storm=STORMS[storm]))
    before = process_tree.children(os.getpid())
    # the command ends while the storm rages
    await use(f"mkfifo raging; {sys.executable} -S {script} raging & read x < raging", timeout=20)
    for _ in range(5):
        assert [
            one.pid
            for one in psutil.process_iter(["cmdline"])
            if str(script) in (one.info["cmdline"] or [])
        ] == []
    # reaped too: what has ended and is not waited for stays
    assert process_tree.children(os.getpid()) == before


@pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper")
async def test_what_ends_while_a_command_goes_on_is_reaped_meanwhile(
    host: RecorderHost, model: ScriptedModel
) -> None:
    before = process_tree.children(os.getpid())
    command = (
        "mkfifo f; for i in {1..50}; do (sleep 0.01 &); done; echo > done; read x < f; echo over"
    )
    model.script(Reply(calls=[("bash", {"command": command})]))
    engine = host.engine("auto")
    running = asyncio.create_task(host.turn(engine))
    await file_with_text(host.root / "done")
    async with asyncio.timeout(10):
        while len(process_tree.children(os.getpid())) > len(before) + 1:
            await asyncio.to_thread(os.sched_yield)
    (host.root / "f").write_text("go\n")
    await running
    assert host.results()[-1].output == "over\n"
    await engine.aclose()


async def test_a_child_that_was_there_before_is_none_of_a_commands_orphans(use: Use) -> None:
    server = await asyncio.create_subprocess_exec("sleep", "300")
    try:
        await use("sleep 300 &")
        assert not gone(server.pid)
    finally:
        server.kill()
        await server.wait()


# ── what cannot be ended ────────────────────────────────────────────────────────────────────────


class Stuck:
    """Stands for a kernel in which nothing of a tree can be killed, as on a dead disk, until `free`."""

    def __init__(self) -> None:
        self.pids: list[int] = []

    async def __call__(
        self, roots: Iterable[int], *, watched: Collection[int], known: Collection[int] | None
    ) -> EndReport:
        self.pids = sorted(set(roots))
        self._watched = watched
        return EndReport(ended=[], left=self.pids)

    async def free(self) -> None:
        await process_tree.end_tree(self.pids, watched=self._watched)
        while set(process_tree.children(os.getpid())) & set(self.pids):
            await asyncio.to_thread(os.sched_yield)  # the loop reaps bash


@pytest.mark.parametrize(
    ("command", "longest", "says"),
    [
        ("sleep 300", 1, "[ended after 1 s; give a longer timeout, or a shorter command]\n"),
        ("sleep 300 & echo out", 60, "out\n"),
    ],
    ids=["bash itself", "a child that holds the output"],
)
async def test_a_process_that_cannot_be_killed_holds_no_turn(
    host: RecorderHost, short_tmp: Path, command: str, longest: int, says: str
) -> None:
    stuck = Stuck()
    login = LoginEnvironment(host.session_id, 1, lambda: short_tmp / "run")
    commands = Commands(host.session_id, 1, host.root, login, Kept(), stuck)
    args = {"command": command, "timeout": longest}
    try:
        async with asyncio.timeout(1 + DRAIN_S + REAP_S + 5):
            outcome = await commands.run(args, lambda: None, lambda _text: None)
        await commands.aclose()
    finally:
        await stuck.free()
    pids = ", ".join(map(str, stuck.pids))
    left = f"[these processes of it cannot be ended and go on: {pids}]"
    assert outcome == Outcome(says + left, is_error=longest == 1)
