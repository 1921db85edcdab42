"""What `lembas -p` makes of a turn: the text of its answer, what was denied, how it ended."""

from typing import Any, Final

from msgspec import Struct

from lembasd.protocol.errors import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED

#: why a call was denied, as the model reads it
NOBODY: Final = "Nobody is there to approve this: the prompt was given by a program. Go on without it, or say what you would need."
_ENDS: Final = {
    "max_turn_requests": "the turn stopped at its last step",
    "max_tokens": "the answer was cut off at the model's output limit",
}


class Denied(Struct, frozen=True):
    """A call that nobody could approve."""

    toolCallId: str
    title: str
    reason: str


class Turn:
    """Fed with the events of one turn, whose id is `turn_id`."""

    def __init__(self, session_id: str, turn_id: str) -> None:
        self.session_id = session_id
        self.turn_id = turn_id
        self.denied: list[Denied] = []
        self.steps = 0
        self.begun = False
        #: the turn made more steps than it may, and was stopped for that
        self.overran = False
        self._texts: dict[str, str] = {}
        self._tokens = {"input": 0, "output": 0, "cached": 0}
        self._cost: dict[str, float] = {}

    def take(self, event: dict[str, Any]) -> bool:
        """Take an event of the session; whether it belongs to this turn."""
        match event:
            case {"type": "prompt" | "task", "turnId": turn_id}:
                mine = bool(turn_id == self.turn_id)
                if event.get("state") == "end":
                    was, self.begun = self.begun, self.begun and not mine
                    return was
                self.begun = mine
                return mine
            case {"type": "step", "n": n} if self.begun:
                self.steps = n
            case {"type": "text", "messageId": message_id, "text": text} if self.begun:
                self._texts[message_id] = self._texts.pop(message_id, "") + text
            case {"type": "retract", "messageId": message_id}:
                self._texts.pop(message_id, None)
            case {"type": "usage"} if self.begun:
                self._count(event)
            case _:
                pass
        return self.begun

    def _count(self, usage: dict[str, Any]) -> None:
        for key in self._tokens:
            self._tokens[key] += int(usage.get(key) or 0)
        cost = usage.get("cost")
        if isinstance(cost, dict):
            currency = str(cost.get("currency"))
            self._cost[currency] = self._cost.get(currency, 0.0) + float(cost.get("amount") or 0)

    def text(self, result: dict[str, Any] | None) -> str:
        """The turn's answer: its last message, or what a command said."""
        last = next(reversed(self._texts.values()), "")
        said = _lembas(result)
        return last or str(said.get("message") or said.get("summary") or "")

    def value(
        self, result: dict[str, Any] | None, error: dict[str, Any] | None, duration_ms: int
    ) -> dict[str, Any]:
        """The turn as one JSON object."""
        return {
            "type": "result",
            "session_id": self.session_id,
            "turn_id": self.turn_id,
            "stop_reason": self.stop_reason(result),
            "text": self.text(result),
            "error": error,
            "denied": [
                {"toolCallId": one.toolCallId, "title": one.title, "reason": one.reason}
                for one in self.denied
            ],
            "steps": self.steps,
            "usage": {**self._tokens, "cost": self._cost},
            "duration_ms": duration_ms,
        }

    def stop_reason(self, result: dict[str, Any] | None) -> str | None:
        """Why it ended; None: with an error."""
        if result is None:
            return None
        return "max_turn_requests" if self.overran else str(result.get("stopReason"))

    def end(self, result: dict[str, Any] | None) -> tuple[int, str]:
        """The exit code, and a sentence for a person where the turn did not end well."""
        reason = self.stop_reason(result)
        if reason == "end_turn":
            return EXIT_DONE, ""
        if reason == "cancelled":
            return EXIT_INTERRUPTED, "the turn was cancelled"
        ended = _ENDS.get(reason or "", "the turn did not end")
        return EXIT_FAILED, f"{ended}; go on with `lembas -p --resume {self.session_id} …`"


def _lembas(result: dict[str, Any] | None) -> dict[str, Any]:
    meta = (result or {}).get("_meta") or {}
    found = meta.get("lembas") or {}
    return found if isinstance(found, dict) else {}
