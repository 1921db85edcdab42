"""What a journal says of its session, as answers: read without its lock, beside the loop."""

from msgspec.structs import replace

from lembasd.device.paths import Paths
from lembasd.protocol import jsonrpc
from lembasd.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, RequestRefused
from lembasd.protocol.lembas import AssistantTurn, History, Status, UserTurn
from lembasd.protocol.limits import MAX_MESSAGE_BYTES, MIB
from lembasd.store.core.fold import SessionView, fold, interrupted
from lembasd.store.journal import NoSession, first, read


def _view(paths: Paths, session_id: str) -> SessionView:
    try:
        records = read(paths, session_id).records
        view = fold(records)
        # nobody has it open: a turn without an end died with its worker
        ends = [replace(end, t=records[-1].t) for end in interrupted(view)]
        return fold([*records, *ends]) if ends else view
    except NoSession:
        raise RequestRefused(INVALID_PARAMS, "unknown session") from None
    except OSError as error:
        raise _unreadable(error) from error


def _unreadable(error: OSError) -> RequestRefused:
    return RequestRefused(
        INTERNAL_ERROR, f"the session's journal cannot be read ({error.strerror}); try again"
    )


def root_of(paths: Paths, session_id: str) -> str:
    """The directory that a session works in, from the first line of its journal. Raises RequestRefused."""
    try:
        created = first(paths, session_id)
    except NoSession:
        raise RequestRefused(INVALID_PARAMS, "unknown session") from None
    except OSError as error:
        raise _unreadable(error) from error
    return created.root


def status(paths: Paths, session_id: str) -> Status:
    """The status of a session that nobody has open. One that is not there has `exists: false`."""
    try:
        view = _view(paths, session_id)
    except RequestRefused as refused:
        if refused.code != INVALID_PARAMS:
            raise
        view, exists = SessionView(), False
    else:
        exists = True
    return Status(
        sessionId=session_id,
        exists=exists,
        held="none",
        busy=False,
        title=view.title,
        turnId=None,
        queued=view.ledger.queued,
        lastTurnId=view.ledger.last_done,
    )


def history_answer(paths: Paths, session_id: str, message_id: bytes) -> bytes:
    """The finished answer of `_lembas/session/history`. Raises RequestRefused."""
    view = _view(paths, session_id)
    history = History(
        sessionId=session_id, title=view.title, root=view.root, turns=list(view.history)
    )
    answer = jsonrpc.result(message_id, history)
    if len(answer) > MAX_MESSAGE_BYTES:
        history = replace(history, turns=without_outputs(history.turns))
        answer = jsonrpc.result(message_id, history)
    if len(answer) > MAX_MESSAGE_BYTES:
        raise RequestRefused(
            INTERNAL_ERROR,
            f"the history is over {MAX_MESSAGE_BYTES // MIB} MiB; go on in a new session",
            {"reason": "too_long"},
        )
    return answer


def without_outputs(turns: list[UserTurn | AssistantTurn]) -> list[UserTurn | AssistantTurn]:
    """What was said, without what tools gave: for a history that fits no message."""
    return [
        replace(turn, tools=[replace(tool, output=None) for tool in turn.tools])
        if isinstance(turn, AssistantTurn)
        else turn
        for turn in turns
    ]
