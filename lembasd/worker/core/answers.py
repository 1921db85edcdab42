"""How a turn's end is said: as an answer, as an event, as a title."""

from collections.abc import Iterable
from typing import Any, Final, cast

from msgspec import UNSET
from msgspec.structs import replace

from lembasd.protocol import events
from lembasd.protocol.acp import PromptResult, PromptResultLembas, PromptResultMeta, StopReason
from lembasd.protocol.errors import INTERNAL_ERROR
from lembasd.protocol.lembas import AttachmentInfo
from lembasd.store.core.ledger import Answer
from lembasd.store.records import TurnError
from lembasd.worker.core.line import Turn

#: characters of a title made of the first prompt
TITLE_CHARS: Final = 60
#: `data.reason` of a turn that failed because the store could not be written
STORE: Final = "store"
#: why a message for a running turn is not taken
NOTHING_RUNS: Final = "nothing runs in this session now; send it as a prompt"
CANCELLED: Final = Answer(stop_reason="cancelled")


def failed(message: str, data: dict[str, Any] | None, code: int = INTERNAL_ERROR) -> Answer:
    """The answer of a turn that failed; `message` is one sentence for a person."""
    return Answer(error=TurnError(code, message, data))


def is_ours(error: TurnError) -> bool:
    """Whether the worker found it: an engine tells of its own errors itself."""
    return error.data is not None and error.data.get("reason") == STORE


def error_event(error: TurnError) -> events.Error:
    """What clients that follow the session are told of a turn's error."""
    data = error.data or {}
    return events.Error(
        message=error.message,
        reason=str(data.get("reason", "internal")),
        retryable=bool(data.get("retryable")),
    )


def prompt_result(turn_id: str, stop_reason: str, answer: Answer) -> PromptResult:
    """The result of session/prompt."""
    said, command = (
        PromptResultLembas(turnId=turn_id, unsent=answer.unsent or UNSET),
        answer.command,
    )
    if command is not None:
        said = replace(
            said,
            command=command.command,
            summary=command.summary,
            undone=command.undone,
            mode=command.mode,
            message=command.message,
        )
    return PromptResult(
        stopReason=cast("StopReason", stop_reason), meta=PromptResultMeta(lembas=said)
    )


def prompt_event(turn: Turn) -> events.Prompt:
    """What is told when a turn begins."""
    return events.Prompt(
        text=turn.text,
        turnId=turn.turn_id,
        attachments=[AttachmentInfo(one.name, one.mime, one.size) for one in turn.attachments],
    )


def prompt_error(error: TurnError, unsent: list[str]) -> TurnError:
    """The error of session/prompt: what was said for the turn and not taken in is not lost with it."""
    return replace(error, data={**(error.data or {}), "unsent": unsent}) if unsent else error


def title_of(text: str, names: Iterable[str] = ()) -> str:
    """A title made of a session's first prompt: the start of its first line that says something, else a file's name."""
    lines = [*text.splitlines(), *names]
    line = next((" ".join(line.split()) for line in lines if line.strip()), "")
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1].rstrip() + "…"
