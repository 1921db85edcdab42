"""What a client of this machine is given when it joins: what it missed, or how the session stands as a whole.

The answer and what follows it are handed to the outbox without a pause in between: the client is attached by the
answer, so it misses nothing and gets nothing twice.
"""

from collections.abc import Callable

from lembasd.device.paths import Paths
from lembasd.protocol import jsonrpc
from lembasd.protocol.control import AttachAsked
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.errors import INTERNAL_ERROR, RequestRefused
from lembasd.protocol.lembas import AssistantTurn, AttachResult, Snapshot, UserTurn
from lembasd.protocol.limits import MAX_MESSAGE_BYTES
from lembasd.store.apart import run_apart
from lembasd.store.core.fold import Folding
from lembasd.store.journal import Journal, NoSession, read, read_on
from lembasd.worker import reading, replies
from lembasd.worker.core.inputs import Waiter
from lembasd.worker.core.outbox import Outbox


class Snapshots:
    """Of one session. `stands` is how it stands now but for its history."""

    def __init__(
        self,
        paths: Paths,
        session_id: str,
        journal: Journal,
        outbox: Outbox,
        say: Callable[[Envelope], None],
        stands: Callable[[list[UserTurn | AssistantTurn]], Snapshot],
    ) -> None:
        self._paths = paths
        self._id = session_id
        self._journal = journal
        self._outbox = outbox
        self._say = say
        self._stands = stands

    async def answer(self, waiter: Waiter, asked: AttachAsked) -> None:
        """Answer `_hub/attach`, and say what follows the answer."""
        if asked.since is not None and self._go_on(waiter, asked, asked.since):
            return
        try:
            folding, end = await run_apart(self._read)
            if end < self._journal.whole_bytes:
                # what was recorded while that was read: a few lines, and with them it is how things stand now
                for record in read_on(self._paths, self._id, end).records:
                    folding.add(record)
        except (OSError, NoSession) as error:
            sentence = (
                f"the session's journal cannot be read ({error}); see to the disk, then try again"
            )
            refused = RequestRefused(INTERNAL_ERROR, sentence, {"retryable": True})
            self._say(replies.refusal(self._id, waiter, refused))
            return
        self._say(replies.answer(self._id, waiter, self._payload(waiter, folding.view.history)))

    def _go_on(self, waiter: Waiter, asked: AttachAsked, since: str) -> bool:
        """Give what came after `since`; False where that cannot be done."""
        rest = self._outbox.rest(waiter.client, since, lembas=asked.protocol > 0)
        if rest is None:
            return False
        self._say(replies.result(self._id, waiter, AttachResult(self._id, self._outbox.place)))
        for message in rest:
            self._say(message)
        return True

    def _read(self) -> tuple[Folding, int]:
        """What the journal says, and up to which byte. Blocks."""
        loaded = read(self._paths, self._id)
        folding = Folding()
        for record in loaded.records:
            folding.add(record)
        return folding, loaded.whole_bytes

    def _payload(self, waiter: Waiter, turns: list[UserTurn | AssistantTurn]) -> bytes:
        payload = self._encoded(waiter, turns)
        if len(payload) > MAX_MESSAGE_BYTES:
            payload = self._encoded(waiter, reading.without_outputs(turns))
        if len(payload) > MAX_MESSAGE_BYTES:
            # what was said is on the disk, and the session goes on
            payload = self._encoded(waiter, [])
        return payload

    def _encoded(self, waiter: Waiter, turns: list[UserTurn | AssistantTurn]) -> bytes:
        result = AttachResult(self._id, self._outbox.place, self._stands(turns))
        return jsonrpc.result(waiter.id, result)
