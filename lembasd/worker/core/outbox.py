"""What a session has said, numbered: sent as the hub takes it, and kept for who comes back.

Events go into a ring bounded in bytes, whether a hub is there or not. While the hub's socket takes nothing, deltas of
one message are merged instead of piling up, and what is for one client waits in its place among them. Nothing here
ever waits for a client: the hub asks for what a slow one has missed (`resend`).
"""

from collections import deque
from collections.abc import Iterator
from typing import Final, cast

from lembasd.protocol import envelope as kinds
from lembasd.protocol import jsonrpc
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.events import AnyEvent
from lembasd.protocol.lembas import Gap
from lembasd.protocol.limits import KIB, MIB
from lembasd.worker.core import translate
from lembasd.worker.core.translate import Delta, Said

#: what a session keeps of what it said; a client that asks for older messages is told of a gap and takes a snapshot
RING_BYTES: Final = 4 * MIB
#: text of one merged message; more goes on in the next one, so that no message holds a client's socket for long
MERGED_CHARS: Final = 256 * KIB
#: what an event costs beside its text
_ENTRY_BYTES: Final = 400


class _Entry:
    """One event, or the deltas of one message merged; its messages have the numbers up to `last`."""

    __slots__ = ("event", "first", "key", "last", "texts", "weight")

    def __init__(self, event: AnyEvent, first: int, weight: int) -> None:
        self.event = event
        self.key = translate.key_of(event)
        self.first = first
        self.last = first + translate.width(event) - 1
        self.texts = [] if self.key is None else [translate.text_of(cast("Delta", event))]
        self.weight = weight

    def add(self, event: Delta, weight: int) -> None:
        self.texts.append(translate.text_of(event))
        self.last += translate.width(event)
        self.weight += weight

    def whole(self) -> AnyEvent:
        """The event with all its text."""
        if len(self.texts) > 1:
            text = "".join(self.texts)
            self.texts = [text]
            self.event = translate.with_text(cast("Delta", self.event), text)
        return self.event


class Outbox:
    """The messages of one session in one life of its worker. `ready`: the hub's socket takes what is sent at once."""

    def __init__(self, session_id: str, epoch: int, ring_bytes: int = RING_BYTES) -> None:
        self._session_id = session_id
        self._epoch = epoch
        self._bound = ring_bytes
        self._ring: deque[_Entry] = deque()
        self._bytes = 0
        #: the number of the last message
        self.seq = 0
        #: the number of the last message that was handed to the hub's socket
        self._sent = 0
        #: what is for one client, or for the hub, and the number of the message it comes after
        self._held: deque[tuple[int, Envelope]] = deque()

    # ── saying ──────────────────────────────────────────────────────────────────────────────────

    def say(self, event: AnyEvent, *, ready: bool) -> list[Envelope]:
        """Number an event's messages and keep them; what is to be sent now."""
        key = translate.key_of(event)
        last = self._ring[-1] if self._ring else None
        if key is not None and last is not None and self._merges(last, key):
            weight = 2 * len(translate.text_of(cast("Delta", event)))
            last.add(cast("Delta", event), weight)
            self.seq = last.last
        else:
            weight = self._weigh(event)
            entry = _Entry(event, self.seq + 1, weight)
            self._ring.append(entry)
            self.seq = entry.last
        self._bytes += weight
        self._evict()
        return self.drain() if ready else []

    def _weigh(self, event: AnyEvent) -> int:
        if translate.key_of(event) is not None:
            return _ENTRY_BYTES + 2 * len(translate.text_of(cast("Delta", event)))
        said = translate.messages(self._session_id, event)
        return _ENTRY_BYTES + sum(len(one.payload) for one in said)

    def _merges(self, last: _Entry, key: tuple[str, str]) -> bool:
        unsent = last.last > self._sent
        followed = bool(self._held) and self._held[-1][0] >= last.last
        return last.key == key and unsent and not followed and last.weight < 2 * MERGED_CHARS

    def _evict(self) -> None:
        while self._bytes > self._bound and len(self._ring) > 1:
            self._bytes -= self._ring.popleft().weight

    def put(self, message: Envelope, *, ready: bool) -> list[Envelope]:
        """Send what is not a broadcast after everything said before it; what is to be sent now."""
        self._held.append((self.seq, message))
        return self.drain() if ready else []

    def drain(self) -> list[Envelope]:
        """Everything that waits, in order: the hub's socket takes it again."""
        out: list[Envelope] = []
        if self._ring and self._ring[0].first > self._sent + 1:
            # nobody took it before the ring was full
            out.append(self._gap(f"{self._epoch}:{self._sent}", kinds.ALL))
        for entry in self._unsent():
            while self._held and self._held[0][0] < entry.last:
                out.append(self._held.popleft()[1])
            out += self._frames(entry.last, entry.whole(), self._sent)
        self._sent = self.seq
        out += [message for _after, message in self._held]
        self._held.clear()
        return out

    def _unsent(self) -> list[_Entry]:
        unsent: list[_Entry] = []
        for entry in reversed(self._ring):
            if entry.last <= self._sent:
                break
            unsent.append(entry)
        unsent.reverse()
        return unsent

    @property
    def waits(self) -> bool:
        """Whether anything waits for the hub's socket."""
        return self._sent < self.seq or bool(self._held)

    def hub_lost(self) -> None:
        """What was for a client of that hub finds nobody any more; what the session said is kept."""
        self._held.clear()

    # ── saying again ────────────────────────────────────────────────────────────────────────────

    def replay(
        self, client: int, since: str, *, lembas: bool, local: bool = False
    ) -> list[Envelope]:
        """What a client that saw `since` ("epoch:seq") last has missed, or the word that it cannot be given.

        What was not handed to the hub's socket yet comes by itself.
        """
        seq = self._read(since)
        if seq is None or not self._has(seq, self._sent):
            return [self._gap(since, kinds.ONE, client)]
        return list(self._again(client, seq, self._sent, _heard(lembas=lembas, local=local)))

    def rest(self, client: int, since: str, *, lembas: bool) -> list[Envelope] | None:
        """The same for a client of this machine that is attached with the next message `put`; None: it cannot be given."""
        seq = self._read(since)
        if seq is None or not self._has(seq, self.seq):
            return None
        return list(self._again(client, seq, self.seq, _heard(lembas=lembas, local=True)))

    @property
    def place(self) -> str:
        """The number of the last message, as `epoch:seq`."""
        return f"{self._epoch}:{self.seq}"

    def _read(self, since: str) -> int | None:
        """The number in `since` where it is one of this life."""
        epoch, _, text = since.partition(":")
        is_number = text.isascii() and text.isdigit() and len(text) <= 18
        return int(text) if epoch == str(self._epoch) and is_number else None

    def resend(
        self, client: int, epoch: int, seq: int, *, lembas: bool, local: bool = False
    ) -> list[Envelope]:
        """What a client that lagged has missed after `seq`, merged, then the word that this is all."""
        done = Envelope(
            kind=kinds.RESENT,
            channel=self._session_id,
            client=client,
            epoch=self._epoch,
            seq=self._sent,
        )
        again = self.replay(client, f"{epoch}:{seq}", lembas=lembas, local=local)
        return [*again, done]

    def _has(self, seq: int, last: int) -> bool:
        """Whether everything after `seq` and up to `last` is in the ring."""
        first = self._ring[0].first if self._ring else self.seq + 1
        return first - 1 <= seq <= last or seq == last

    def _again(self, client: int, seq: int, last: int, heard: frozenset[str]) -> Iterator[Envelope]:
        for end, event, after in self._runs(seq, last):
            for frame in self._frames(end, event, after):
                if frame.audience in heard:
                    yield _for_one(frame, client)

    def _runs(self, seq: int, last: int) -> Iterator[tuple[int, AnyEvent, int]]:
        """Events after `seq` and up to `last`, neighbours of one message merged: last number, event, the number it comes after."""
        run: list[_Entry] = []
        weight = 0
        for entry in self._ring:
            if not seq < entry.last <= last:
                continue
            if entry.first <= seq:  # a part of it was seen: what follows must not be merged with it
                yield entry.last, entry.whole(), seq
                continue
            alone = entry.key is None or weight >= 2 * MERGED_CHARS
            if run and (alone or entry.key != run[0].key):
                yield run[-1].last, _merged(run), run[0].first - 1
                run, weight = [], 0
            run.append(entry)
            weight += entry.weight
        if run:
            yield run[-1].last, _merged(run), run[0].first - 1

    def _frames(self, last: int, event: AnyEvent, after: int) -> list[Envelope]:
        """The frames of an event whose last number is `last`, without those up to `after`."""
        said = translate.messages(self._session_id, event)
        delta = translate.key_of(event) is not None
        numbered = zip(range(last - len(said) + 1, last + 1), said, strict=True)
        return [self._frame(seq, one, delta=delta) for seq, one in numbered if seq > after]

    def _frame(self, seq: int, said: Said, *, delta: bool) -> Envelope:
        return Envelope(
            kind=kinds.RPC,
            channel=self._session_id,
            epoch=self._epoch,
            seq=seq,
            audience=said.audience,
            delta=delta,
            payload=said.payload,
        )

    def _gap(self, since: str, audience: str, client: int = 0) -> Envelope:
        gap = Gap(sessionId=self._session_id, since=since)
        return Envelope(
            kind=kinds.RPC,
            channel=self._session_id,
            audience=audience,
            client=client,
            payload=jsonrpc.notification("_hub/gap", gap),
        )


def _heard(*, lembas: bool, local: bool) -> frozenset[str]:
    """Which broadcasts a client is one of those for."""
    if not lembas:
        return frozenset({kinds.ALL})
    return frozenset({kinds.ALL, kinds.LEMBAS, *([kinds.LOCAL] if local else [])})


def _merged(run: list[_Entry]) -> AnyEvent:
    first = run[0].whole()
    if len(run) == 1:
        return first
    text = "".join(translate.text_of(cast("Delta", entry.whole())) for entry in run)
    return translate.with_text(cast("Delta", first), text)


def _for_one(frame: Envelope, client: int) -> Envelope:
    return Envelope(
        kind=frame.kind,
        channel=frame.channel,
        epoch=frame.epoch,
        seq=frame.seq,
        audience=kinds.ONE,
        client=client,
        delta=frame.delta,
        payload=frame.payload,
    )
