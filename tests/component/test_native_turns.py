"""Turns of the native engine: a real HTTP model, real files, real commands."""

import asyncio
from pathlib import Path

import pytest

from lembasd.engine.api import Decision, TurnOutcome
from lembasd.engine.native.core.context import DID_NOT_RUN, OUTCOME_UNKNOWN
from lembasd.engine.native.core.turn import CANCELLED_TEXT, TRUNCATED_TEXT
from lembasd.harness.loader import LOOP
from lembasd.protocol import events
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
from tests.support.recorder_host import RecorderHost
from tests.support.scripted_model import Reply, ScriptedModel

ENDED = TurnOutcome(stop_reason="end_turn")
CANCELLED = TurnOutcome(stop_reason="cancelled")


async def test_a_turn_streams_its_text_and_ends(host: RecorderHost, model: ScriptedModel) -> None:
    model.script(Reply(text="Hello!", reasoning="hm"))
    engine = host.engine()
    assert await host.turn(engine) == ENDED
    await engine.aclose()
    kept = await host.until(Assistant)
    assert host.events == [
        events.Step(n=1, model="scripted"),
        events.Reasoning(text="hm", messageId=kept.message_id),
        events.Text(text="Hel", messageId=kept.message_id),
        events.Text(text="lo!", messageId=kept.message_id),
        events.Usage(input=7, output=3, context=10),
    ]
    assert (kept.text, kept.reasoning, kept.calls, kept.partial) == ("Hello!", "hm", [], False)
    assert model.authorizations == ["Bearer first"]


async def test_a_call_runs_and_its_result_goes_to_the_next_request(
    host: RecorderHost, model: ScriptedModel
) -> None:
    (host.root / "a.txt").write_text("one\n")
    model.script(Reply(text="I look.", calls=[("read", {"path": "a.txt"})]), Reply(text="Done."))
    engine = host.engine()
    assert await host.turn(engine) == ENDED
    await engine.aclose()
    assert [message["role"] for message in model.requests[1]["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
    ]
    [end], [result] = host.ends(), host.results()
    assert (result.result_id, result.output, result.is_error) == ("#0001", "     1\tone", False)
    assert (end.resultId, end.output) == (result.result_id, result.output)


async def test_a_call_is_recorded_before_its_effect_and_its_result_before_it_is_told(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.script(Reply(calls=[("write", {"path": "a", "content": "x\n"})]))
    engine = host.engine()
    await host.turn(engine)
    await engine.aclose()
    told = [type(one) for one in host.said]
    expected = [Assistant, events.ToolStart, ToolStarted, ToolResult, events.ToolEnd]
    assert [kind for kind in told if kind in expected][:5] == expected


async def test_the_prefix_of_a_session_is_resent_byte_for_byte(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.script(Reply(calls=[("list", {})]), Reply(text="one"), Reply(text="two"))
    engine = host.engine()
    await host.turn(engine)
    await engine.aclose()
    reopened = RecorderHost(host.root, model.base_url)
    engine = reopened.engine(records=host.records)
    await reopened.turn(engine, "t2", "more")
    await engine.aclose()
    before, after = model.requests[1], model.requests[2]
    assert after["messages"][: len(before["messages"])] == before["messages"]
    assert after["tools"] == before["tools"]
    assert [one for one in reopened.records if isinstance(one, SystemPrompt)] == []


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            ("fly", {}),
            "There is no tool 'fly'. There are: apply_patch, bash, edit, glob, grep, list, multiedit, read, recall, settings, web_fetch, write.",
        ),
        (("read", "[1]"), "The arguments are not a JSON object; send them again."),
        (
            ("read", "{oops"),
            "The arguments end in their middle, so nothing was done; send less at once.",
        ),
        (("read", {}), "read needs 'path'."),
    ],
)
async def test_a_call_that_cannot_run_is_answered_with_why(
    host: RecorderHost, model: ScriptedModel, call: tuple[str, dict[str, object] | str], says: str
) -> None:
    model.script(Reply(calls=[call]))
    engine = host.engine()
    assert await host.turn(engine) == ENDED
    await engine.aclose()
    assert [(one.output, one.is_error) for one in host.results()] == [(says, True)]


async def test_a_reply_cut_off_at_its_limit_runs_none_of_its_calls(
    host: RecorderHost, model: ScriptedModel
) -> None:
    cut = Reply(calls=[("write", {"path": "a", "content": "x"})], finish="length")
    model.script(cut, cut)
    engine = host.engine()
    assert await host.turn(engine) == TurnOutcome(stop_reason="max_tokens")
    await engine.aclose()
    assert [one.output for one in host.results()] == [TRUNCATED_TEXT, TRUNCATED_TEXT]
    assert not (host.root / "a").exists()


async def test_result_ids_count_over_the_session(host: RecorderHost, model: ScriptedModel) -> None:
    model.script(Reply(calls=[("list", {}), ("list", {})]), Reply(), Reply(calls=[("list", {})]))
    engine = host.engine()
    await host.turn(engine)
    await host.turn(engine, "t2")
    await engine.aclose()
    assert sorted(one.result_id for one in host.results()) == ["#0001", "#0002", "#0003"]


# ── permissions ─────────────────────────────────────────────────────────────────────────────────


async def test_a_command_in_manual_mode_asks_and_runs_once_allowed(
    host: RecorderHost, model: ScriptedModel
) -> None:
    host.decisions = [Decision(outcome="once")]
    model.script(Reply(calls=[("bash", {"command": "expr 1 + 1", "purpose": "to add"})]))
    engine = host.engine("manual")
    assert await host.turn(engine) == ENDED
    await engine.aclose()
    [card] = host.cards
    assert (card.name, card.kind, card.title, card.purpose, card.always) == (
        "bash",
        "execute",
        "expr 1 + 1",
        "to add",
        "expr 1 + 1",
    )
    assert [one.output for one in host.results()] == ["2\n"]


async def test_a_card_shows_what_runs_not_what_the_model_calls_it(
    host: RecorderHost, model: ScriptedModel
) -> None:
    host.decisions = [Decision(outcome="deny")]
    args = {"command": "expr 1\nexpr \u202e2", "description": "run the tests"}
    model.script(Reply(calls=[("bash", args)]))
    engine = host.engine("manual")
    await host.turn(engine)
    await engine.aclose()
    [card] = host.cards
    assert (card.title, card.reason, card.purpose) == (
        "expr 1\\nexpr \\u202e2",
        "the manual mode asks before execute calls; it holds characters that are not shown as they are: U+202E",
        "run the tests",
    )


async def test_a_corrected_command_runs_in_place_of_the_models(
    host: RecorderHost, model: ScriptedModel
) -> None:
    host.decisions = [Decision(outcome="once", command="echo corrected")]
    model.script(Reply(calls=[("bash", {"command": "expr 1"})]))
    engine = host.engine("manual")
    await host.turn(engine)
    await engine.aclose()
    [result] = host.results()
    assert (result.output.splitlines()[-1], result.is_error) == ("corrected", False)


async def test_a_command_allowed_for_the_session_is_asked_once_and_another_again(
    host: RecorderHost, model: ScriptedModel
) -> None:
    host.decisions = [Decision(outcome="session"), Decision(outcome="deny")]
    same, other = ("bash", {"command": "expr 1"}), ("bash", {"command": "expr 2"})
    model.script(Reply(calls=[same]), Reply(calls=[same]), Reply(calls=[other]))
    engine = host.engine("manual")
    await host.turn(engine)
    await engine.aclose()
    assert [card.args["command"] for card in host.cards] == ["expr 1", "expr 2"]


@pytest.mark.parametrize(
    ("decision", "by", "says"),
    [
        (Decision(outcome="deny"), "person", "The person denied this call"),
        (
            Decision(outcome="deny", feedback="use make"),
            "person",
            "The person denied this call: use make",
        ),
        (
            Decision(outcome="timeout"),
            "timeout",
            "Nobody answered in time, so this call was denied",
        ),
    ],
)
async def test_a_denied_call_does_not_run_and_says_why(
    host: RecorderHost, model: ScriptedModel, decision: Decision, by: str, says: str
) -> None:
    host.decisions = [decision]
    model.script(Reply(calls=[("write", {"path": "a", "content": "x"})]))
    engine = host.engine("manual")
    assert await host.turn(engine) == ENDED
    await engine.aclose()
    [denied] = [one for one in host.events if isinstance(one, events.ToolDenied)]
    assert (denied.name, denied.reason, denied.by) == ("write", says, by)
    assert [(one.output, one.denied_by) for one in host.results()] == [(says, by)]
    assert not (host.root / "a").exists()
    assert host.ends() == []


async def test_plan_mode_writes_nothing_and_asks_nobody(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.script(Reply(calls=[("write", {"path": "a", "content": "x"})]))
    engine = host.engine("plan")
    await host.turn(engine)
    await engine.aclose()
    assert [one.denied_by for one in host.results()] == ["mode"]
    assert (host.cards, list(host.root.iterdir())) == ([], [])


async def test_a_mode_set_during_a_turn_judges_its_next_call(
    host: RecorderHost, model: ScriptedModel
) -> None:
    go = asyncio.Event()
    model.script(Reply(text="wait", calls=[("write", {"path": "a", "content": "x"})], hold=go))
    engine = host.engine("plan")
    running = asyncio.create_task(host.turn(engine))
    await model.asked.get()
    engine.set_mode("auto")
    go.set()
    assert await running == ENDED
    await engine.aclose()
    assert (host.root / "a").read_text() == "x"


@pytest.mark.parametrize("name", ["read", "write", "edit", "list"])
async def test_a_protected_path_is_refused_through_a_link_too(
    host: RecorderHost, model: ScriptedModel, short_tmp: Path, name: str
) -> None:
    secret = (short_tmp / "secret").resolve()
    secret.mkdir()
    (secret / "token").write_text("hidden")
    host.protected = [secret]
    (host.root / "link").symlink_to(secret)
    args = {"path": "link/token", "content": "x", "old": "hidden", "new": "x"}
    model.script(Reply(calls=[(name, args)]))
    engine = host.engine("auto")
    await host.turn(engine)
    await engine.aclose()
    assert [one.denied_by for one in host.results()] == ["floor"]
    assert (secret / "token").read_text() == "hidden"


async def test_edit_mode_asks_before_it_writes_through_a_link_that_leads_outside(
    host: RecorderHost, model: ScriptedModel, short_tmp: Path
) -> None:
    (host.root / "out").symlink_to(short_tmp)
    host.decisions = [Decision(outcome="deny")]
    calls = [("write", {"path": path, "content": "x"}) for path in ("in", "out/a", "../b")]
    host.decisions *= 2
    model.script(Reply(calls=[*calls]))
    engine = host.engine("edit")
    await host.turn(engine)
    await engine.aclose()
    assert [card.args["path"] for card in host.cards] == ["out/a", "../b"]
    leads = host.root.parent / "a"
    assert [card.reason for card in host.cards] == [
        f"it writes outside the project; out/a leads to {leads}",
        "it writes outside the project",
    ]


# ── cancel, and what an earlier life left ───────────────────────────────────────────────────────


async def test_a_cancel_keeps_the_text_so_far(host: RecorderHost, model: ScriptedModel) -> None:
    model.script(Reply(text="half a reply", hold=asyncio.Event()))
    engine = host.engine()
    running = asyncio.create_task(host.turn(engine))
    await host.until(events.Text, 2)
    engine.cancel()
    assert await running == CANCELLED
    kept = await host.until(Assistant)
    assert (kept.text, kept.partial) == ("half a reply", True)
    assert await host.turn(engine, "t2") == ENDED
    await engine.aclose()
    assert model.requests[1]["messages"][2] == {"role": "assistant", "content": "half a reply"}


async def test_a_cancel_while_a_card_waits_gives_each_call_its_result(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.script(Reply(calls=[("bash", {"command": "expr 1"}), ("bash", {"command": "expr 2"})]))
    engine = host.engine("manual")
    running = asyncio.create_task(host.turn(engine))
    await host.card_asked.wait()
    engine.cancel()
    assert await running == CANCELLED
    assert [one.output for one in host.results()] == [CANCELLED_TEXT] * 2
    assert await host.turn(engine, "t2") == ENDED
    await engine.aclose()


async def test_a_cancel_when_nothing_runs_does_nothing(
    host: RecorderHost, model: ScriptedModel
) -> None:
    engine = host.engine()
    engine.cancel()
    assert await host.turn(engine) == ENDED
    engine.cancel()
    assert await host.turn(engine, "t2") == ENDED
    await engine.aclose()


async def test_calls_that_an_earlier_life_left_open_are_told_apart(
    host: RecorderHost, model: ScriptedModel
) -> None:
    calls = [
        Call(id=f"call_{n}", server_id=f"s{n}", name="bash", arguments="{}", args={})
        for n in (1, 2)
    ]
    left: list[AnyRecord] = [
        SystemPrompt(text="Be brief."),
        TurnAccepted(turn_id="t0", text="before"),
        TurnStarted(turn_id="t0"),
        Assistant(turn_id="t0", message_id="m", model="scripted", calls=calls),
        ToolStarted(call_id="call_1"),
    ]
    engine = host.engine(records=left)
    assert await host.turn(engine) == ENDED
    await engine.aclose()
    assert [one.output for one in host.results()] == [OUTCOME_UNKNOWN, DID_NOT_RUN]
    assert [one["role"] for one in model.requests[0]["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
    ]


async def test_a_full_disk_ends_the_turn_with_its_error(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.script(Reply(calls=[("write", {"path": "a", "content": "x"})]))
    host.full_disk = lambda record: isinstance(record, ToolStarted)
    engine = host.engine()
    with pytest.raises(OSError, match="No space"):
        await host.turn(engine)
    assert not (host.root / "a").exists()
    host.full_disk = lambda _record: False
    assert await host.turn(engine, "t2") == ENDED
    await engine.aclose()
    assert [one.output for one in host.results()] == [DID_NOT_RUN]


# ── words in the middle of a turn ───────────────────────────────────────────────────────────────


def users(model: ScriptedModel) -> list[str]:
    """What the last request holds of user messages."""
    return [one["content"] for one in model.requests[-1]["messages"] if one["role"] == "user"]


async def test_a_model_that_says_nothing_is_told_to_go_on_twice(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.script(Reply(reasoning="hm"), Reply(text=" "), Reply())
    engine = host.engine()
    assert await host.turn(engine) == ENDED
    await engine.aclose()
    assert users(model) == ["go", LOOP.steps.texts["empty"], LOOP.steps.texts["empty"]]


async def test_a_reply_that_was_cut_off_goes_on_where_it_stopped(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.script(Reply(text="half", finish="length"), Reply(text="the rest"))
    engine = host.engine()
    assert await host.turn(engine) == ENDED
    await engine.aclose()
    assert users(model) == ["go", LOOP.steps.texts["cut"]]
    assert [one.text for one in host.records if isinstance(one, Assistant)] == ["half", "the rest"]


async def test_the_same_call_with_the_same_result_is_told_then_refused_until_something_changes(
    host: RecorderHost, model: ScriptedModel
) -> None:
    ran, target = host.root / "ran", host.root / "a"
    target.write_text("x")
    command = "echo >> ran; cat a"
    model.script(
        *(Reply(calls=[("bash", {"command": command, "purpose": f"{n}"})]) for n in range(6))
    )
    engine = host.engine()
    assert await host.turn(engine) == ENDED
    outputs = [one.output for one in host.results()]
    assert outputs[:2] == ["x", "x"]
    told = "[this call has had the same result {} times: try something else]"
    assert [one.told for one in host.results()[2:4]] == [
        f"x\n{told.format(3)}",
        f"x\n{told.format(4)}",
    ]
    assert all("so it was not made again" in one for one in outputs[4:])
    assert ran.read_text() == "\n" * 4
    model.script(Reply(calls=[("bash", {"command": command})]))
    assert await host.turn(engine, "t2") == ENDED
    await engine.aclose()
    assert host.results()[-1].output == "x"


async def test_nobody_is_asked_about_a_command_that_is_too_long_to_run(
    host: RecorderHost, model: ScriptedModel
) -> None:
    model.script(Reply(calls=[("bash", {"command": "expr é " + "x" * 131_064})]))
    engine = host.engine("manual")
    await host.turn(engine)
    await engine.aclose()
    [result] = host.results()
    assert (host.cards, result.output) == (
        [],
        "the command is too long (131,072 bytes, at most 131,071); write it to a file and run that",
    )
