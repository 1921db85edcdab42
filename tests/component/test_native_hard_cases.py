"""Cases in which the native engine once lost, repeated or mistook something."""

import asyncio
import itertools
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lembasd.engine.api import TurnOutcome
from lembasd.engine.native.core.context import Conversation, capped
from lembasd.engine.native.core.reply import ReplyAssembler
from lembasd.engine.native.core.sse import EventStream
from lembasd.engine.native.core.turn import Begin, CancelCame, Failed, Finish, Limits, TurnMachine
from lembasd.harness.loader import LOOP
from lembasd.protocol import events
from lembasd.protocol.events import AnyEvent
from lembasd.store.records import (
    Assistant,
    Call,
    SystemPrompt,
    ToolStarted,
    TurnAccepted,
    TurnError,
    TurnStarted,
)
from tests.support.desk import Desk
from tests.support.recorder_host import RecorderHost
from tests.support.scripted_model import Reply, ScriptedModel

DONE = TurnOutcome(stop_reason="end_turn")
CANCELLED = TurnOutcome(stop_reason="cancelled")


@pytest.fixture
def anyio_backend() -> object:
    return ("asyncio", {"use_uvloop": True})


@pytest.fixture
def host(tmp_path: Path, model: ScriptedModel) -> RecorderHost:
    project = tmp_path.resolve() / "project"
    project.mkdir()
    return RecorderHost(project, model.base_url)


# 1. A session that lost its worker in the middle of a call is refused by strict servers from its second reopening on
async def test_a_session_that_lost_a_worker_is_well_formed_at_each_reopening(
    host: RecorderHost, model: ScriptedModel
) -> None:
    host.records += [
        SystemPrompt(text="s"),
        TurnAccepted(turn_id="t1", text="one"),
        TurnStarted(turn_id="t1"),
        Assistant(
            turn_id="t1",
            message_id="m",
            model="x",
            calls=[Call(id="c1", server_id="s1", name="bash", arguments="{}", args={})],
        ),
        ToolStarted(call_id="c1"),
    ]
    for turn_id in ("t2", "t3"):  # each in a worker of its own, from the journal as it stands
        engine = host.engine(records=list(host.records))
        assert await host.turn(engine, turn_id) == DONE
        await engine.aclose()
    first, second = (request["messages"] for request in model.requests)
    assert second[: len(first)] == first
    assert model.violations == []


# 2. A cancel in the tick in which the reply has come hangs the turn for ever
async def test_a_cancel_between_the_reply_and_its_calls_ends_the_turn(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.script(Reply(calls=[("bash", {"command": "touch ran"})]))
    engine = host.engine()
    emit = host.emit

    def cancel_soon(event: AnyEvent) -> None:
        emit(event)
        if isinstance(event, events.Usage):
            asyncio.get_running_loop().call_soon(engine.cancel)

    host.emit = cancel_soon  # type: ignore[method-assign]
    assert await asyncio.wait_for(host.turn(engine), 5) == CANCELLED
    await engine.aclose()


# 3. A path of a user who does not exist, or a loop of links, raises out of run_turn: the worker dies of it
@pytest.mark.parametrize("path", ["~nobody-of-that-name/a", "loop"])
async def test_a_path_that_leads_nowhere_is_an_error_result(
    host: RecorderHost, model: ScriptedModel, path: str
) -> None:
    (host.root / "loop").symlink_to("loop")
    model.script(Reply(calls=[("read", {"path": path})]))
    engine = host.engine()
    assert await host.turn(engine) == DONE
    await engine.aclose()
    assert host.results()[0].is_error


# 4. Text that was withdrawn comes back as the turn's partial text
async def test_a_cancel_while_a_withdrawn_reply_waits_to_be_asked_again_keeps_nothing(
    host: RecorderHost, model: ScriptedModel
) -> None:
    raw = b'data: {"choices": [{"delta": {"content": "withdrawn"}}]}\n\ndata: {"error": "busy"}\n\n'
    model.script(*[Reply(raw=raw)] * 5)
    engine = host.engine()
    running = asyncio.create_task(host.turn(engine))
    await host.until(events.Notice, 4)  # the longest wait: nothing is asked meanwhile
    engine.cancel()
    assert await running == CANCELLED
    await engine.aclose()
    assert [one.text for one in host.records if isinstance(one, Assistant)] == []


# 5. An output of few long lines loses its end, which is where the error stands
def test_an_output_of_few_long_lines_keeps_its_tail() -> None:
    text = "".join(f"{number:03} {'x' * 996}\n" for number in range(100)) + "error: here\n"
    assert capped(text, LOOP.context, "#0001").endswith("error: here\n")


# 6. Calls that all have the index 0, streamed in pieces, are mixed up (Ollama and others)
def assembled(*parts: dict[str, Any]) -> list[tuple[str, str]]:
    numbers = itertools.count(1)
    one = ReplyAssembler(lambda: f"call_{next(numbers):016x}", set())
    for part in parts:
        one.feed(msgspec.json.encode({"choices": [{"delta": {"tool_calls": [part]}}]}))
    return [(call.name, call.arguments) for call in one.reply().calls]


def test_pieces_of_a_second_call_of_the_same_index_go_to_it() -> None:
    assert assembled(
        {"index": 0, "id": "a", "function": {"name": "read", "arguments": "{}"}},
        {"index": 0, "id": "b", "function": {"name": "list", "arguments": "{"}},
        {"index": 0, "function": {"arguments": "}"}},
    ) == [("read", "{}"), ("list", "{}")]


def test_an_id_that_comes_with_each_piece_and_without_an_index_is_one_call() -> None:
    assert assembled(
        {"id": "a", "function": {"name": "read", "arguments": "{"}},
        {"id": "a", "function": {"name": "read", "arguments": "}"}},
    ) == [("read", "{}")]


# 7. Content that comes as parts is dropped without a word (Mistral and others)
def test_content_in_parts_is_read() -> None:
    one = ReplyAssembler(lambda: "call_1", set())
    parts = [{"type": "text", "text": "Hello"}]
    one.feed(msgspec.json.encode({"choices": [{"delta": {"content": parts}}]}))
    assert one.reply().text == "Hello"


# 8. A model that fails as the turn is cancelled makes it a failed turn
def test_a_failure_after_a_cancel_is_a_cancel() -> None:
    machine = TurnMachine(Limits(3))
    machine.handle(Begin())
    machine.handle(CancelCame())
    assert machine.handle(Failed(TurnError(-32603, "away"))) == [Finish("cancelled")]


# 9. Files
def test_a_directory_is_said_to_be_one_and_no_descriptor_is_lost(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    desk = Desk(tmp_path)
    desk.read("x")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    assert desk.read("x").output == "x is a directory, not a file"
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_a_file_that_is_listed_is_said_to_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    assert Desk(tmp_path).listing("a.txt").output == "a.txt is a file, not a directory; read it"


def test_lines_are_counted_as_editors_do(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\x0c\ntwo\u2028still two\nthree\n")
    assert Desk(tmp_path).read("a.py").output.split("\n")[-1] == "     3\tthree"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_may_not_be_written_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("kept")
    path.chmod(0o444)
    assert Desk(tmp_path).edit("a.txt", "kept", "x").is_error


async def test_a_listing_shows_nothing_of_a_protected_directory(
    host: RecorderHost, model: ScriptedModel
) -> None:
    (host.root / "secret").mkdir()
    (host.root / "secret" / "name-of-a-key").touch()
    host.protected = [host.root / "secret"]
    model.script(Reply(calls=[("list", {})]))
    engine = host.engine()
    await host.turn(engine)
    await engine.aclose()
    assert "name-of-a-key" not in host.results()[0].output


# 10. Commands
@pytest.mark.parametrize("timeout", [-5, 0])
async def test_a_timeout_below_one_is_refused(
    host: RecorderHost,
    model: ScriptedModel,
    timeout: int,  # noqa: ASYNC109
) -> None:
    model.script(Reply(calls=[("bash", {"command": "echo hi", "timeout": timeout})]))
    engine = host.engine()
    await host.turn(engine)
    await engine.aclose()
    assert "'timeout'" in host.results()[0].output


async def test_standard_output_can_be_opened_by_its_name(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.script(
        Reply(calls=[("bash", {"command": "echo hi > /dev/stdout; echo e > /dev/stderr"})])
    )
    engine = host.engine()
    await host.turn(engine)
    await engine.aclose()
    assert host.results()[0].output == "hi\ne\n"


# 11. Requests
async def test_thinking_that_is_off_is_said_to_be_off(
    host: RecorderHost, model: ScriptedModel
) -> None:
    from lembasd.engine.native.engine import NativeEngine

    engine = NativeEngine(host, [], mode="auto", model="scripted", effort="off", epoch=1)
    await host.turn(engine)
    await engine.aclose()
    assert model.requests[0].get("chat_template_kwargs") == {"enable_thinking": False}


async def test_a_session_without_a_model_says_what_to_do(
    host: RecorderHost, model: ScriptedModel
) -> None:
    from lembasd.engine.native.engine import NativeEngine

    engine = NativeEngine(host, [], mode="auto", model="", effort="default", epoch=1)
    outcome = await host.turn(engine)
    await engine.aclose()
    assert outcome.error is not None
    assert model.requests == []


async def test_a_server_that_wants_a_longer_wait_than_the_bound_is_not_asked_early(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.script(Reply(status=429, raw=b"", headers={"Retry-After": "3600"}))
    engine = host.engine()
    outcome = await asyncio.wait_for(host.turn(engine), 5)
    await engine.aclose()
    assert outcome.error is not None


# 12. Streams
def test_an_empty_chunk_after_a_cr_changes_nothing() -> None:
    stream = EventStream()
    assert stream.feed(b"data: a\r") + stream.feed(b"") + stream.feed(b"\ndata: b\n\n") == [b"a\nb"]


# 13. Results stand in the order of their calls, whichever ends first
def test_results_are_sent_in_the_order_of_their_calls() -> None:
    from lembasd.store.records import ToolResult

    calls = [
        Call(id=f"c{n}", server_id=f"s{n}", name="read", arguments="{}", args={}) for n in (1, 2)
    ]
    conversation = Conversation(
        [
            Assistant(turn_id="t", message_id="m", model="x", calls=calls),
            ToolResult(call_id="c2", result_id="#0001", output="2"),
            ToolResult(call_id="c1", result_id="#0002", output="1"),
        ]
    )
    assert [one.get("tool_call_id") for one in conversation.messages()[2:]] == ["s1", "s2"]
