"""What a model is sent: results by id, stubs, recall, instruction files, session notes, a prefix that stays still."""

import asyncio
import itertools
from typing import Any

import msgspec
import pytest

from lembasd.engine.api import TurnOutcome
from lembasd.engine.native.core.compaction import LADDER, asked
from lembasd.engine.native.engine import NativeEngine
from lembasd.harness.loader import LOOP, PROMPTS
from lembasd.protocol import events
from lembasd.store.records import (
    AnyRecord,
    Assistant,
    Call,
    Compacted,
    Learned,
    SystemPrompt,
    ToolStarted,
    TurnAccepted,
    TurnError,
    TurnStarted,
)
from tests.support.recorder_host import RecorderHost
from tests.support.scripted_model import Reply, ScriptedModel

ENDED = TurnOutcome(stop_reason="end_turn")


def use(name: str, **args: Any) -> Reply:
    return Reply(calls=[(name, args)])


async def played(
    host: RecorderHost, model: ScriptedModel, *replies: Reply, engine: NativeEngine | None = None
) -> list[str]:
    """The outputs of a turn in which the model says these, and then that it is done."""
    model.script(*replies, Reply(text="done"))
    one = engine or host.engine()
    before = len(host.results())
    assert await host.turn(one) == ENDED
    if engine is None:
        await one.aclose()
    return [result.output for result in host.results()[before:]]


async def test_an_unchanged_file_is_named_and_a_changed_one_shown(
    host: RecorderHost, model: ScriptedModel
) -> None:
    (host.root / "a").write_text("".join(f"{n}\n" for n in range(1, 11)))
    outputs = await played(
        host,
        model,
        use("read", path="a"),
        use("read", path="a", offset=3, limit=2),
        use("edit", path="a", old="5\n", new="five\n"),
        use("read", path="a", offset=5, limit=1),
        use("read", path="a", offset=5, limit=1),
    )
    assert outputs[1] == "[unchanged since #0001, which shows lines 1-10]"
    assert "+five" in outputs[2]
    assert outputs[3].startswith("     5\tfive\n")
    assert outputs[4] == "[unchanged since #0004, which shows lines 5-5]"


async def test_what_was_seen_is_known_when_the_session_opens_again(
    host: RecorderHost, model: ScriptedModel
) -> None:
    (host.root / "a").write_text("one\n")
    await played(host, model, use("read", path="a"))
    records: list[AnyRecord] = list(host.records)
    engine = host.engine(records=records)
    assert await played(host, model, use("read", path="a"), engine=engine) == [
        "[unchanged since #0001, which shows lines 1-1]"
    ]
    await engine.aclose()


async def test_a_long_file_is_read_in_parts_and_nothing_of_it_is_elided(
    host: RecorderHost, model: ScriptedModel
) -> None:
    (host.root / "a").write_text("".join(f"{n}\n" for n in range(1, 1001)))
    (host.root / "wide").write_text(("x" * 999 + "\n") * 100)
    first, second, wide = await played(
        host,
        model,
        use("read", path="a", limit=2000),
        use("read", path="a", offset=401),
        use("read", path="wide"),
    )
    assert first.endswith("   400\t400\n[lines 1-400 of 1000; read on with offset 401]")
    assert second.startswith("   401\t401\n")
    assert "elided" not in wide
    assert "of 100; read on with offset" in wide


async def test_a_listing_that_is_the_same_is_named(
    host: RecorderHost, model: ScriptedModel
) -> None:
    for number in range(40):
        (host.root / f"file-{number:02}.txt").touch()
    first, second, third = await played(host, model, use("list"), use("list"), use("list"))
    assert first.startswith("file-00.txt\n")
    assert (second, third) == ("[the same as #0001]", "[the same as #0001]")


async def test_recall_shows_what_was_elided(host: RecorderHost, model: ScriptedModel) -> None:
    capped, whole, part, wrong, none = await played(
        host,
        model,
        use("bash", command="seq 1000"),
        use("recall", id="#0001"),
        use("recall", id="0001", offset=500, limit=2),
        use("recall", id="#0001", offset=5000),
        use("recall", id="#00ff"),
    )
    assert "[600 lines elided, full output #0001]" in capped
    assert whole.startswith("1\n2\n")
    assert whole.endswith("\n400\n[lines 1-400 of 1000; recall on with offset 401]")
    assert part == "500\n501\n[lines 500-501 of 1000; recall on with offset 502]"
    assert wrong == "#0001 has 1000 lines, none from 5000 on"
    assert none == "there is no result #00ff; ids look like #0001"


async def test_instruction_files_begin_the_session_and_links_out_of_the_project_do_not(
    host: RecorderHost, model: ScriptedModel
) -> None:
    (host.root / ".git").mkdir()
    (host.root / "AGENTS.md").write_text("Be brief.\n")
    start = host.root / "part" / "deep"
    start.mkdir(parents=True)
    outside = host.root.parent / "secret"
    outside.write_text("never shown")
    (host.root / "part" / "AGENTS.md").symlink_to(outside)
    (start / "CLAUDE.md").write_text("Use tabs.\n")
    host.root = start
    await played(host, model)
    system = model.requests[0]["messages"][0]["content"]
    assert system.endswith(
        "# Instructions of this project\n\n## AGENTS.md\n\nBe brief.\n\n"
        "## part/deep/CLAUDE.md\n\nUse tabs.\n"
    )
    assert "never shown" not in system


async def test_nothing_in_the_prompt_says_where_the_project_lies_or_what_time_it_is(
    host: RecorderHost, model: ScriptedModel
) -> None:
    await played(host, model)
    system = model.requests[0]["messages"][0]["content"]
    assert str(host.root.parent) not in system
    assert "{{" not in system
    assert system.endswith(f"{PROMPTS['modes/auto.md']}\n")


async def test_a_mode_that_changed_is_told_with_the_next_prompt(
    host: RecorderHost, model: ScriptedModel
) -> None:
    engine = host.engine()
    engine.set_mode("plan")  # before anything was said: nothing to correct
    await played(host, model, engine=engine)
    engine.set_mode("auto")
    engine.set_mode("auto")
    await played(host, model, engine=engine)
    await engine.aclose()
    said = [one["content"] for one in model.requests[-1]["messages"] if one["role"] == "user"]
    note = f"The session's mode is now auto. {PROMPTS['modes/auto.md']}"
    assert said == ["go", f"<session-note>{note}</session-note>\n\ngo"]
    assert PROMPTS["modes/plan.md"] in model.requests[-1]["messages"][0]["content"]


async def test_instruction_files_that_change_are_told_once_and_not_read_again(
    host: RecorderHost, model: ScriptedModel
) -> None:
    (host.root / "AGENTS.md").write_text("be brief\n")
    engine = host.engine()
    await played(host, model, engine=engine)
    (host.root / "AGENTS.md").write_text("be long\n")
    await played(host, model, engine=engine)
    await engine.aclose()
    reopened = RecorderHost(host.root, model.base_url)
    engine = reopened.engine(records=host.records)
    await played(reopened, model, engine=engine)
    await engine.aclose()
    said = [one["content"] for one in model.requests[-1]["messages"] if one["role"] == "user"]
    note = LOOP.notes["instructions_changed"].replace("{{file}}", "AGENTS.md")
    assert said == ["go", f"<session-note>{note}</session-note>\n\ngo", "go"]
    assert "be long" not in str(model.requests[-1])


async def test_q74_the_messages_of_a_request_begin_the_next_ones_byte_for_byte(
    host: RecorderHost, model: ScriptedModel
) -> None:
    (host.root / "a").write_text("one\n")
    engine = host.engine()
    for _ in range(3):
        await played(
            host,
            model,
            Reply(reasoning="look", calls=[("read", {"path": "a"}), ("list", {})]),
            Reply(text=" "),
            Reply(text="part", finish="length"),
            Reply(reasoning="more", calls=[("bash", {"command": "seq 900"})]),
            engine=engine,
        )
        engine.set_mode("auto")
    await engine.aclose()
    turn_of = [
        sum(one["role"] == "user" and one["content"].endswith("go") for one in r["messages"])
        for r in model.requests
    ]
    for before, after in zip(
        range(len(model.requests)), range(1, len(model.requests)), strict=False
    ):
        first, second = model.requests[before], model.requests[after]
        if turn_of[before] != turn_of[after]:
            first, second = without_reasoning(first), without_reasoning(second)
        assert raw(second["messages"]).startswith(raw(first["messages"])[:-1])
        assert raw(first["tools"]) == raw(second["tools"])


def without_reasoning(request: dict[str, Any]) -> dict[str, Any]:
    kept = [
        {key: value for key, value in one.items() if key != "reasoning_content"}
        for one in request["messages"]
    ]
    return {**request, "messages": kept}


def raw(value: Any) -> bytes:
    return msgspec.json.encode(value)


# ── compaction ──────────────────────────────────────────────────────────────────────────────────

TOO_LONG = Reply(
    status=400,
    raw=b'{"error":{"message":"the request exceeds the available context size","n_ctx":8192}}',
    headers={"Content-Type": "application/json"},
)


def asks_for_a_summary(request: dict[str, Any]) -> bool:
    return bool(request["messages"][-1]["content"] == LOOP.compaction.ask)


async def test_a_conversation_that_is_too_long_is_summed_up_in_its_turn_and_goes_on(
    host: RecorderHost, model: ScriptedModel
) -> None:
    (host.root / "a").write_text("one\n")
    engine = host.engine()
    await played(host, model, use("read", path="a"), engine=engine)
    model.script(
        use("bash", command="echo ran >> ran"),
        TOO_LONG,
        Reply(text="All about it."),
        use("read", path="a"),
        Reply(text="done"),
    )
    assert await host.turn(engine, "t2", "second task") == ENDED
    assert (host.root / "ran").read_text() == "ran\n"
    summing, after = model.requests[4], model.requests[5]
    assert asks_for_a_summary(summing)
    assert raw(summing["messages"]).startswith(raw(model.requests[3]["messages"])[:-1])
    assert [one["role"] for one in after["messages"]] == ["system", "user"]
    said = after["messages"][1]["content"]
    assert "<summary>\nAll about it.\n</summary>" in said
    assert "second task" in said
    assert "- a 1-1 " in said
    # nothing counts as seen any more
    assert host.results()[-1].output == "     1\tone"
    shown = [one.text for one in host.events if isinstance(one, events.Text)]
    assert "All about it." not in "".join(shown)
    assert [one.summary for one in host.events if isinstance(one, events.Compacted)] == [
        "All about it."
    ]

    # and it is the same conversation when the session opens again
    records: list[AnyRecord] = list(host.records)
    await engine.aclose()
    engine = host.engine(records=records)
    await played(host, model, engine=engine)
    await engine.aclose()
    assert model.requests[-1]["messages"][1]["content"] == said


async def test_a_window_that_fills_is_summed_up_before_it_overflows(
    host: RecorderHost, model: ScriptedModel
) -> None:
    engine = host.engine(records=[Learned(window=4000)])
    model.choose = lambda body: Reply(text="short") if asks_for_a_summary(body) else None
    for number in range(5):
        await played(host, model, use("bash", command=f"seq {number} 300"), engine=engine)
    await engine.aclose()
    summed = [at for at, one in enumerate(model.requests) if asks_for_a_summary(one)]
    assert summed
    assert all(len(raw(one["messages"])) < 4000 * 2.5 * 1.3 for one in model.requests)


async def test_a_model_that_calls_tools_in_place_of_a_summary_is_told_once_more(
    host: RecorderHost, model: ScriptedModel
) -> None:
    engine = host.engine()
    model.script(TOO_LONG, use("bash", command="touch ran"), Reply(text="Summed up."))
    await played(host, model, engine=engine)
    await engine.aclose()
    assert not (host.root / "ran").exists()
    assert model.requests[2]["messages"][-1]["content"] == LOOP.compaction.no_tools


async def test_what_saves_nothing_is_not_done_for_its_size_again(
    host: RecorderHost, model: ScriptedModel
) -> None:
    engine = host.engine(records=[Learned(window=300)])
    model.choose = lambda body: Reply(text="x" * 5000) if asks_for_a_summary(body) else None
    for _ in range(3):
        await played(host, model, engine=engine)
    await engine.aclose()
    assert sum(asks_for_a_summary(one) for one in model.requests) == 1


@pytest.mark.parametrize("rung", range(LADDER))
def test_no_way_to_ask_for_a_summary_parts_a_call_from_its_result(rung: int) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    round_: list[dict[str, Any]] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "x" * 9000},
        {"role": "assistant", "content": "done"},
    ]
    for cut in range(1, 4):
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": "s"},
            *round_ * 5,
            *round_[:cut],
        ]
        if cut == 2:
            continue  # a call without its result is never there when a model is asked
        said = asked(messages, rung, LOOP.compaction)
        waiting = 0
        for one in said:
            if one["role"] == "tool":
                assert waiting == 1
                waiting = 0
            else:
                assert waiting == 0
                waiting = len(one.get("tool_calls", []))
        assert said[-1]["content"] == LOOP.compaction.ask
        roles = [one["role"] for one in said if one["role"] != "tool"]
        assert all(a != b for a, b in itertools.pairwise(roles) if a == "user")


async def test_a_conversation_is_summed_up_when_it_is_asked_for(
    host: RecorderHost, model: ScriptedModel
) -> None:
    engine = host.engine()
    nothing = await engine.compact()
    assert nothing == TurnError(-32602, "there is nothing to sum up yet; prompt first")
    await played(host, model, engine=engine)
    model.script(Reply(text="All of it."))
    assert await engine.compact() == "All of it."
    await played(host, model, engine=engine)
    await engine.aclose()
    roles = [one["role"] for one in model.requests[-1]["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    assert "All of it." in model.requests[-1]["messages"][1]["content"]


async def test_a_summary_that_cannot_be_had_or_is_cancelled_changes_nothing(
    host: RecorderHost, model: ScriptedModel
) -> None:
    engine = host.engine()
    await played(host, model, engine=engine)
    model.script(Reply(text=""), Reply(text=""))
    failed = await engine.compact()
    assert isinstance(failed, TurnError)
    assert failed.message == "the model did not sum the conversation up; send it again"
    while not model.asked.empty():
        model.asked.get_nowait()
    model.script(Reply(text="half", hold=asyncio.Event()))
    making = asyncio.ensure_future(engine.compact())
    await model.asked.get()
    engine.cancel()
    assert await making == TurnError(-32602, "the summary was cancelled")
    await played(host, model, engine=engine)
    await engine.aclose()
    assert not any(isinstance(one, Compacted) for one in host.records)
    assert [one["role"] for one in model.requests[-1]["messages"]] == [
        "system",
        "user",
        "assistant",
        "user",
    ]


async def test_a_cancel_while_a_turn_begins_is_heard(
    host: RecorderHost, model: ScriptedModel
) -> None:
    engine = host.engine()
    turn = asyncio.ensure_future(host.turn(engine))
    await asyncio.sleep(0)  # it has begun to read the project's instruction files
    engine.cancel()
    assert await turn == TurnOutcome(stop_reason="cancelled")
    assert model.requests == []
    await played(host, model, engine=engine)
    await engine.aclose()


async def test_a_conversation_whose_worker_died_in_a_call_is_summed_up_with_its_result(
    host: RecorderHost, model: ScriptedModel
) -> None:
    call = Call(id="c1", server_id="s1", name="bash", arguments="{}", args={})
    records: list[AnyRecord] = [
        SystemPrompt(text="s"),
        TurnAccepted(turn_id="t1", text="go"),
        TurnStarted(turn_id="t1"),
        Assistant(turn_id="t1", message_id="m", model="x", calls=[call]),
        ToolStarted(call_id="c1"),
    ]
    engine = host.engine(records=records)
    model.script(Reply(text="Summed up."))
    assert await engine.compact() == "Summed up."
    await engine.aclose()
    assert model.requests[-1]["messages"][-2]["tool_call_id"] == "s1"
