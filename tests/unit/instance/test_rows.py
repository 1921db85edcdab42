"""Sessions and turns: asked once, done once, kept up to a bound."""

import msgspec
import pytest

from lembasd.instance.core.rows import (
    MAX_SESSIONS,
    MAX_WAITING_TURNS,
    Rows,
    Session,
    TooManyTurns,
    Turn,
    decode,
)
from lembasd.protocol.limits import TURN_IDS_KEPT


def test_a_turn_id_that_is_known_is_the_same_turn() -> None:
    rows = Rows()
    session = rows.add(Session("ses_a", "dev", "/w"))
    first = rows.ask(session, "t1", "do")
    again = rows.ask(session, "t1", "do it again")
    assert (first, again) == ((Turn("t1", "do"), True), (first[0], False))
    assert session.turns == [Turn("t1", "do")]


def test_the_next_turn_runs_when_one_is_done() -> None:
    rows = Rows()
    session = rows.add(Session("ses_a", "dev", "/w"))
    first, _ = rows.ask(session, "t1", "one")
    rows.ask(session, "t2", "two")
    session.start_next()
    assert session.status == "busy"
    rows.finish(session, first, answer={"stopReason": "end_turn"})
    assert session.turns == [
        Turn("t1", "one", "done", {"stopReason": "end_turn"}),
        Turn("t2", "two", "running"),
    ]
    rows.finish(session, session.turns[1], error={"code": 1})
    assert (session.status, session.turns[1].error) == ("idle", {"code": 1})


def test_more_turns_than_may_wait_are_refused() -> None:
    rows = Rows()
    session = rows.add(Session("ses_a", "dev", "/w"))
    for number in range(MAX_WAITING_TURNS):
        rows.ask(session, f"t{number}", "go")
    with pytest.raises(TooManyTurns):
        rows.ask(session, "more", "go")


def test_old_turns_are_forgotten() -> None:
    rows = Rows()
    session = rows.add(Session("ses_a", "dev", "/w"))
    for number in range(TURN_IDS_KEPT + 5):
        turn, _ = rows.ask(session, f"t{number}", "go")
        rows.finish(session, turn)
    assert [turn.turn_id for turn in session.turns] == [
        f"t{number}" for number in range(5, TURN_IDS_KEPT + 5)
    ]


def test_the_oldest_quiet_session_makes_room() -> None:
    rows = Rows()
    busy = rows.add(Session("ses_0", "dev", "/w"))
    rows.ask(busy, "t", "go")
    for number in range(1, MAX_SESSIONS + 1):
        rows.add(Session(f"ses_{number}", "dev", "/w"))
    assert [rows.get("ses_0"), rows.get("ses_1"), len(rows.all())] == [busy, None, MAX_SESSIONS]


def test_the_oldest_session_makes_room_when_none_is_quiet() -> None:
    rows = Rows()
    for number in range(MAX_SESSIONS + 1):
        rows.ask(rows.add(Session(f"ses_{number}", "dev", "/w")), "t", "go")
    assert [rows.get("ses_0"), len(rows.all())] == [None, MAX_SESSIONS]


def test_a_session_that_is_known_stays_as_it_is() -> None:
    rows = Rows()
    known = rows.add(Session("ses_a", "dev", "/w"))
    assert rows.add(Session("ses_a", "dev", "/other")) is known
    assert (rows.of("dev"), rows.of("other")) == ([known], [])


def test_rows_come_back_from_their_text() -> None:
    rows = Rows()
    session = rows.add(Session("ses_a", "dev", "/w", "title"))
    rows.ask(session, "t1", "go")
    assert decode(rows.encode()).all() == rows.all()
    with pytest.raises(msgspec.MsgspecError):
        decode(b"{")
