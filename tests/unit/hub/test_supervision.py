"""Helpers that are started again, and the steps of a stop."""

import pytest

from lembasd.hub.core.ends import WINDOW_S as ENDS_WINDOW_S
from lembasd.hub.core.ends import WorkerEnds
from lembasd.hub.core.supervision import (
    ASK_S,
    FIRST_WAIT_S,
    KILL_S,
    MAX_STARTS,
    STOP_TIMER,
    TERMINATE_S,
    WINDOW_S,
    AllGone,
    AskToEnd,
    Finish,
    HelperEnded,
    Kill,
    LoopBegan,
    LoopOver,
    SetTimer,
    StartHelper,
    StopWanted,
    Supervision,
    Terminate,
    TimerFired,
    Wanted,
)


def test_a_helper_that_ends_is_started_again_after_a_wait_that_grows() -> None:
    machine = Supervision()
    assert machine.handle(Wanted("zygote"), 0.0) == [StartHelper("zygote")]
    assert machine.handle(HelperEnded("zygote"), 1.0) == [SetTimer("zygote", 1.0 + FIRST_WAIT_S)]
    assert machine.handle(HelperEnded("zygote"), 1.0) == []
    assert machine.handle(TimerFired("zygote"), 1.1) == [StartHelper("zygote")]
    assert machine.handle(HelperEnded("zygote"), 1.2) == [
        SetTimer("zygote", 1.2 + 2 * FIRST_WAIT_S)
    ]
    assert machine.handle(TimerFired("other"), 2.0) == []


def test_a_helper_that_cannot_run_is_tried_once_a_window() -> None:
    machine = Supervision()
    machine.handle(Wanted("zygote"), 0.0)
    for _ in range(MAX_STARTS - 1):
        machine.handle(HelperEnded("zygote"), 1.0)
        machine.handle(TimerFired("zygote"), 1.0)
    assert machine.handle(HelperEnded("zygote"), 1.0) == [
        LoopBegan("zygote"),
        SetTimer("zygote", WINDOW_S),
    ]


def looping() -> Supervision:
    """A machine whose zygote was started too often, the last time at WINDOW_S, and is down."""
    machine = Supervision()
    machine.handle(Wanted("zygote"), 0.0)
    for _ in range(MAX_STARTS):
        machine.handle(HelperEnded("zygote"), 1.0)
        machine.handle(TimerFired("zygote"), 1.0)
    machine.handle(HelperEnded("zygote"), WINDOW_S)
    return machine


def test_a_crash_loop_is_over_when_a_helper_has_lived_for_a_window() -> None:
    machine = looping()
    steady = SetTimer("steady zygote", 2 * WINDOW_S + 1)
    assert machine.handle(TimerFired("zygote"), WINDOW_S + 1) == [steady, StartHelper("zygote")]
    assert machine.handle(TimerFired("steady zygote"), 2 * WINDOW_S + 1) == [LoopOver("zygote")]
    assert machine.handle(HelperEnded("zygote"), 3 * WINDOW_S) == [
        SetTimer("zygote", 3 * WINDOW_S + FIRST_WAIT_S)
    ]


def test_a_crash_loop_goes_on_silently_while_helpers_end() -> None:
    machine = looping()
    assert machine.handle(TimerFired("steady zygote"), WINDOW_S + 0.5) == []
    machine.handle(TimerFired("zygote"), WINDOW_S + 1)
    for _ in range(MAX_STARTS):
        effects = machine.handle(HelperEnded("zygote"), WINDOW_S + 2)
        assert all(isinstance(one, SetTimer) for one in effects)
        machine.handle(TimerFired("zygote"), WINDOW_S + 3)
    assert machine.handle(TimerFired("steady zygote"), 2 * WINDOW_S + 1) == []
    machine.handle(StopWanted(), 4 * WINDOW_S)
    assert machine.handle(TimerFired("steady zygote"), 4 * WINDOW_S) == []


def test_nothing_starts_after_a_stop_began() -> None:
    machine = Supervision()
    machine.handle(Wanted("zygote"), 0.0)
    machine.handle(HelperEnded("zygote"), 1.0)
    assert not machine.stopping
    assert machine.handle(StopWanted(), 1.0) == [AskToEnd(), SetTimer(STOP_TIMER, 1.0 + ASK_S)]
    assert machine.stopping
    assert machine.handle(TimerFired("zygote"), 1.1) == []
    assert machine.handle(HelperEnded("zygote"), 1.2) == []
    assert machine.handle(Wanted("zygote"), 1.3) == []
    assert machine.handle(StopWanted(), 1.4) == []


def test_asking_is_followed_by_terminate_kill_and_giving_up() -> None:
    machine = Supervision()
    machine.handle(StopWanted(), 0.0)
    fired = TimerFired(STOP_TIMER)
    assert machine.handle(fired, 5.0) == [Terminate(), SetTimer(STOP_TIMER, 5.0 + TERMINATE_S)]
    assert machine.handle(fired, 8.0) == [Kill(), SetTimer(STOP_TIMER, 8.0 + KILL_S)]
    assert machine.handle(fired, 10.0) == [Finish(left=True)]
    assert machine.handle(fired, 11.0) == []
    assert machine.handle(AllGone(), 11.0) == []


def test_a_stop_is_over_when_everything_is_gone() -> None:
    machine = Supervision()
    assert machine.handle(AllGone(), 0.0) == []
    machine.handle(StopWanted(), 0.0)
    assert machine.handle(AllGone(), 0.1) == [Finish(left=False)]
    assert machine.handle(AllGone(), 0.2) == []


def test_ends_far_apart_close_no_session() -> None:
    ends = WorkerEnds()
    for at in (0.0, ENDS_WINDOW_S, 2 * ENDS_WINDOW_S, 2 * ENDS_WINDOW_S + 1):
        assert not ends.ended("a", at)
    ends.ended("b", 2 * ENDS_WINDOW_S + 2)
    assert ends.ended("a", 2 * ENDS_WINDOW_S + 3)
    assert ends.is_closed("a")
    ends.reopen("a")
    assert not ends.is_closed("a")
    assert not any(ends.ended("a", 200.0) for _ in range(3)), "it is known to loop"


@pytest.mark.parametrize("gap", [ENDS_WINDOW_S - 1, ENDS_WINDOW_S])
def test_a_session_forgets_ends_that_are_older_than_the_window(gap: float) -> None:
    ends = WorkerEnds()
    ends.ended("a", 0.0)
    ends.ended("a", 0.0)
    assert ends.ended("a", gap) == (gap < ENDS_WINDOW_S)
