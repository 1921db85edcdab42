"""Sessions and turns: asked once, done once, kept up to a bound."""

import msgspec
import pytest

from lembasd.instance.core.rows import (
    MAX_SESSIONS,
    MAX_WAITING_TURNS,
    NotFailed,
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


def test_a_session_that_is_removed_is_not_known_any_more() -> None:
    rows = Rows()
    rows.add(Session("ses_a", "dev", "/w"))
    rows.remove("ses_a")
    rows.remove("ses_a")
    assert (rows.get("ses_a"), rows.all()) == (None, [])


@pytest.mark.parametrize("data", [None, {}, {"reason": "model"}, {"reason": "worker_ended"}])
def test_an_id_that_has_its_error_is_never_asked_again_but_its_text_is(data: object) -> None:
    rows = Rows()
    session = rows.add(Session("ses_a", "dev", "/w"))
    failed, _ = rows.ask(session, "t1", "go")
    error = {"code": -32603, "message": "no", "data": data}
    rows.finish(session, failed, error=error)
    assert rows.ask_again(session, "t1", "t2") == Turn("t2", "go")
    assert session.turns == [Turn("t1", "go", "done", None, error), Turn("t2", "go")]


def test_a_turn_that_its_device_may_still_have_is_asked_again_by_its_id() -> None:
    rows = Rows()
    session = rows.add(Session("ses_a", "dev", "/w"))
    failed, _ = rows.ask(session, "t1", "go")
    rows.finish(session, failed, error={"code": 1, "message": "no", "data": {"retryable": True}})
    rows.ask(session, "t2", "on")
    assert rows.ask_again(session, "t1", "new") is failed
    assert session.turns == [Turn("t2", "on"), Turn("t1", "go")]


def test_only_a_turn_that_has_failed_is_asked_again() -> None:
    rows = Rows()
    session = rows.add(Session("ses_a", "dev", "/w"))
    done, _ = rows.ask(session, "t1", "go")
    rows.finish(session, done, answer={"stopReason": "end_turn"})
    for turn_id in ("t1", "t9"):
        with pytest.raises(NotFailed):
            rows.ask_again(session, turn_id, "new")


def test_a_turn_for_which_there_is_no_room_stays_as_it_was() -> None:
    rows = Rows()
    session = rows.add(Session("ses_a", "dev", "/w"))
    failed, _ = rows.ask(session, "t", "go")
    error = {"code": 1, "message": "no", "data": {"retryable": True}}
    rows.finish(session, failed, error=error)
    for number in range(MAX_WAITING_TURNS):
        rows.ask(session, f"t{number}", "go")
    with pytest.raises(TooManyTurns):
        rows.ask_again(session, "t", "new")
    assert (failed.state, failed.error) == ("done", error)
