"""The permission requests that wait for the person. Pure.

A card is known by its device, session and toolCallId: a model makes the last one, and two sessions may run the same one.
"""

from typing import Any, Final

from msgspec import Struct

#: cards that wait; at the bound the oldest is cancelled, as nobody answers them
MAX_CARDS: Final = 256

Key = tuple[str, str, str]


class Card(Struct, frozen=True):
    """A permission request without an answer. `request_id` is the JSON text of the id that it is answered with."""

    tool_call_id: str
    session_id: str
    device: str
    title: str
    params: dict[str, Any]
    request_id: bytes

    @property
    def key(self) -> Key:
        return self.device, self.session_id, self.tool_call_id

    @property
    def options(self) -> list[str]:
        """The ids of what may be chosen."""
        options = self.params.get("options")
        return [
            str(option["optionId"])
            for option in (options if isinstance(options, list) else [])
            if isinstance(option, dict) and "optionId" in option
        ]

    def shown(self) -> dict[str, Any]:
        """The card as the API shows it."""
        return {
            "tool_call_id": self.tool_call_id,
            "session_id": self.session_id,
            "device": self.device,
            "title": self.title,
            "params": self.params,
        }


class OpenCards:
    """All cards that wait, in the order they were first asked."""

    def __init__(self) -> None:
        self._cards: dict[Key, Card] = {}

    def all(self) -> list[Card]:
        return list(self._cards.values())

    def ask(self, card: Card) -> Card | None:
        """Keep a card; one that is asked again takes its older place. A card given back is to be cancelled."""
        oldest = None
        if len(self._cards) >= MAX_CARDS and card.key not in self._cards:
            oldest = self._cards.pop(next(iter(self._cards)))
        self._cards[card.key] = card
        return oldest

    def find(self, tool_call_id: str, session_id: str | None = None) -> list[Card]:
        """The cards of this toolCallId, of one session when it is given."""
        return [
            card
            for card in self._cards.values()
            if card.tool_call_id == tool_call_id and session_id in (None, card.session_id)
        ]

    def settle(self, key: Key) -> None:
        """Take a card down; one that is down already stays so."""
        self._cards.pop(key, None)

    def forget(self, device: str) -> None:
        """Take down what a device asked: on its next link it asks again what still waits."""
        self._cards = {key: card for key, card in self._cards.items() if card.device != device}

    def drop(self, device: str, session_id: str) -> None:
        """Take down what a session asked that is deleted."""
        gone = (device, session_id)
        self._cards = {key: card for key, card in self._cards.items() if key[:2] != gone}
