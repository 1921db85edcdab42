"""`lembas -p` with the whole service: what is printed, what is denied, how it ends."""

import asyncio
import signal
import subprocess
from typing import Any

import msgspec
import pytest

from tests.support.daemon import _PERSON, Install
from tests.support.scripted_model import Reply, ScriptedModel

pytestmark = pytest.mark.process


@pytest.fixture
async def install(zygote_install: Install) -> Install:
    return zygote_install


def lines(text: bytes) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in text.splitlines()]


async def test_a_prompt_is_answered_and_a_hub_is_started_for_it(
    install: Install, model: ScriptedModel
) -> None:
    model.script(Reply("It is 4."), Reply("And 9."), Reply("16"), Reply("25"))
    done = await install.run("-p", "what is 2", "times 2?")
    assert (done.returncode, done.stdout) == (0, b"It is 4.\n")
    assert done.stderr == b"lembasd was not running; it is started (`lembasd stop` ends it)\n"
    assert model.requests[0]["messages"][-1]["content"] == "what is 2 times 2?"

    again = await install.run("-p", "-c", stdin=b"and 3 times 3?")
    assert (again.returncode, again.stdout, again.stderr) == (0, b"And 9.\n", b"")
    assert [one["role"] for one in model.requests[1]["messages"]][-3:] == [
        "user",
        "assistant",
        "user",
    ]

    whole = await install.run("-p", "4?", "--output-format", "json")
    (result,) = lines(whole.stdout)
    assert (result["type"], result["text"], result["stop_reason"], result["denied"]) == (
        "result",
        "16",
        "end_turn",
        [],
    )
    start = result["session_id"].removeprefix("ses_")[:12]
    events = await install.run("-p", "--resume", start, "5?", "--output-format", "stream-json")
    told = lines(events.stdout)
    assert told[0]["type"] == "session"
    assert told[0]["session_id"] == result["session_id"]
    kinds = [one["type"] for one in told]
    assert kinds[1:4] == ["prompt", "task", "step"]
    assert "".join(one["text"] for one in told if one["type"] == "text") == "25"
    assert told[-1]["text"] == "25"


async def test_what_nobody_can_approve_is_denied_and_told(
    install: Install, model: ScriptedModel
) -> None:
    model.script(Reply(calls=[("bash", {"command": "touch made"})]), Reply("I could not."))
    done = await install.run("-p", "make it", "--mode", "manual")
    assert (done.returncode, done.stdout) == (0, b"I could not.\n")
    assert b"denied, for nobody is here to approve it:" in done.stderr
    assert b"touch made" in done.stderr
    assert not (install.project / "made").exists()
    assert "Nobody is there to approve this" in str(model.requests[-1]["messages"])


async def test_a_turn_that_does_not_end_well_says_why(
    install: Install, model: ScriptedModel
) -> None:
    await install.start_hub()
    model.models = [{"id": "scripted"}]
    model.script(*(Reply(calls=[("list", {"path": "."})]) for _ in range(3)))
    stopped = await install.run("-p", "go on and on", "--max-steps", "2")
    assert stopped.returncode == 1
    assert (
        b"the turn stopped at its last step; go on with `lembas -p --resume ses_" in stopped.stderr
    )
    model.replies.clear()
    model.script(Reply(status=400, raw=b'{"error":{"message":"no such model"}}'))
    failed = await install.run("-p", "hello", "--output-format", "json")
    assert failed.returncode == 1
    assert lines(failed.stdout)[0]["error"]["data"]["reason"] == "model"
    for arguments, code, said in (
        (("-p",), 2, b"there is no prompt"),
        (("-p", "x", "--resume", "nope"), 2, b"is no session"),
        (("-p", "x", "--mode", "wild"), 2, b"'wild' is not one of"),
        (("-p", "x", "--model", "unheard"), 4, b"unheard"),
    ):
        done = await install.run(*arguments, stdin=b"")
        assert (done.returncode, done.stdout) == (code, b""), done.stderr
        assert said in done.stderr


def begin(install: Install, *arguments: str) -> "subprocess.Popen[bytes]":
    return install.spawn(
        _PERSON, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=install.project
    )


async def told(child: "subprocess.Popen[bytes]") -> bytes:
    """The next line that the command prints to standard error."""
    assert child.stderr is not None
    return await asyncio.to_thread(child.stderr.readline)


async def test_ctrl_c_cancels_the_turn(install: Install, model: ScriptedModel) -> None:
    await install.start_hub()
    model.script(Reply("thinking", hold=asyncio.Event()))
    child = begin(install, "-p", "think")
    await install.milestones.wait("worker.first_token")
    child.send_signal(signal.SIGINT)
    _out, err = await asyncio.to_thread(child.communicate, None, 20)
    assert child.returncode == 130
    assert err.splitlines() == [
        b"cancelling the turn; press Ctrl-C again to leave it running",
        b"the turn was cancelled",
    ]


async def test_a_second_ctrl_c_leaves_the_turn_running(
    install: Install, model: ScriptedModel
) -> None:
    await install.start_hub()
    # a tool whose end takes its time
    command = "trap '' TERM INT; touch begun; sleep 30"
    model.script(Reply(calls=[("bash", {"command": command})]), Reply("done"))
    child = begin(install, "-p", "work", "--mode", "auto")
    await install.milestones.wait("worker.tool_started")
    child.send_signal(signal.SIGINT)
    assert (await told(child)).startswith(b"cancelling the turn")
    child.send_signal(signal.SIGINT)
    last = await told(child)
    await asyncio.to_thread(child.wait, 20)
    assert child.returncode == 130
    if not last.startswith(b"the turn was cancelled"):
        assert last.startswith(b"the turn goes on; `lembas attach ses_")


async def test_a_hub_that_dies_costs_the_answer_nothing(
    install: Install, model: ScriptedModel
) -> None:
    await install.start_hub()
    hold = asyncio.Event()
    model.script(Reply("thinking", hold=hold), Reply("too often"))
    child = begin(install, "-p", "think")
    await install.milestones.wait("worker.first_token")
    await install.kill_hub()
    await install.milestones.wait("hub.adopted")
    hold.set()
    out, err = await asyncio.to_thread(child.communicate, None, 30)
    assert (child.returncode, out) == (0, b"thinking\n"), err
    assert err == b"lembasd was not running; it is started (`lembasd stop` ends it)\n"
