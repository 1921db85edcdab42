"""A transcript, folded from history and events."""

from typing import Any

import msgspec

from lembasd.protocol import events
from lembasd.protocol.lembas import AssistantTurn, AttachmentInfo, HistoryTool, UserTurn
from lembasd.tui.core.blocks import Block
from lembasd.tui.core.entries import Call, Entry, Note, Plan, Prompt, Reply
from lembasd.tui.core.transcript import MAX_OUTPUT_CHARS, Transcript


def folded(*given: events.AnyEvent) -> Transcript:
    transcript = Transcript()
    for event in given:
        transcript.take(event)
    return transcript


def values(transcript: Transcript) -> list[Any]:
    """The entries without their numbers."""
    return [value(one) for one in transcript.entries]


def value(entry: Entry) -> Any:
    if isinstance(entry, Reply):
        return ("thought" if entry.thought else "reply", entry.text)
    fields = {name: getattr(entry, name) for name in entry.__struct_fields__}
    defaults = msgspec.structs.fields(entry)
    skip = {one.name for one in defaults if fields[one.name] in (one.default, {})}
    return type(entry), {k: v for k, v in fields.items() if k not in (*skip, "number", "revision")}


def start(call_id: str = "c", title: str = "bash ls", **fields: Any) -> events.ToolStart:
    return events.ToolStart(call_id, "bash", title, "b", {"command": "ls"}, **fields)


def test_a_history_is_read_and_its_text_only_once_it_is_looked_at() -> None:
    transcript = Transcript()
    transcript.load(
        [
            UserTurn("do\x1b[2J it", "t1", [AttachmentInfo("a.png", "image/png", 3)]),
            AssistantTurn(
                "Done.",
                "so",
                [
                    HistoryTool("c1", "bash", {"command": "ls\n-l"}, "out"),
                    HistoryTool("c2", "read", {"path": ""}, "gone", True),
                    HistoryTool("c3", "read", {}),
                ],
            ),
            AssistantTurn("", "", []),
        ]
    )
    assert values(transcript) == [
        (Prompt, {"text": "do it", "turn_id": "t1", "attachments": ("a.png",)}),
        ("thought", "so"),
        ("reply", "Done."),
        (
            Call,
            {
                "call_id": "c1",
                "name": "bash",
                "title": "ls -l",
                "state": "done",
                "args": {"command": "ls\n-l"},
                "output": "out",
            },
        ),
        (
            Call,
            {
                "call_id": "c2",
                "name": "read",
                "title": "read",
                "state": "failed",
                "args": {"path": ""},
                "output": "gone",
            },
        ),
        (Call, {"call_id": "c3", "name": "read", "title": "read", "state": "unknown"}),
    ]
    assert transcript.generation == 1


def test_pieces_of_one_message_are_one_entry_and_thoughts_another() -> None:
    transcript = folded(
        events.Reasoning("hm", "m1"),
        events.Text("Hel", "m1"),
        events.Text("lo", "m1"),
        events.Text("Next", "m2"),
        events.Reasoning("again", "m2"),
    )
    assert values(transcript) == [
        ("thought", "hm"),
        ("reply", "Hello"),
        ("reply", "Next"),
        ("thought", "again"),
    ]
    assert transcript.last_reply() == "Next"


def test_code_is_whole_again_in_the_text_of_a_message() -> None:
    code = "\n".join(str(number) for number in range(200))
    transcript = folded(events.Text(f"See:\n```py\n{code}\n```\nok", "m"))
    (reply,) = transcript.entries
    assert isinstance(reply, Reply)
    assert reply.text == f"See:\n\n```py\n{code}\n```\n\nok"
    assert reply.blocks.finished[0] == Block("See:")


def test_there_is_no_last_reply_before_the_first() -> None:
    assert folded(events.Reasoning("hm", "m")).last_reply() == ""


def test_a_call_goes_from_its_first_piece_to_its_end() -> None:
    transcript = folded(events.ToolCallDelta("c", "bash", '{"comm'))
    assert values(transcript) == [
        (Call, {"call_id": "c", "name": "bash", "state": "drafting", "drafted": 6})
    ]
    assert transcript.running_call() is None
    transcript.take(start(purpose="to look"))
    assert transcript.running_call() is transcript.entries[0]
    transcript.output("c", "a\x07b")
    transcript.take(events.ToolEnd("c", "r", False, "all of it", 1500, "-a\n+b"))
    transcript.output("c", "too late")
    transcript.output("unknown", "nobody's")
    assert values(transcript) == [
        (
            Call,
            {
                "call_id": "c",
                "name": "bash",
                "title": "ls",
                "state": "done",
                "purpose": "to look",
                "args": {"command": "ls"},
                "output": "all of it",
                "diff": "-a\n+b",
                "duration_ms": 1500,
                "drafted": 6,
            },
        )
    ]


def test_calls_fail_are_denied_and_end_with_their_turn() -> None:
    transcript = folded(
        start("c1"),
        events.ToolEnd("c1", "r", True, "no such file", 3),
        events.ToolDenied("c2", "bash", "not now", "person"),
        start("c3"),
        events.Task("end", "t"),
    )
    states = [one.state for one in transcript.entries if isinstance(one, Call)]
    assert states == ["failed", "denied", "unknown"]


def test_a_long_output_keeps_its_end() -> None:
    transcript = folded(start(), events.ToolEnd("c", "r", False, "x" * MAX_OUTPUT_CHARS + "end", 3))
    (call,) = transcript.entries
    assert isinstance(call, Call)
    assert call.output.startswith("[the beginning is left out]\nxxx")
    assert call.output.endswith("xend")


def test_a_prompt_is_shown_once_however_often_it_is_told() -> None:
    transcript = folded(
        events.Prompt("hello", "t1", [AttachmentInfo("a", "text/plain", 1)]),
        events.Prompt("hello", "t1"),
        events.Steered(["and quick"]),
    )
    assert values(transcript) == [
        (Prompt, {"text": "hello", "turn_id": "t1", "attachments": ("a",)}),
        (Prompt, {"text": "and quick", "steered": True}),
    ]
    assert transcript.typed == ["hello", "and quick"]


def test_a_message_that_was_taken_back_is_gone() -> None:
    transcript = folded(
        events.Text("first", "m1"), events.Notice("info", "n"), events.Retract("m1")
    )
    assert values(transcript) == [(Note, {"level": "info", "text": "n"})]


def test_what_the_service_says_are_notes() -> None:
    transcript = folded(
        events.Notice("warning", "watch\x07 out"),
        events.Error("it broke"),
        events.Compacted("so far"),
        events.Flash("gone"),
        events.Task("start", "t"),
    )
    assert values(transcript) == [
        (Note, {"level": "warning", "text": "watch out"}),
        (Note, {"level": "error", "text": "it broke"}),
        (Note, {"level": "info", "text": "the conversation was summed up:\nso far"}),
    ]


def test_a_plan_stays_where_it_was_first_shown() -> None:
    transcript = Transcript()
    transcript.plan((("a\nb", "pending"),))
    transcript.note("between")
    transcript.plan((("a b", "completed"),))
    assert values(transcript)[0] == (Plan, {"tasks": (("a b", "completed"),)})
    assert len(transcript.entries) == 2
