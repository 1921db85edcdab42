"""What ends again and again: when that is a crash loop, that it is said once, and when it is over."""

import pytest

from lembasd.hub.core import effects, inputs
from lembasd.hub.core.ends import WINDOW_S
from lembasd.hub.core.table import UTILITY
from tests.support.routing import SESSION, Routing, answers, passed_on

PROMPT = {"sessionId": SESSION, "prompt": [{"type": "text", "text": "go"}]}
STEADY = f"steady {SESSION}"
CLOSED = (-32603, "closed")


@pytest.fixture
def hub() -> Routing:
    return Routing()


def lives(hub: Routing, session: str = SESSION) -> list[effects.Effect]:
    """A worker for the session, whoever asked for it."""
    return [one for one in hub.worker(session) if not isinstance(one, effects.ToProcess)]


def crashes(hub: Routing, times: int = 1, code: int = 1) -> list[effects.Effect]:
    out: list[effects.Effect] = []
    for _ in range(times):
        lives(hub)
        out += hub.feed(inputs.ProcessEnded(SESSION, code))
    return loops(out)


def loops(out: list[effects.Effect]) -> list[effects.Effect]:
    return [one for one in out if isinstance(one, effects.Looping)]


def reopened(hub: Routing) -> None:
    """A prompt opens the closed session."""
    hub.ask(hub.client(1), 5, "session/prompt", PROMPT)
    hub.feed(inputs.Probed(SESSION, exists=True, held=False))


def test_a_session_that_keeps_ending_is_told_of_once(hub: Routing) -> None:
    assert crashes(hub, 2) == []
    assert crashes(hub) == [effects.Looping(SESSION, loops=True)]
    reopened(hub)
    assert crashes(hub, 4) == []


def test_it_is_over_when_a_process_of_it_has_lived_for_a_window(hub: Routing) -> None:
    crashes(hub, 3)
    reopened(hub)
    assert effects.SetTimer(STEADY, WINDOW_S) in lives(hub)
    assert hub.feed(inputs.TimerFired(STEADY)) == [
        effects.CancelTimer(STEADY),
        effects.Looping(SESSION, loops=False),
    ]
    assert hub.feed(inputs.TimerFired(STEADY)) == []


def test_an_end_in_between_begins_the_window_anew(hub: Routing) -> None:
    crashes(hub, 3)
    reopened(hub)
    lives(hub)
    assert effects.CancelTimer(STEADY) in hub.feed(inputs.ProcessEnded(SESSION, -9))
    hub.now = 30.0
    assert effects.SetTimer(STEADY, 30.0 + WINDOW_S) in lives(hub)


def test_it_is_over_when_a_process_of_it_ends_as_it_should(hub: Routing) -> None:
    crashes(hub, 3)
    assert crashes(hub, code=0) == []  # it is closed all the same
    reopened(hub)
    assert crashes(hub, code=0) == [effects.Looping(SESSION, loops=False)]


def test_it_is_over_when_the_session_is_deleted(hub: Routing) -> None:
    crashes(hub, 3)
    client = hub.client(1)
    hub.ask(client, 5, "_lembas/session/delete", {"sessionId": SESSION})
    hub.feed(inputs.Probed(SESSION, exists=True, held=False))
    (passed,) = passed_on(hub.feed(inputs.UtilityJoined(70)))
    assert loops(hub.answer(passed, value={"deleted": True})) == [
        effects.Looping(SESSION, loops=False)
    ]


def test_the_reader_of_sessions_that_are_not_open_is_closed_for_a_minute(hub: Routing) -> None:
    client = hub.client(1)
    out: list[effects.Effect] = []
    for number in range(3):
        hub.ask(client, number, "_lembas/directories", {})
        hub.ask(client, number, "_lembas/commands", {"cwd": "/p"})
        hub.feed(inputs.UtilityJoined(70))
        out += hub.feed(inputs.ProcessEnded(UTILITY, -11))
    assert loops(out) == [effects.Looping(UTILITY, loops=True)]
    assert effects.SetTimer(f"reopen {UTILITY}", WINDOW_S) in out
    asked = hub.ask(client, 8, "_lembas/commands", {"cwd": "/p"})
    assert answers(asked) == [(1, 8, CLOSED)]
    hub.feed(inputs.TimerFired(f"reopen {UTILITY}"))
    assert hub.ask(client, 9, "_lembas/commands", {"cwd": "/p"})[0] == effects.Start(
        "utility", UTILITY
    )
    hub.feed(inputs.UtilityJoined(70))
    assert loops(hub.feed(inputs.ProcessEnded(UTILITY, 0))) == [
        effects.Looping(UTILITY, loops=False)
    ]


def test_what_waits_for_a_reader_that_crashed_is_asked_of_the_next_or_refused(hub: Routing) -> None:
    client = hub.client(1)
    out: list[effects.Effect] = []
    for number in range(3):
        hub.ask(client, number, "_lembas/commands", {"cwd": "/p"})
        hub.feed(inputs.UtilityJoined(70))
        hub.feed(inputs.ConnectionLost(UTILITY))
        hub.ask(client, 10 + number, "_lembas/commands", {"cwd": "/q"})
        out = hub.feed(inputs.ProcessEnded(UTILITY, -11))
        if number < 2:
            assert effects.Start("utility", UTILITY) in out
    assert (1, 12, CLOSED) in answers(out)


def test_while_everything_ends_nothing_is_a_crash_loop(hub: Routing) -> None:
    hub.feed(inputs.StopAsked("bye"))
    assert crashes(hub, 3) == []
    hub.feed(inputs.UtilityJoined(70))
    assert loops(hub.feed(inputs.ProcessEnded(UTILITY, -9))) == []
