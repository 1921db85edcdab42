"""A worker that is killed at each step of a turn: nothing finished is lost, and nothing is done twice."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from lembasd.harness.loader import LOOP
from lembasd.protocol.errors import RequestRefused
from tests.support.daemon import Install
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.sessions import new_session, prompt, worker_pid

pytestmark = [pytest.mark.process, pytest.mark.timeout(90)]

#: in the order of a turn; from which on the command has run, and from which on the turn has its end
MILESTONES = [
    "worker.turn_accepted",
    "worker.turn_synced",
    "worker.turn_started",
    "worker.first_token",
    "worker.tool_started",
    "worker.tool_ended",
    "worker.compacted",
    "worker.end_written",
    "worker.turn_kept",
    "worker.turn_ended",
]
RAN, ENDED, STARTED = (
    MILESTONES.index(name)
    for name in ("worker.tool_ended", "worker.end_written", "worker.turn_started")
)
OVERFLOW = Reply(
    status=400,
    raw=b'{"error":{"message":"the request exceeds the available context size"}}',
    headers={"Content-Type": "application/json"},
)


class Model:
    """Runs one command for "go", is too full for its result once, and sums up when it is asked to."""

    def __init__(self) -> None:
        self.overflows = 1

    def __call__(self, body: dict[str, Any]) -> Reply:
        last = body["messages"][-1]
        text = str(last["content"])
        if text == LOOP.compaction.ask:
            return Reply(text="It ran echo.")
        if last["role"] == "tool" and self.overflows:
            self.overflows -= 1
            return OVERFLOW
        if last["role"] == "user" and text.endswith("go") and "<summary>" not in text:
            return Reply(text="I run it.", calls=[("bash", {"command": "echo ran >> outside"})])
        return Reply(text="done")


async def frozen(pid: int) -> None:
    """Wait until the process has stopped."""
    process = psutil.Process(pid)
    async with asyncio.timeout(20):
        while process.status() != psutil.STATUS_STOPPED:  # noqa: ASYNC110 - the kernel tells nobody else
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("milestone", MILESTONES)
async def test_a_worker_killed_there_opens_again_with_every_finished_step(
    zygote_install: Install, model: ScriptedModel, milestone: str
) -> None:
    install, at = zygote_install, MILESTONES.index(milestone)
    model.choose = Model()
    await install.start_hub()
    client = await install.client()
    await client.initialize()
    session = await new_session(client, install)
    worker = await worker_pid(install, session)
    install.freeze(milestone)
    turn = client.hub.start("session/prompt", prompt(session, "go", "t1"))
    await frozen(worker)
    psutil.Process(worker).send_signal(signal.SIGKILL)
    first = await answered(turn)
    async with asyncio.timeout(20):
        while any(  # noqa: ASYNC110 - the hub tells nobody of it
            one["pid"] == worker for one in (await install.status())["workers"]
        ):
            await asyncio.sleep(0.05)

    # the same turn id again: its answer, or, where it had not started, the turn itself
    again = await answered(client.hub.start("session/prompt", prompt(session, "go", "t1")))
    outside = install.project / "outside"
    if at >= ENDED:
        assert again == "end_turn"
    elif at >= STARTED:
        assert (first, again) == ("worker_ended", "worker_ended")
    else:
        assert again == "end_turn"
    ran = lines(outside)
    assert len(ran) == 1 if at >= RAN or at < STARTED else len(ran) <= 1

    answer = await client.ask("session/prompt", prompt(session, "and now?", "t2"))
    assert answer["stopReason"] == "end_turn"
    assert lines(outside) == ran  # nothing was done twice
    history = await client.ask("_lembas/session/history", {"sessionId": session})
    assert [one["text"] for one in history["turns"] if one["role"] == "user"] == ["go", "and now?"]
    tools = [
        tool for one in history["turns"] if one["role"] == "assistant" for tool in one["tools"]
    ]
    if at >= RAN:
        assert [tool["isError"] for tool in tools] == [False]
    assert model.violations == []
    client.hub.close()


async def answered(turn: "asyncio.Future[bytes]") -> str:
    """The stop reason, or the reason of the error."""
    try:
        value = msgspec.json.decode(await asyncio.wait_for(turn, 20))
    except RequestRefused as refused:
        return str((refused.data or {})["reason"])
    return str(value["stopReason"])


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
