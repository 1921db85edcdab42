"""Whether the other side of a link still answers."""

from lembasd.link.core.liveness import (
    LATE_S,
    Dead,
    Effect,
    Liveness,
    Opened,
    Ping,
    SetTimer,
    TimerFired,
)

DEAD: list[Effect] = [Dead("the instance did not answer a ping within 5 s")]


def asked() -> Liveness:
    """A link that opened at 0 s and was asked at 20 s."""
    liveness = Liveness(20.0, 5.0)
    assert liveness.handle(Opened(), 0.0) == [SetTimer(20.0)]
    assert liveness.handle(TimerFired(7.0), 20.0) == [Ping(), SetTimer(25.0)]
    return liveness


def test_an_answer_is_waited_for_until_its_time_is_up() -> None:
    assert asked().handle(TimerFired(7.0), 25.0) == DEAD


def test_anything_that_comes_is_an_answer() -> None:
    liveness = asked()
    liveness.heard()
    assert liveness.handle(TimerFired(7.0), 25.0) == [SetTimer(45.0)]
    assert liveness.handle(TimerFired(7.0), 45.0) == [Ping(), SetTimer(50.0)]
    assert liveness.handle(TimerFired(7.0), 50.0) == DEAD


def test_what_came_before_the_ping_answers_it_not() -> None:
    liveness = Liveness(20.0, 5.0)
    liveness.handle(Opened(), 0.0)
    liveness.heard()
    liveness.handle(TimerFired(0.0), 20.0)
    assert liveness.handle(TimerFired(0.0), 25.0) == DEAD


def test_a_process_that_stood_still_asks_once_more() -> None:
    liveness = asked()
    late = 25.0 + LATE_S + 0.1
    assert liveness.handle(TimerFired(7.0), late) == [Ping(), SetTimer(late + 5.0)]
    assert liveness.handle(TimerFired(7.0), late + 60.0) == DEAD


def test_a_machine_that_slept_asks_once_more() -> None:
    liveness = asked()
    assert liveness.handle(TimerFired(7.0 + LATE_S + 0.1), 25.0) == [Ping(), SetTimer(30.0)]
    assert liveness.handle(TimerFired(7.0 + LATE_S + 0.1), 30.0) == DEAD


def test_a_link_that_answered_after_a_sleep_is_asked_again_when_it_is_time() -> None:
    liveness = asked()
    liveness.handle(TimerFired(60.0), 25.0)
    liveness.heard()
    assert liveness.handle(TimerFired(60.0), 30.0) == [SetTimer(50.0)]
    assert liveness.handle(TimerFired(60.0), 50.0) == [Ping(), SetTimer(55.0)]
    assert liveness.handle(TimerFired(60.0), 55.0) == DEAD


def test_a_little_lateness_is_no_excuse() -> None:
    assert asked().handle(TimerFired(7.0), 25.0 + LATE_S) == DEAD
