"""Who does not answer, and who only had no chance to."""

from lembasd.hub.core import effects, inputs
from lembasd.hub.core.heartbeat import (
    BEAT_S,
    LATE_S,
    Ask,
    Beat,
    Heard,
    Heartbeat,
    Responsive,
    Unresponsive,
)
from lembasd.protocol import envelope as kinds
from lembasd.protocol.control import Settings
from tests.support.routing import OTHER, SESSION, TERMINAL, Routing, frames, passed_on, said


def test_who_was_silent_is_asked_and_who_stays_silent_is_told_of_once() -> None:
    machine = Heartbeat()
    assert machine.handle(Beat({"a": True, "b": False}), 0.0) == [Ask("b")]
    assert machine.handle(Beat({"a": False, "b": True}), BEAT_S) == [Ask("a")]
    assert machine.handle(Beat({"a": False, "b": True}), 2 * BEAT_S) == [Unresponsive("a")]
    assert machine.handle(Beat({"a": False, "b": True}), 3 * BEAT_S) == []
    assert machine.handle(Heard("a"), 3 * BEAT_S + 1) == [Responsive("a", 2 * BEAT_S + 1)]
    assert machine.handle(Heard("a"), 3 * BEAT_S + 1) == []
    assert machine.handle(Beat({"a": True}), 4 * BEAT_S) == []


def test_what_is_heard_at_a_beat_counts_too() -> None:
    machine = Heartbeat()
    for at in (0.0, BEAT_S):
        machine.handle(Beat({"a": False}), at)
    assert machine.handle(Beat({"a": True}), 2 * BEAT_S) == [Responsive("a", 2 * BEAT_S)]


def test_a_hub_that_stood_still_judges_nobody() -> None:
    machine = Heartbeat()
    machine.handle(Beat({"a": False}), 0.0)
    late = BEAT_S + LATE_S + 0.1
    assert machine.handle(Beat({"a": False}), late) == []
    assert machine.handle(Beat({"a": False}), late + BEAT_S) == [Unresponsive("a")]


def test_who_is_gone_is_forgotten() -> None:
    machine = Heartbeat()
    for at in (0.0, BEAT_S):
        machine.handle(Beat({"a": False}), at)
    assert machine.handle(Beat({}), 2 * BEAT_S) == []
    assert machine.handle(Beat({"a": False}), 3 * BEAT_S) == [Ask("a")]


# ── what the router does with one ───────────────────────────────────────────────────────────────


def followed() -> Routing:
    """A hub with a session that a LLeMbas client follows."""
    hub = Routing()
    hub.worker()
    (asked,) = passed_on(hub.ask(hub.client(1), 4, "_hub/attach", {"sessionId": SESSION}))
    hub.answer(asked, value={"sessionId": SESSION, "seq": "1:9"})
    return hub


def notices(out: list[effects.Effect]) -> list[tuple[int, str]]:
    return [(client, message["params"]["event"]["level"]) for client, message in said(out)]


def test_who_follows_the_session_is_told_and_nothing_is_ended() -> None:
    hub = followed()
    out = hub.feed(inputs.Answering(SESSION, answers=False))
    assert (notices(out), len(out)) == ([(1, "warning")], 1)
    out = hub.feed(inputs.Answering(SESSION, answers=True))
    assert (notices(out), len(out)) == ([(1, "info")], 1)


def test_a_terminal_and_what_is_gone_have_nobody_told() -> None:
    hub = followed()
    hub.terminal()
    assert hub.feed(inputs.Answering(TERMINAL, answers=False)) == []
    assert hub.feed(inputs.Answering(OTHER, answers=False)) == []


def test_prompts_go_to_it_all_the_same_and_its_history_is_read_beside_it() -> None:
    hub = followed()
    hub.feed(inputs.UtilityJoined(70))
    hub.feed(inputs.Answering(SESSION, answers=False))
    asked = {"sessionId": SESSION, "prompt": []}
    assert [one.channel for one in passed_on(hub.ask(1, 5, "session/prompt", asked))] == [SESSION]
    history = hub.ask(1, 6, "_lembas/session/history", {"sessionId": SESSION})
    assert [one.channel for one in passed_on(history)] == ["utility"]
    hub.feed(inputs.Answering(SESSION, answers=True))
    history = hub.ask(1, 7, "_lembas/session/history", {"sessionId": SESSION})
    assert [one.channel for one in passed_on(history)] == [SESSION]


def test_it_is_not_asked_to_make_room_and_connects_again_as_one_that_answers() -> None:
    hub = Routing()
    hub.client(1)
    hub.feed(inputs.SettingsChanged(Settings(max_workers=1)))
    hub.worker()
    hub.feed(inputs.Answering(SESSION, answers=False))
    hub.ask(1, 5, "session/new", {"cwd": "/p"}, fresh=OTHER)
    assert hub.router.table.channels.keys() == {SESSION}
    hub.worker()
    out = hub.ask(1, 6, "session/new", {"cwd": "/p"}, fresh=OTHER)
    assert frames(out) == [(SESSION, kinds.YIELD)]
