"""The loop of one turn."""

import pytest

from lembasd.engine.native.core.turn import (
    CANCELLED_TEXT,
    LAST_STEP_TEXT,
    TRUNCATED_TEXT,
    AskCancelled,
    AskModel,
    Begin,
    CallEnded,
    CallPlan,
    CancelCame,
    Effect,
    Failed,
    Finish,
    GiveResult,
    Input,
    Limits,
    Replied,
    RunCalls,
    SteerCame,
    StopWork,
    TakeSteers,
    Tell,
    TurnMachine,
)
from lembasd.store.records import TurnError

ERROR = TurnError(-32603, "away", {"reason": "model"})


def read(call_id: str, problem: str | None = None) -> CallPlan:
    return CallPlan(call_id, parallel=True, problem=problem)


def bash(call_id: str, problem: str | None = None) -> CallPlan:
    return CallPlan(call_id, parallel=False, problem=problem)


def play(*inputs: Input, requests: int = 10, empty: int = 0, cut: int = 0) -> list[list[Effect]]:
    machine = TurnMachine(Limits(requests, empty=empty, cut=cut))
    return [machine.handle(one) for one in (Begin(), *inputs)]


def test_a_reply_without_calls_ends_the_turn() -> None:
    assert play(Replied([])) == [[AskModel(1)], [Finish("end_turn")]]


@pytest.mark.spec("result: stopReason max_tokens")
def test_a_reply_cut_at_the_output_limit_ends_the_turn_with_max_tokens() -> None:
    assert play(Replied([], truncated=True))[1:] == [[Finish("max_tokens")]]


def test_the_next_request_comes_when_every_call_has_ended() -> None:
    assert play(Replied([bash("a")]), CallEnded("a"), Replied([])) == [
        [AskModel(1)],
        [RunCalls(("a",))],
        [AskModel(2)],
        [Finish("end_turn")],
    ]


def test_reads_run_together_and_all_others_alone_and_in_order() -> None:
    calls = [read("r1"), read("r2"), bash("b1"), bash("b2"), read("r3")]
    assert play(
        Replied(calls),
        CallEnded("r2"),
        CallEnded("r1"),
        CallEnded("b1"),
        CallEnded("b2"),
        CallEnded("r3"),
    )[1:] == [
        [RunCalls(("r1", "r2"))],
        [],
        [RunCalls(("b1",))],
        [RunCalls(("b2",))],
        [RunCalls(("r3",))],
        [AskModel(2)],
    ]


def test_a_call_with_a_problem_never_runs_and_gets_its_result_in_its_place() -> None:
    assert play(Replied([read("a"), read("b", "no such tool"), read("c")]), CallEnded("a"))[1:] == [
        [RunCalls(("a",))],
        [GiveResult("b", "no such tool"), RunCalls(("c",))],
    ]


def test_a_reply_of_nothing_but_problems_is_answered_at_once() -> None:
    assert play(Replied([bash("a", "no")]))[1] == [GiveResult("a", "no"), AskModel(2)]


def test_no_call_of_a_reply_that_was_cut_off_runs() -> None:
    assert play(Replied([bash("a"), bash("b", "broken")], truncated=True))[1] == [
        GiveResult("a", TRUNCATED_TEXT),
        GiveResult("b", TRUNCATED_TEXT),
        Finish("max_tokens"),
    ]


@pytest.mark.spec("result: stopReason max_turn_requests")
def test_a_turn_ends_at_the_backstop_when_its_calls_have_their_results() -> None:
    played = play(Replied([bash("a")]), CallEnded("a"), Replied([read("b")]), requests=2)
    assert played == [
        [AskModel(1)],
        [RunCalls(("a",))],
        [Tell("last_step"), AskModel(2)],
        [GiveResult("b", LAST_STEP_TEXT), Finish("max_turn_requests")],
    ]


def test_a_turn_that_says_what_it_did_in_its_last_request_says_why_it_ended() -> None:
    assert play(Replied([]), requests=1) == [
        [Tell("last_step"), AskModel(1)],
        [Finish("max_turn_requests")],
    ]


@pytest.mark.parametrize(
    ("budget", "reply"),
    [
        ({"calls": 2}, Replied([read("a"), read("b")])),
        ({"output_tokens": 5}, Replied([read("a"), read("b")], output_tokens=5)),
        ({"input_tokens": 9}, Replied([read("a"), read("b")], input_tokens=10)),
    ],
)
def test_a_budget_that_is_used_up_makes_the_next_request_the_last(
    budget: dict[str, int], reply: Replied
) -> None:
    machine = TurnMachine(Limits(10, **budget))
    inputs = (Begin(), reply, CallEnded("a"), CallEnded("b"), Replied([bash("c")]))
    assert [machine.handle(one) for one in inputs] == [
        [AskModel(1)],
        [RunCalls(("a", "b"))],
        [],
        [Tell("budget"), AskModel(2)],
        [GiveResult("c", LAST_STEP_TEXT), Finish("max_turn_requests")],
    ]


def test_what_a_person_says_meanwhile_goes_with_the_next_request() -> None:
    assert play(Replied([bash("a")]), SteerCame(), SteerCame(), CallEnded("a"), Replied([])) == [
        [AskModel(1)],
        [RunCalls(("a",))],
        [],
        [],
        [TakeSteers(), AskModel(2)],
        [Finish("end_turn")],
    ]


def test_a_reply_that_would_end_the_turn_is_followed_by_what_a_person_has_said() -> None:
    assert play(SteerCame(), Replied([]), Replied([]))[2:] == [
        [TakeSteers(), AskModel(2)],
        [Finish("end_turn")],
    ]


def test_what_is_said_too_late_is_left() -> None:
    assert play(SteerCame(), Replied([]), requests=1)[2] == [Finish("max_turn_requests")]
    assert play(SteerCame(), CancelCame(), Replied([]))[3] == [Finish("cancelled")]
    assert play(SteerCame(), Failed(ERROR))[2] == [Finish(error=ERROR)]


def test_an_empty_reply_is_told_to_go_on_so_often() -> None:
    said = Replied([], empty=True)
    assert play(said, said, said, empty=2)[1:] == [
        [Tell("empty"), AskModel(2)],
        [Tell("empty"), AskModel(3)],
        [Finish("end_turn")],
    ]


def test_an_empty_last_reply_ends_the_turn() -> None:
    assert play(Replied([], empty=True), requests=1, empty=2)[1:] == [[Finish("max_turn_requests")]]


def test_a_reply_that_was_cut_off_goes_on_so_often() -> None:
    cut = Replied([], truncated=True)
    assert play(cut, cut, cut=1)[1:] == [[Tell("cut"), AskModel(2)], [Finish("max_tokens")]]


def test_calls_that_were_cut_off_may_be_made_again_so_often() -> None:
    cut = Replied([bash("a")], truncated=True)
    again = Replied([bash("b")], truncated=True)
    assert play(cut, again, cut=1)[1:] == [
        [GiveResult("a", TRUNCATED_TEXT), AskModel(2)],
        [GiveResult("b", TRUNCATED_TEXT), Finish("max_tokens")],
    ]


def test_a_cut_reply_after_a_cancel_ends_the_turn() -> None:
    assert play(CancelCame(), Replied([], truncated=True), cut=1)[2] == [Finish("cancelled")]


def test_a_model_that_cannot_be_had_ends_the_turn_with_its_error() -> None:
    assert play(Failed(ERROR))[1] == [Finish(error=ERROR)]


def test_a_cancel_gives_the_request_up() -> None:
    assert play(CancelCame(), AskCancelled())[1:] == [[StopWork()], [Finish("cancelled")]]


def test_a_cancel_ends_what_runs_and_answers_what_waits() -> None:
    assert play(Replied([bash("a"), bash("b")]), CancelCame(), CallEnded("a"))[2:] == [
        [StopWork()],
        [GiveResult("b", CANCELLED_TEXT), Finish("cancelled")],
    ]


def test_a_cancel_while_reads_run_waits_for_each_of_them() -> None:
    calls = [read("a"), read("b")]
    assert play(Replied(calls), CancelCame(), CallEnded("b"), CallEnded("a"))[2:] == [
        [StopWork()],
        [],
        [Finish("cancelled")],
    ]


@pytest.mark.parametrize(
    ("calls", "last"),
    [
        ([], [Finish("cancelled")]),
        ([bash("a")], [GiveResult("a", CANCELLED_TEXT), Finish("cancelled")]),
    ],
)
def test_a_reply_that_came_before_the_cancel_was_heard_runs_nothing(
    calls: list[CallPlan], last: list[Effect]
) -> None:
    assert play(CancelCame(), Replied(calls))[2] == last


def test_a_second_cancel_changes_nothing() -> None:
    assert play(CancelCame(), CancelCame())[1:] == [[StopWork()], []]


def test_a_cancel_before_the_turn_began_stops_nothing_yet() -> None:
    machine = TurnMachine(Limits(1))
    assert machine.handle(CancelCame()) == []


def test_a_turn_that_was_cancelled_before_it_began_asks_nothing() -> None:
    machine = TurnMachine(Limits(1))
    machine.handle(CancelCame())
    assert machine.handle(Begin()) == [Finish("cancelled")]


def test_an_ended_turn_takes_nothing_more() -> None:
    machine = TurnMachine(Limits(1))
    machine.handle(Begin())
    machine.handle(Replied([]))
    assert machine.finished
    assert [machine.handle(one) for one in (Begin(), CallEnded("a"), CancelCame())] == [[], [], []]
