"""When the link dials, waits and stops."""

import pytest

from lembasd.link.core.dialer import (
    BACKOFF_FIRST_S,
    BACKOFF_LAST_S,
    GOOD_LINK_S,
    RETRY_AFTER_MAX_S,
    Closed,
    CloseLink,
    Dial,
    Dialer,
    DialFailed,
    DialRefused,
    Effect,
    Input,
    LoginChanged,
    LoginGone,
    Opened,
    Redial,
    SetTimer,
    TimerFired,
    Woke,
)

FULL = 1.0 - 1e-12


def fed(dialer: Dialer, *news: tuple[Input, float]) -> list[list[Effect]]:
    return [dialer.handle(one, now) for one, now in news]


def opened() -> Dialer:
    """A dialer whose first link has been open since 10 s."""
    dialer = Dialer()
    fed(dialer, (LoginChanged(), 10.0), (Opened(1), 10.0))
    return dialer


def seen(dialer: Dialer) -> tuple[str, str, float | None]:
    return dialer.state, dialer.reason, dialer.next_at


def test_without_a_login_nothing_happens() -> None:
    dialer = Dialer()
    news: list[Input] = [
        Woke(),
        Redial("x"),
        LoginGone(),
        TimerFired(0),
        Opened(0),
        DialRefused(0, "x"),
    ]
    assert [dialer.handle(one, 0.0) for one in news] == [[]] * 6
    assert seen(dialer) == ("idle", "", None)


def test_a_login_dials_at_once() -> None:
    dialer = Dialer()
    assert dialer.handle(LoginChanged(), 0.0) == [Dial(1)]
    assert dialer.handle(Opened(1), 1.0) == []
    assert seen(dialer) == ("open", "", None)


def test_the_waits_double_from_half_a_second_to_a_minute() -> None:
    dialer = Dialer()
    dialer.handle(LoginChanged(), 0.0)
    waits = []
    for attempt in range(1, 11):
        (timer,) = dialer.handle(DialFailed(attempt, "away", 1.0), 0.0)
        assert isinstance(timer, SetTimer)
        waits.append(timer.at)
        assert dialer.handle(TimerFired(attempt), timer.at) == [Dial(attempt + 1)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    assert waits[0] == BACKOFF_FIRST_S
    assert waits[-1] == BACKOFF_LAST_S


def test_a_wait_is_a_random_part_of_its_bound() -> None:
    dialer = Dialer()
    dialer.handle(LoginChanged(), 100.0)
    assert dialer.handle(DialFailed(1, "away", 0.25), 100.0) == [SetTimer(1, 100.125)]
    assert seen(dialer) == ("waiting", "away", 100.125)


def test_a_dial_that_failed_many_times_still_waits_a_minute_at_most() -> None:
    dialer = Dialer()
    dialer.handle(LoginChanged(), 0.0)
    for attempt in range(1, 2000):
        (timer,) = dialer.handle(DialFailed(attempt, "away", FULL), 0.0)
        assert isinstance(timer, SetTimer)
        assert timer.at <= BACKOFF_LAST_S
        dialer.handle(TimerFired(attempt), timer.at)


@pytest.mark.parametrize(
    ("asked", "waited"), [(7.0, 7.25), (0.0, 0.25), (-5.0, 0.25), (1e9, RETRY_AFTER_MAX_S + 0.25)]
)
def test_retry_after_is_waited_for_and_a_little_more(asked: float, waited: float) -> None:
    dialer = Dialer()
    dialer.handle(LoginChanged(), 0.0)
    assert dialer.handle(DialFailed(1, "busy", 0.5, asked), 0.0) == [SetTimer(1, waited)]


def test_a_link_that_held_a_minute_starts_the_waits_anew() -> None:
    dialer = Dialer()
    fed(
        dialer,
        (LoginChanged(), 0.0),
        (DialFailed(1, "away", 1.0), 0.0),
        (TimerFired(1), 0.5),
        (Opened(2), 1.0),
    )
    assert dialer.handle(Closed(2, "lost", 1.0), 1.0 + GOOD_LINK_S) == [SetTimer(2, 61.5)]


def test_a_link_that_did_not_hold_a_minute_goes_on_with_the_waits() -> None:
    dialer = Dialer()
    fed(
        dialer,
        (LoginChanged(), 0.0),
        (DialFailed(1, "away", 1.0), 0.0),
        (TimerFired(1), 0.5),
        (Opened(2), 1.0),
    )
    assert dialer.handle(Closed(2, "lost", 1.0), 60.0) == [SetTimer(2, 61.0)]


@pytest.mark.parametrize("code", [1012, 1013])
def test_devices_that_a_restart_closed_come_back_spread_over_half_a_minute(code: int) -> None:
    for chance, at in ((0.0, 15.0), (0.5, 27.5), (FULL, 40.0)):
        (timer,) = opened().handle(Closed(1, "restarting", chance, code), 10.0)
        assert isinstance(timer, SetTimer)
        assert timer.at == pytest.approx(at)


def test_an_instance_that_closes_again_and_again_is_left_alone_for_longer() -> None:
    dialer = opened()
    waits = []
    for attempt in range(1, 10):
        (timer,) = dialer.handle(Closed(attempt, "overloaded", FULL, 1013), 10.0)
        assert isinstance(timer, SetTimer)
        waits.append(round(timer.at - 10.0))
        fed(dialer, (TimerFired(attempt), timer.at), (Opened(attempt + 1), 10.0))
    assert waits == [30, 30, 30, 30, 30, 30, 32, 60, 60]


def test_any_other_close_code_waits_as_a_lost_link_does() -> None:
    for code in (1000, 1001, 1006, 1008, 1009, 1011, 4000, 4401):
        assert opened().handle(Closed(1, "x", 1.0, code), 10.0) == [SetTimer(1, 10.5)]


@pytest.mark.parametrize("news", [DialRefused(1, "protocol 1"), Closed(1, "4400", 0.5, 4400)])
def test_what_was_refused_is_not_dialled_again_until_a_new_login(news: Input) -> None:
    dialer = Dialer()
    dialer.handle(LoginChanged(), 0.0)
    if isinstance(news, Closed):
        dialer.handle(Opened(1), 0.0)
    assert dialer.handle(news, 0.0) == []
    assert dialer.state == "refused"
    later: list[Input] = [
        Woke(),
        Redial("limits"),
        TimerFired(1),
        Opened(1),
        DialFailed(1, "x", 0.5),
    ]
    assert [dialer.handle(one, 1.0) for one in later] == [[]] * 5
    assert dialer.state == "refused"
    assert dialer.handle(LoginChanged(), 2.0) == [Dial(2)]
    assert seen(dialer) == ("dialling", "", None)


def test_a_wake_dials_at_once_and_starts_the_waits_anew() -> None:
    dialer = Dialer()
    dialer.handle(LoginChanged(), 0.0)
    for attempt in (1, 2, 3):
        dialer.handle(DialFailed(attempt, "away", 1.0), 0.0)
        if attempt < 3:
            dialer.handle(TimerFired(attempt), 0.0)
    assert dialer.handle(Woke(), 0.0) == [Dial(4)]
    assert dialer.handle(DialFailed(4, "away", 1.0), 0.0) == [SetTimer(4, BACKOFF_FIRST_S)]


def test_a_wake_gives_up_a_link_that_may_be_dead() -> None:
    assert opened().handle(Woke(), 20.0) == [CloseLink(1, "the machine woke"), Dial(2)]


def test_what_was_said_and_has_changed_is_said_anew_at_once() -> None:
    dialer = opened()
    assert dialer.handle(Redial("limits"), 20.0) == [CloseLink(1, "limits"), Dial(2)]
    assert dialer.handle(Redial("limits"), 20.0) == []


def test_a_logout_closes_the_link_and_ends_the_waiting() -> None:
    dialer = opened()
    assert dialer.handle(LoginGone(), 20.0) == [CloseLink(1, "logged out")]
    assert seen(dialer) == ("idle", "", None)
    assert dialer.handle(Closed(1, "late", 0.5), 21.0) == []
    assert dialer.handle(LoginChanged(), 30.0) == [Dial(2)]
    assert dialer.handle(LoginGone(), 31.0) == [CloseLink(2, "logged out")]


def test_another_login_takes_the_link_over_at_once() -> None:
    assert opened().handle(LoginChanged(), 20.0) == [CloseLink(1, "the login changed"), Dial(2)]


def test_news_of_an_abandoned_dial_count_no_more() -> None:
    dialer = opened()
    dialer.handle(Redial("limits"), 20.0)
    late: list[Input] = [
        Opened(1),
        DialFailed(1, "x", 0.5),
        DialRefused(1, "x"),
        Closed(1, "x", 0.5, 4400),
        TimerFired(1),
    ]
    assert [dialer.handle(one, 21.0) for one in late] == [[]] * 5
    assert dialer.state == "dialling"
