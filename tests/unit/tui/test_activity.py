"""What a session is doing, and the line that says so."""

from typing import Any

import pytest

from lembasd.protocol import events, jsonrpc
from lembasd.protocol.events import Cost
from lembasd.tui.core import inputs, status_line
from lembasd.tui.core.activity import Activity
from lembasd.tui.core.chat import Chat
from lembasd.tui.core.incoming import CardCame, EventCame, read

START = events.Task("start", "t")


def during(*given: events.AnyEvent) -> Activity:
    activity = Activity()
    for now, event in enumerate((START, *given)):
        activity.take(event, float(now))
    return activity


@pytest.mark.parametrize(
    ("event", "what"),
    [
        (events.Step(2, "m"), "step 2"),
        (events.Reasoning("a", "m"), "thinking"),
        (events.Text("a", "m"), "writing"),
        (events.ToolCallDelta("c", "edit", "{"), "preparing edit"),
        (events.ToolStart("c", "bash", "bash ls", "b", {}), "bash ls"),
        (events.ToolStart("c", "bash", "", "b", {}), "bash"),
        (events.ToolEnd("c", "r", False, "", 1), "working"),
        (events.ToolDenied("c", "bash", "no", "person"), "working"),
        (events.Progress(50, 200), "reading the prompt, 25 %"),
        (events.Progress(5000), "reading the prompt, 5,000"),
        (events.Progress(5000, 0), "reading the prompt, 5,000"),
        (events.Flash("a"), "working"),
    ],
)
def test_each_event_says_what_is_done_now(event: events.AnyEvent, what: str) -> None:
    assert during(event).what == what


def test_the_time_counts_from_when_it_began() -> None:
    activity = during(events.Text("a", "m"), events.Text("b", "m"))
    assert (activity.since, activity.turn_since, activity.turn_id) == (1.0, 0.0, "t")
    activity.begins("t", 9.0)
    assert activity.since == 1.0


@pytest.mark.parametrize("end", [events.Task("end", "t"), events.Done("t", "end_turn")])
def test_after_the_turn_nothing_is_done(end: events.AnyEvent) -> None:
    activity = during(end, events.Text("late", "m"))
    assert (activity.busy, activity.what) == (False, "")


def test_use_adds_up_and_two_currencies_never_do() -> None:
    activity = during(
        events.Usage(100, 20, cost=Cost(0.5, "EUR"), window=1000),
        events.Usage(200, 30, cost=Cost(0.25, "EUR"), context=210),
        events.Usage(1, 1, cost=Cost(1.0, "USD")),
    )
    assert (activity.read, activity.written, activity.window) == (301, 51, 1000)
    assert (activity.context, activity.cost) == (2, "€0.75 · $1.00")


# ── the line ────────────────────────────────────────────────────────────────────────────────────


def chat(*given: Any) -> Chat:
    made = Chat("/p")
    for one in (inputs.Connected(), *given):
        made.handle(one, 0.0)
    return made


def shown(
    made: Chat, width: int = 200, now: float = 65.0, **how: bool
) -> tuple[list[str], list[str]]:
    line = status_line.line(made, now, width, **how)
    return [one.text for one in line.left], [one.text for one in line.right]


def test_a_chat_without_a_hub_says_so() -> None:
    assert shown(Chat("/p"))[0] == ["not connected"]


def test_a_chat_that_waits_for_its_person_is_ready() -> None:
    assert shown(chat(), follows=False)[0] == ["ready", "more below"]


def test_a_history_on_its_way_is_told() -> None:
    made = Chat("/p", "ses_x")
    made.handle(inputs.Connected(), 0.0)
    assert shown(made)[0] == ["reading the history"]


def test_a_turn_tells_what_it_does_and_for_how_long() -> None:
    made = chat(EventCame(START))
    assert shown(made)[0] == ["• working 1:05"]
    made.handle(EventCame(events.Text("a", "m")), 60.0)
    assert shown(made)[0] == ["• writing 5 s", "turn 1:05"]


def test_cards_come_before_anything_else() -> None:
    params = {"sessionId": "s", "toolCallId": "p", "path": "a", "text": "b"}
    cards = []
    for name in ("p", "q"):
        request = jsonrpc.request(name, "_lembas/plan", {**params, "toolCallId": name})
        card = read(jsonrpc.peek(request))
        assert isinstance(card, CardCame)
        cards.append(card)
    assert shown(chat(EventCame(START), cards[0]))[0] == ["? waits for you"]
    assert shown(chat(*cards))[0] == ["? 2 wait for you"]


def test_the_right_tells_mode_model_and_what_it_takes() -> None:
    made = chat(
        inputs.DefaultsCame("qwen", "auto", "high"),
        inputs.MonthCame("€2.00 · $0.75"),
        EventCame(START),
        EventCame(events.Usage(12_300, 400, window=20_000, cost=Cost(0.5, "EUR"))),
    )
    made.shared = True
    assert shown(made)[1] == [
        "auto",
        "shared",
        "qwen high",
        "context 63 %",
        "↑12.3k ↓400",
        "€0.50",
        "month €2.00 · $0.75",
    ]


def test_a_context_that_is_nearly_full_is_a_warning() -> None:
    made = chat(EventCame(events.Usage(900, 0, window=1000)))
    parts = status_line.line(made, 0.0, 100).right
    assert next((one.text, one.tone) for one in parts) == ("context 90 %", "warn")


def test_on_a_narrow_screen_what_is_worth_least_is_left_out() -> None:
    made = chat(
        inputs.DefaultsCame("qwen", "edit", "default"),
        EventCame(START),
        EventCame(events.Text("a", "m")),
        EventCame(events.Usage(12_300, 400, window=20_000)),
    )
    made.activity.since = 60.0
    assert shown(made, 60) == (["• writing 5 s"], ["edit", "qwen", "context 63 %", "↑12.3k ↓400"])
    assert shown(made, 40) == (["• writing 5 s"], ["edit", "context 63 %"])
    assert shown(made, 5) == (["• writing 5 s"], [])


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0 s"), (4.9, "4 s"), (65, "1:05"), (7209, "2:00:09")]
)
def test_a_time_as_a_person_reads_it(seconds: float, text: str) -> None:
    assert status_line.elapsed(seconds) == text


@pytest.mark.parametrize(("count", "text"), [(873, "873"), (12_340, "12.3k"), (1_200_000, "1.2M")])
def test_a_count_of_tokens_as_a_person_reads_it(count: int, text: str) -> None:
    assert status_line.tokens(count) == text
