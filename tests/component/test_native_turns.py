"""Turns of the native engine: a scripted model on a real socket, real files, real commands."""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lembasd.engine.api import TurnOutcome
from lembasd.protocol import events
from lembasd.protocol.control import Account
from lembasd.store.records import (
    AnyRecord,
    Assistant,
    Call,
    SystemPrompt,
    ToolResult,
    ToolStarted,
    TurnAccepted,
    TurnStarted,
)
from tests.support.recorder_host import MODEL, RecorderHost
from tests.support.scripted_model import Reply, ScriptedModel

DONE = TurnOutcome(stop_reason="end_turn")
CANCELLED = TurnOutcome(stop_reason="cancelled")


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel() as scripted:
        yield scripted


@pytest.fixture
def host(tmp_path: Path, model: ScriptedModel) -> RecorderHost:
    project = tmp_path / "project"
    project.mkdir()
    return RecorderHost(project, model.base_url)


def reason(outcome: TurnOutcome) -> str | None:
    return (outcome.error.data or {}).get("reason") if outcome.error is not None else None


# ── what a turn says and keeps ──────────────────────────────────────────────────────────────────


async def test_a_turn_streams_its_reply_and_records_it(
    model: ScriptedModel, host: RecorderHost
) -> None:
    model.script(Reply(text="Hello.", reasoning="hm"))
    engine = host.engine()
    assert await host.turn(engine, "hi") == DONE
    await engine.aclose()
    said = host.of(Assistant)[0]
    assert said == Assistant(
        turn_id="t1",
        message_id=said.message_id,
        model=MODEL,
        text="Hello.",
        reasoning="hm",
        input_tokens=7,
        output_tokens=3,
    )
    assert host.events == [
        events.Step(n=1, model=MODEL),
        events.Reasoning(text="hm", messageId=said.message_id),
        events.Text(text="Hel", messageId=said.message_id),
        events.Text(text="lo.", messageId=said.message_id),
        events.Usage(input=7, output=3, context=10),
    ]


async def test_a_request_says_what_is_asked_for(model: ScriptedModel, host: RecorderHost) -> None:
    engine = host.engine(effort="high")
    await host.turn(engine, "hi")
    await engine.aclose()
    body = model.requests[0]
    assert {key: body[key] for key in body if key not in ("messages", "tools")} == {
        "model": MODEL,
        "stream": True,
        "stream_options": {"include_usage": True},
        "reasoning_effort": "high",
    }
    names = [tool["function"]["name"] for tool in body["tools"]]
    assert names == ["bash", "edit", "list", "read", "write"]
    assert body["messages"][1:] == [{"role": "user", "content": "hi"}]
    assert model.authorizations == ["Bearer token"]


async def test_a_file_is_read_edited_and_run(model: ScriptedModel, host: RecorderHost) -> None:
    (host.root / "greet.sh").write_text("echo Helo\n")
    model.script(
        Reply(text="I look.", calls=[("read", {"path": "greet.sh"})]),
        Reply(calls=[("edit", {"path": "greet.sh", "old": "Helo", "new": "Hello"})]),
        Reply(calls=[("bash", {"command": "sh greet.sh", "purpose": "To see it."})]),
        Reply(text="Done."),
    )
    engine = host.engine()
    assert await host.turn(engine, "fix it") == DONE
    await engine.aclose()
    diff = "--- a/greet.sh\n+++ b/greet.sh\n@@ -1 +1 @@\n-echo Helo\n+echo Hello"
    results = [(one.result_id, one.output, one.is_error, one.diff) for one in host.of(ToolResult)]
    assert results == [
        ("#0001", "     1\techo Helo", False, None),
        ("#0002", diff, False, diff),
        ("#0003", "Hello\n", False, None),
    ]
    starts = [(one.name, one.title, one.block, one.args) for one in host.of(events.ToolStart)]
    assert starts == [
        ("read", "read greet.sh", "read", {"path": "greet.sh"}),
        (
            "edit",
            "edit greet.sh",
            "edit",
            {"path": "greet.sh", "old": "Helo", "new": "Hello"},
        ),
        (
            "bash",
            "sh greet.sh",
            "shell",
            {"command": "sh greet.sh", "purpose": "To see it."},
        ),
    ]
    assert host.of(events.ToolStart)[2].purpose == "To see it."
    ends = [(one.resultId, one.isError, one.output, one.diff) for one in host.of(events.ToolEnd)]
    assert [end[:3] for end in ends] == [(one[0], one[2], one[1]) for one in results]
    assert [event.n for event in host.of(events.Step)] == [1, 2, 3, 4]


async def test_what_was_sent_once_is_sent_again_byte_for_byte(
    model: ScriptedModel, host: RecorderHost
) -> None:
    (host.root / "a.txt").write_text("a\n")
    model.script(
        Reply(text="I look.", calls=[("read", {"path": "a.txt"}), ("list", {})]),
        Reply(calls=[("bash", {"command": "echo b"})]),
        Reply(text="Done."),
        Reply(text="Again."),
    )
    engine = host.engine()
    await host.turn(engine, "one")
    await host.turn(engine, "two")
    await engine.aclose()
    sent = [request["messages"] for request in model.requests]
    for earlier, later in itertools.pairwise(sent):
        assert later[: len(earlier)] == earlier
    assert all(request["tools"] == model.requests[0]["tools"] for request in model.requests)


async def test_the_records_of_a_step_are_written_before_it_is_told(
    model: ScriptedModel, host: RecorderHost
) -> None:
    model.script(Reply(calls=[("write", {"path": "a.txt", "content": "x"})]))
    seen: list[bool] = []

    def look(record: AnyRecord) -> None:
        if isinstance(record, ToolStarted):
            seen.append((host.root / "a.txt").exists())

    host.on_record = look
    engine = host.engine()
    assert await host.turn(engine, "write") == DONE
    await engine.aclose()
    assert seen == [False]
    kinds = [type(one) for one in host.log]
    assert kinds.index(ToolResult) < kinds.index(events.ToolEnd)
    assert kinds.index(Assistant) < kinds.index(events.ToolStart) < kinds.index(events.ToolEnd)


# ── calls that cannot run ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (("bash", '{"command": "touch ran'), "The arguments are not a JSON object"),
        (("fly", {}), "There is no tool 'fly'"),
        (("bash", {}), "bash needs 'command'"),
    ],
)
async def test_a_call_that_cannot_run_gets_an_error_for_its_result(
    model: ScriptedModel, host: RecorderHost, call: tuple[str, dict[str, object] | str], says: str
) -> None:
    model.script(Reply(calls=[call]), Reply(text="Sorry."))
    engine = host.engine()
    assert await host.turn(engine, "go") == DONE
    await engine.aclose()
    result = host.of(ToolResult)[0]
    assert (result.is_error, result.output.startswith(says)) == (True, True)
    assert host.of(ToolStarted) == []
    assert host.of(events.ToolEnd)[0].isError
    assert list(host.root.iterdir()) == []


async def test_a_reply_cut_at_the_output_limit_runs_none_of_its_calls(
    model: ScriptedModel, host: RecorderHost
) -> None:
    model.script(Reply(calls=[("bash", {"command": "touch ran"})], finish="length"))
    engine = host.engine()
    assert await host.turn(engine, "go") == TurnOutcome(stop_reason="max_tokens")
    assert await host.turn(engine, "go on") == DONE
    await engine.aclose()
    assert list(host.root.iterdir()) == []
    assert host.of(ToolStarted) == []


# ── the model's server ──────────────────────────────────────────────────────────────────────────


async def test_without_a_login_the_turn_fails_and_says_what_to_do(host: RecorderHost) -> None:
    host.current = RecorderHost(host.root, None).current
    outcome = await host.turn(host.engine(), "hi")
    assert outcome.error is not None
    assert outcome.error.message == (
        "this device is not logged in to an instance; run `lembas login`"
    )
    assert reason(outcome) == "model"
    assert [one.message for one in host.of(events.Error)] == [outcome.error.message]


async def test_a_refused_token_is_replaced_once(model: ScriptedModel, host: RecorderHost) -> None:
    model.script(Reply(status=401, raw=b""), Reply(text="Hello."))
    host.newer = Account(base_url=model.base_url, token="newer")
    engine = host.engine()
    assert await host.turn(engine, "hi") == DONE
    await engine.aclose()
    assert model.authorizations == ["Bearer token", "Bearer newer"]
    assert [one and one.token for one in host.refused] == ["token"]


async def test_a_token_refused_twice_fails_the_turn(
    model: ScriptedModel, host: RecorderHost
) -> None:
    model.script(Reply(status=401, raw=b""), Reply(status=401, raw=b""))
    host.newer = Account(base_url=model.base_url, token="newer")
    engine = host.engine()
    outcome = await host.turn(engine, "hi")
    await engine.aclose()
    assert outcome.error is not None
    assert "lembas login" in outcome.error.message
    assert outcome.error.data == {"reason": "model", "status": 401}
    assert len(model.requests) == 2


async def test_a_new_token_is_not_sent_to_another_server_than_the_sessions(
    model: ScriptedModel, host: RecorderHost
) -> None:
    model.script(Reply(status=401, raw=b""))
    host.newer = Account(base_url="http://127.0.0.1:1", token="newer")
    engine = host.engine()
    outcome = await host.turn(engine, "hi")
    await engine.aclose()
    assert outcome.error is not None
    assert "another instance" in outcome.error.message


@pytest.mark.parametrize("status", [400, 403, 404, 422])
async def test_a_request_that_is_refused_is_not_repeated(
    model: ScriptedModel, host: RecorderHost, status: int
) -> None:
    model.script(Reply(status=status, raw=b'{"error": {"message": "no such model"}}'))
    engine = host.engine()
    outcome = await host.turn(engine, "hi")
    await engine.aclose()
    assert outcome.error is not None
    assert "no such model" in outcome.error.message
    assert outcome.error.data == {"reason": "model", "status": status}
    assert len(model.requests) == 1


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_fault_that_may_pass_is_waited_for_and_told(
    model: ScriptedModel, host: RecorderHost, status: int
) -> None:
    model.script(Reply(status=status, raw=b"busy", headers={"Retry-After": "0"}), Reply(text="Hi."))
    engine = host.engine()
    assert await host.turn(engine, "hi") == DONE
    await engine.aclose()
    notices = host.of(events.Notice)
    assert [one.level for one in notices] == ["warning"]
    assert str(status) in notices[0].text
    assert "busy" in notices[0].text
    assert host.of(events.Retract) == []


async def test_a_reply_that_breaks_off_is_withdrawn_and_asked_again(
    model: ScriptedModel, host: RecorderHost
) -> None:
    model.script(Reply(text="Half of it", drop=True), Reply(text="The whole."))
    engine = host.engine()
    assert await host.turn(engine, "hi") == DONE
    await engine.aclose()
    first = host.of(events.Text)[0].messageId
    assert host.of(events.Retract) == [events.Retract(messageId=first)]
    said = host.of(Assistant)
    assert [one.text for one in said] == ["The whole."]
    assert said[0].message_id != first
    assert host.of(events.Text)[-1].messageId == said[0].message_id


async def test_an_error_in_the_stream_is_asked_again(
    model: ScriptedModel, host: RecorderHost
) -> None:
    model.script(Reply(raw=b'data: {"error": {"message": "overloaded"}}\n\n'), Reply(text="Hello."))
    engine = host.engine()
    assert await host.turn(engine, "hi") == DONE
    await engine.aclose()
    assert "overloaded" in host.of(events.Notice)[0].text


async def test_a_server_that_does_not_stream_is_understood(
    model: ScriptedModel, host: RecorderHost
) -> None:
    raw = b'{"choices": [{"message": {"content": "Hello."}, "finish_reason": "stop"}]}'
    model.script(Reply(raw=raw, headers={"Content-Type": "application/json"}))
    engine = host.engine()
    assert await host.turn(engine, "hi") == DONE
    await engine.aclose()
    assert host.of(Assistant)[0].text == "Hello."


# ── cancel ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_cancelled_reply_keeps_its_text_so_far(
    model: ScriptedModel, host: RecorderHost
) -> None:
    model.script(Reply(text="Half a reply", hold=asyncio.Event()), Reply(text="Hello."))
    engine = host.engine()
    turn = asyncio.ensure_future(host.turn(engine, "one"))
    await host.until(events.Text, 2)
    engine.cancel()
    assert await turn == CANCELLED
    assert [(one.text, one.partial) for one in host.of(Assistant)] == [("Half a reply", True)]
    assert await host.turn(engine, "two") == DONE
    await engine.aclose()
    assert model.requests[-1]["messages"][1:] == [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "Half a reply"},
        {"role": "user", "content": "two"},
    ]


async def test_a_cancel_before_any_text_keeps_nothing(
    model: ScriptedModel, host: RecorderHost
) -> None:
    model.script(Reply(hold=asyncio.Event()))
    engine = host.engine()
    turn = asyncio.ensure_future(host.turn(engine, "one"))
    await model.asked.get()
    engine.cancel()
    assert await turn == CANCELLED
    await engine.aclose()
    assert host.of(Assistant) == []


async def test_a_cancel_breaks_the_wait_for_a_server(
    model: ScriptedModel, host: RecorderHost
) -> None:
    model.script(Reply(status=503, raw=b"", headers={"Retry-After": "60"}))
    engine = host.engine()
    turn = asyncio.ensure_future(host.turn(engine, "one"))
    await host.until(events.Notice)
    engine.cancel()
    assert await turn == CANCELLED
    await engine.aclose()


async def test_a_cancel_ends_the_command_and_answers_every_call(
    model: ScriptedModel, host: RecorderHost
) -> None:
    # what the command writes there, the test reads: then it runs
    os.mkfifo(host.root / "pid")
    command = "echo $$ > pid; sleep 1000 & wait"
    model.script(
        Reply(calls=[("bash", {"command": command}), ("bash", {"command": "touch second"})]),
        Reply(text="Hello."),
    )
    engine = host.engine()
    turn = asyncio.ensure_future(host.turn(engine, "one"))
    pid = int(await asyncio.to_thread((host.root / "pid").read_text))
    engine.cancel()
    assert await turn == CANCELLED
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert [(one.is_error, one.output) for one in host.of(ToolResult)] == [
        (True, "Cancelled by the person while it ran; what it had done stays."),
        (True, "Cancelled by the person before it ran."),
    ]
    assert not (host.root / "second").exists()
    # the session goes on, and the server finds a result for each call
    assert await host.turn(engine, "two") == DONE
    await engine.aclose()


async def test_a_cancel_when_nothing_runs_does_nothing(
    model: ScriptedModel, host: RecorderHost
) -> None:
    engine = host.engine()
    engine.cancel()
    assert await host.turn(engine, "hi") == DONE
    engine.cancel()
    assert await host.turn(engine, "hi") == DONE
    await engine.aclose()


# ── a session that is taken up again ────────────────────────────────────────────────────────────


def died_in_the_middle(host: RecorderHost) -> None:
    """The journal of a worker that died while the first of two calls ran."""
    calls = [
        Call(id=f"call_{n}", server_id=f"s{n}", name="bash", arguments="{}", args={})
        for n in (1, 2)
    ]
    host.journal += [
        SystemPrompt(text="You are."),
        TurnAccepted(turn_id="t1", text="go"),
        TurnStarted(turn_id="t1"),
        Assistant(turn_id="t1", message_id="m1", model=MODEL, text="I go.", calls=calls),
        ToolStarted(call_id="call_1"),
    ]


async def test_a_call_whose_process_died_is_told_as_unknown_and_one_that_waited_as_not_run(
    model: ScriptedModel, host: RecorderHost
) -> None:
    died_in_the_middle(host)
    engine = host.engine()
    assert await host.turn(engine, "what now?") == DONE
    await engine.aclose()
    messages = model.requests[0]["messages"]
    assert [message["role"] for message in messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
    ]
    assert messages[3]["content"].startswith("Outcome unknown")
    assert messages[4]["content"].startswith("This did not run")
    assert [(one.call_id, one.result_id, one.is_error) for one in host.of(ToolResult)] == [
        ("call_1", "#0001", True),
        ("call_2", "#0002", True),
    ]


async def test_the_system_prompt_is_made_once_for_a_session(
    model: ScriptedModel, host: RecorderHost
) -> None:
    engine = host.engine()
    await host.turn(engine, "one")
    await engine.aclose()
    again = host.engine()
    await host.turn(again, "two")
    await again.aclose()
    first, second = (request["messages"][0] for request in model.requests)
    assert first == second == {"role": "system", "content": host.of(SystemPrompt)[0].text}
    assert len(host.of(SystemPrompt)) == 1
    assert "project" in first["content"]
    assert str(host.root) not in first["content"]


async def test_result_ids_count_on_over_the_lives_of_a_session(
    model: ScriptedModel, host: RecorderHost
) -> None:
    model.script(Reply(calls=[("list", {})]), Reply(text="One."), Reply(calls=[("list", {})]))
    for text in ("one", "two"):
        engine = host.engine()
        await host.turn(engine, text)
        await engine.aclose()
    assert [one.result_id for one in host.of(ToolResult)] == ["#0001", "#0002"]
    ids = [
        call["id"] for call in (model.requests[-1]["messages"][i]["tool_calls"][0] for i in (2, 6))
    ]
    assert len(set(ids)) == 2


# ── a journal that cannot be written ────────────────────────────────────────────────────────────


async def test_a_disk_that_is_full_ends_the_turn_and_its_command(
    model: ScriptedModel, host: RecorderHost
) -> None:
    model.script(Reply(calls=[("bash", {"command": "echo hi"})]))

    def full(record: AnyRecord) -> None:
        if isinstance(record, ToolResult):
            raise OSError(28, "No space left on device")

    host.on_record = full
    engine = host.engine()
    with pytest.raises(OSError, match="No space"):
        await host.turn(engine, "go")
    await engine.aclose()
    assert host.of(events.ToolEnd) == []
