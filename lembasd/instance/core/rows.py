"""Sessions and their turns as the instance knows them. Pure.

A turn is queued until the device works on it, and ends done with an answer or an error. When a link drops its turns
stay as they are: the same turn ids are sent again on the next link, and the device does not run them twice.
"""

from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from lembasd.protocol.limits import TURN_IDS_KEPT

#: sessions kept; the oldest one without an unfinished turn is forgotten for a new one
MAX_SESSIONS: Final = 500
#: unfinished turns of one session; one more is refused
MAX_WAITING_TURNS: Final = 32

TurnState = Literal["queued", "running", "done"]


class Turn(Struct):
    """`answer` is the device's result; `error` is {code, message, data} as it came."""

    turn_id: str
    text: str
    state: TurnState = "queued"
    answer: Any = None
    error: dict[str, Any] | None = None


class Session(Struct):
    """One session of a device; its turns are in the order they were asked for."""

    session_id: str
    device: str
    cwd: str
    title: str = ""
    turns: list[Turn] = []
    #: "" while the device has not said it
    mode: str = ""
    #: a terminal of the device's has it now
    at_terminal: bool = False

    @property
    def unfinished(self) -> list[Turn]:
        return [turn for turn in self.turns if turn.state != "done"]

    @property
    def status(self) -> str:
        return "busy" if self.unfinished else "idle"

    def turn(self, turn_id: str) -> Turn | None:
        return next((turn for turn in self.turns if turn.turn_id == turn_id), None)

    def start_next(self) -> None:
        """The first unfinished turn is the one the device works on."""
        waiting = self.unfinished
        if waiting:
            waiting[0].state = "running"


class TooManyTurns(Exception):
    """The session has MAX_WAITING_TURNS unfinished turns."""


class NotFailed(Exception):
    """The turn is not known, or has not ended with an error."""


class Rows:
    """All sessions, oldest first."""

    def __init__(self, sessions: list[Session] | None = None) -> None:
        self._sessions = {session.session_id: session for session in sessions or []}

    def all(self) -> list[Session]:
        return list(self._sessions.values())

    def of(self, device: str) -> list[Session]:
        return [session for session in self._sessions.values() if session.device == device]

    def get(self, session_id: str) -> Session | None:
        return self._sessions.get(session_id)

    def add(self, session: Session) -> Session:
        """The session as it is known now: the present one when there is one of this id."""
        known = self._sessions.get(session.session_id)
        if known is not None:
            return known
        if len(self._sessions) >= MAX_SESSIONS:
            oldest = next(iter(self._sessions))
            quiet = (one.session_id for one in self._sessions.values() if not one.unfinished)
            del self._sessions[next(quiet, oldest)]
        self._sessions[session.session_id] = session
        return session

    def remove(self, session_id: str) -> None:
        """Forget a session; one that is not known stays so."""
        self._sessions.pop(session_id, None)

    def ask(self, session: Session, turn_id: str, text: str) -> tuple[Turn, bool]:
        """The turn of this id, and whether it is new. Raises TooManyTurns."""
        known = session.turn(turn_id)
        if known is not None:
            return known, False
        return self._add(session, Turn(turn_id=turn_id, text=text)), True

    def ask_again(self, session: Session, turn_id: str, new_id: str) -> Turn:
        """The turn that asks once more for what a failed one asked for. Raises NotFailed, TooManyTurns.

        An error that is `retryable` is no turn's end: the device may still have it, so it keeps its id. Any other one is
        the answer of its id for ever (decisions.md, wire 24), so that a turn of the id `new_id` asks for the same.
        """
        failed = session.turn(turn_id)
        if failed is None or failed.error is None:
            raise NotFailed
        if not (failed.error.get("data") or {}).get("retryable"):
            return self._add(session, Turn(turn_id=new_id, text=failed.text))
        self._add(session, failed)
        failed.state, failed.error = "queued", None
        return failed

    @staticmethod
    def _add(session: Session, turn: Turn) -> Turn:
        """The turn as the session's last one."""
        if len(session.unfinished) >= MAX_WAITING_TURNS:
            raise TooManyTurns
        others = [one for one in session.turns if one is not turn]
        # unfinished ones are among the last, since MAX_WAITING_TURNS is smaller than what is kept
        session.turns = [*others[-(TURN_IDS_KEPT - 1) :], turn]
        return turn

    def finish(
        self, session: Session, turn: Turn, answer: Any = None, error: dict[str, Any] | None = None
    ) -> None:
        """The turn's answer has come; the next one is what the device works on."""
        turn.state, turn.answer, turn.error = "done", answer, error
        session.start_next()

    def encode(self) -> bytes:
        return msgspec.json.encode(self.all())


def decode(text: bytes) -> Rows:
    """Raises msgspec.MsgspecError for what was not written by `Rows.encode`."""
    return Rows(msgspec.json.decode(text, type=list[Session]))
