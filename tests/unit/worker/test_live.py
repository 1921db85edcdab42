"""What a client that joins is told of a turn that runs."""

from lembasd.protocol.events import (
    AnyEvent,
    Notice,
    Reasoning,
    Retract,
    Step,
    Task,
    Text,
    ToolCallDelta,
    ToolDenied,
    ToolEnd,
    ToolOutput,
    ToolStart,
    Usage,
)
from lembasd.worker.core.live import MAX_PIECES, Live

START = ToolStart("call1", "bash", "bash: ls", "execute", {"command": "ls"})


def live(*events: AnyEvent) -> Live:
    found = Live()
    for event in events:
        found.said(event)
    return found


def test_the_message_that_is_being_written_is_told_as_whole_texts() -> None:
    running = live(
        Task("start", "t1"),
        Step(1, "m"),
        Reasoning("I ", "m1"),
        Reasoning("think", "m1"),
        Text("He", "m1"),
        Text("llo", "m1"),
        Notice("info", "n"),
        ToolCallDelta("call1", "bash", '{"com'),
        ToolCallDelta("call1", "bash", 'mand"'),
    )
    assert running.events == [
        Step(1, "m"),
        Reasoning("I think", "m1"),
        Text("Hello", "m1"),
        ToolCallDelta("call1", "bash", '{"command"'),
    ]


def test_what_is_recorded_or_taken_back_is_told_no_more() -> None:
    running = live(Step(1, "m"), Text("Hello", "m1"))
    running.recorded()
    assert running.events == [Step(1, "m")]
    running = live(Text("a", "m1"), Text("b", "m2"), Retract("m1"))
    assert running.events == [Text("b", "m2")]


def test_a_call_that_runs_is_told_with_its_last_output_and_no_more_once_it_ended() -> None:
    running = live(START, ToolOutput("call1", "a"), ToolOutput("call1", "b"), ToolOutput("x", "c"))
    assert running.events == [START, ToolOutput("call1", "b")]
    running.said(ToolEnd("call1", "#0001", isError=False, output="b", duration_ms=1))
    assert running.events == []
    assert live(START).events == [START]
    assert live(START, ToolDenied("call1", "bash", "no", "person")).events == []


def test_with_the_turn_everything_is_over_but_the_last_word_on_tokens() -> None:
    usage = Usage(input=1, output=2)
    running = live(Step(1, "m"), Text("a", "m1"), START, usage, Task("end", "t1"))
    assert (running.events, running.usage) == ([], usage)


def test_a_long_message_is_kept_in_few_pieces_and_whole() -> None:
    running = live(*(Text("ab", "m1") for _ in range(3 * MAX_PIECES)))
    assert running.events == [Text("ab" * 3 * MAX_PIECES, "m1")]
