"""Where each card is shown, so that every other place is told when it is settled.

The worker decides and times a card; this only remembers who was asked. A card is its `toolCallId`: asked again
after a client came back it has a new request id and the same toolCallId.
"""

from typing import Final

#: cards of one session remembered at once; the oldest is forgotten then (its places take it down by their own clock)
MAX_CARDS: Final = 1000


class Approvals:
    """The places of the cards of every session."""

    def __init__(self) -> None:
        self._shown: dict[str, dict[str, set[int]]] = {}

    def waiting(self, session: str, tool_call_id: str) -> None:
        """A worker says that this card waits for a person."""
        cards = self._shown.setdefault(session, {})
        cards.setdefault(tool_call_id, set())
        if len(cards) > MAX_CARDS:
            del cards[next(iter(cards))]

    def shown(self, session: str, tool_call_id: str, client: int) -> None:
        """The card's request goes to this client."""
        self.waiting(session, tool_call_id)
        self._shown[session][tool_call_id].add(client)

    def settled(self, session: str, tool_call_id: str, by: int) -> list[int]:
        """The card is decided, or no longer waited for; who has to be told (`by`, who answered it, knows)."""
        cards = self._shown.get(session, {})
        places = cards.pop(tool_call_id, set())
        if not cards:
            self._shown.pop(session, None)
        return sorted(places - {by})

    def client_left(self, client: int) -> None:
        """The client is gone, and its cards with it."""
        for cards in self._shown.values():
            for places in cards.values():
                places.discard(client)

    def session_ended(self, session: str) -> dict[str, list[int]]:
        """The session's worker is gone: its cards, and who has to be told of each."""
        cards = self._shown.pop(session, {})
        return {tool_call_id: sorted(places) for tool_call_id, places in cards.items()}

    def cards(self, session: str) -> list[str]:
        """The toolCallIds of the session's cards that wait."""
        return list(self._shown.get(session, {}))
