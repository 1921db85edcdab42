"""How many workers run, which one makes room for another, and which is ended for what it has in memory."""

import pytest

from lembasd.hub.core import effects, inputs
from lembasd.hub.core.room import ROOM_WAIT_S
from lembasd.protocol import envelope as kinds
from lembasd.protocol.control import QueuedTurn, SessionState, Settings
from lembasd.protocol.limits import MIB
from tests.support.routing import OTHER, SESSION, Routing, answers, frames, passed_on, said

THIRD = "ses_" + "d" * 26
FOURTH = "ses_" + "e" * 26
BUSY = (-32603, "busy")


@pytest.fixture
def hub() -> Routing:
    """Room for two, which run and have nothing to do; SESSION was used before OTHER."""
    hub = Routing()
    hub.client(1)
    hub.feed(inputs.SettingsChanged(Settings(max_workers=2)))
    hub.worker(SESSION)
    hub.worker(OTHER)
    return hub


def prompt(session: str) -> dict[str, object]:
    return {"sessionId": session, "prompt": [], "_meta": {"lembas": {"turnId": "t1"}}}


def asked_for(hub: Routing, session: str, message_id: int = 5) -> list[effects.Effect]:
    """A prompt for a session that is not open."""
    hub.ask(1, message_id, "session/prompt", prompt(session))
    return hub.feed(inputs.Probed(session, exists=True, held=False))


def started(out: list[effects.Effect]) -> list[str]:
    return [one.channel for one in out if isinstance(one, effects.Start)]


# ── room ────────────────────────────────────────────────────────────────────────────────────────


def test_the_one_that_was_used_least_lately_is_asked_to_end_and_the_new_one_waits_for_it(
    hub: Routing,
) -> None:
    out = asked_for(hub, THIRD)
    assert frames(out) == [(SESSION, kinds.YIELD)]
    assert effects.SetTimer(THIRD, ROOM_WAIT_S) in out
    assert started(out) == []
    assert hub.ask(1, 6, "session/prompt", prompt(THIRD)) == []
    out = hub.feed(inputs.LeavingSaid(SESSION))
    assert frames(out) == [(SESSION, kinds.LEAVE)]
    assert started(out) == [THIRD]
    assert [one.frame.channel for one in passed_on(hub.worker(THIRD))] == [THIRD, THIRD]


def test_a_session_that_was_worked_with_is_not_the_one(hub: Routing) -> None:
    (passed,) = passed_on(hub.ask(1, 5, "session/prompt", prompt(SESSION)))
    hub.state(busy=True)
    hub.answer(passed)
    hub.state(busy=False)
    assert frames(asked_for(hub, THIRD)) == [(OTHER, kinds.YIELD)]


def test_a_second_new_one_has_the_next_make_room(hub: Routing) -> None:
    asked_for(hub, THIRD)
    assert frames(asked_for(hub, FOURTH, 6)) == [(OTHER, kinds.YIELD)]
    assert started(hub.feed(inputs.LeavingSaid(OTHER))) == [THIRD]
    assert started(hub.feed(inputs.ProcessEnded(OTHER, 0))) == []
    assert started(hub.feed(inputs.ProcessEnded(SESSION, 0))) == [FOURTH]


@pytest.mark.parametrize("why", ["busy", "queue", "card", "request", "person"])
def test_one_that_has_something_to_do_stays_and_the_new_one_is_refused(
    hub: Routing, why: str
) -> None:
    for session in (SESSION, OTHER):
        match why:
            case "busy":
                hub.state(session, busy=True)
            case "queue":
                waits = SessionState(busy=False, queued=[QueuedTurn("t")])
                hub.feed(inputs.SessionSaid(session, waits))
            case "card":
                hub.feed(inputs.CardWaits(session, "c1"))
            case "request":
                hub.ask(1, 8, "session/prompt", prompt(session))
            case _:
                hub.ask(1, 8, "_hub/attach", {"sessionId": session})
    out = asked_for(hub, THIRD)
    assert answers(out) == [(1, 5, BUSY)]
    ((_client, message),) = said(out)
    assert "hub.max_workers: 2" in message["error"]["message"]
    assert message["error"]["data"]["retryable"]
    out = hub.ask(1, 6, "session/new", {"cwd": "/p"}, fresh=FOURTH)
    assert answers(out) == [(1, 6, BUSY)]


def test_one_that_does_not_end_in_time_has_the_new_one_refused_and_is_asked_no_more(
    hub: Routing,
) -> None:
    hub.ask(1, 5, "session/new", {"cwd": "/p"}, fresh=THIRD)
    assert answers(hub.feed(inputs.TimerFired(THIRD))) == [(1, 5, BUSY)]
    assert frames(asked_for(hub, FOURTH, 6)) == [(OTHER, kinds.YIELD)]
    assert answers(asked_for(hub, THIRD, 7)) == [(1, 7, BUSY)]
    assert answers(hub.feed(inputs.TimerFired(FOURTH))) == [(1, 6, BUSY)]


def test_a_start_that_fails_makes_room_too(hub: Routing) -> None:
    hub.feed(inputs.SettingsChanged(Settings(max_workers=3)))
    assert started(asked_for(hub, THIRD)) == [THIRD]
    assert frames(asked_for(hub, FOURTH, 6)) == [(SESSION, kinds.YIELD)]
    assert started(hub.feed(inputs.StartFailed(THIRD, "no memory"))) == [FOURTH]


def test_terminals_and_readers_take_no_room(hub: Routing) -> None:
    hub.terminal()
    assert started(hub.ask(1, 5, "_lembas/commands", {"cwd": "/p"})) == ["utility"]


# ── memory ──────────────────────────────────────────────────────────────────────────────────────


def test_a_worker_over_its_memory_is_ended_once_and_its_turn_is_told_why(hub: Routing) -> None:
    hub.feed(inputs.SettingsChanged(Settings(worker_memory_bytes=200 * MIB)))
    assert hub.feed(inputs.MemoryMeasured(SESSION, 200 * MIB)) == []
    assert hub.feed(inputs.MemoryMeasured(THIRD, 300 * MIB)) == []
    hub.ask(1, 4, "session/set_mode", {"sessionId": SESSION, "modeId": "edit"})
    hub.ask(1, 5, "session/prompt", prompt(SESSION))
    hub.state(busy=True)
    (ended,) = hub.feed(inputs.MemoryMeasured(SESSION, 300 * MIB))
    assert isinstance(ended, effects.EndProcess)
    assert "300 MiB in memory (hub.worker_memory: 200 MiB)" in ended.why
    assert hub.feed(inputs.MemoryMeasured(SESSION, 300 * MIB)) == []

    out = hub.feed(inputs.ProcessEnded(SESSION, -9))
    assert answers(out) == [(1, 4, (-32603, "worker_ended"))]
    assert [message["error"]["message"] for _client, message in said(out)] == [ended.why]
    # the prompt is asked of the next one, which is told what to say of its turn
    (start,) = [
        one
        for one in hub.feed(inputs.Probed(SESSION, exists=True, held=False))
        if isinstance(one, effects.Start)
    ]
    assert start.ended_for == ended.why
    hub.worker(SESSION)
    hub.feed(inputs.ProcessEnded(SESSION, -9))
    out = asked_for(hub, SESSION, 6)
    assert [one.ended_for for one in out if isinstance(one, effects.Start)] == [""]


def test_without_a_bound_nothing_is_ended(hub: Routing) -> None:
    assert hub.feed(inputs.MemoryMeasured(SESSION, 1 << 40)) == []
