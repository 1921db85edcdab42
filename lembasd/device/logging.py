"""The log: one JSON object a line in `<state>/log/lembasd.jsonl`, and for a person at a terminal a readable line.

Keys and events are a promise (docs/operators.md). No prompt text, tool output, token or key at info or above.
"""

import os
import sys
import time
from collections.abc import Callable, MutableMapping
from typing import Any, Final

import msgspec
import structlog
from structlog.typing import FilteringBoundLogger, Processor

from lembasd.device.paths import Paths

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
FILE_NAME: Final = "lembasd.jsonl"
_encode: Final = msgspec.json.Encoder(enc_hook=str).encode


class _Lines:
    """Writes each line with one write() to an O_APPEND file, so that processes share it without a lock."""

    def __init__(self, handle: int, also: int | None) -> None:
        self._handle = handle
        self._also = also

    def msg(self, line: bytes) -> None:
        try:
            os.write(self._handle, line)
        except OSError:
            pass  # a full disk must not end what the log is about
        if self._also is not None:
            try:
                os.write(self._also, line)
            except OSError:
                self._also = None  # nobody reads our stderr any more

    log = debug = info = warning = error = critical = exception = msg


def _stamp(
    component: str, pid: int
) -> Callable[[Any, str, MutableMapping[str, Any]], MutableMapping[str, Any]]:
    second, prefix = 0, ""

    def add(
        _logger: Any, method: str, fields: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        nonlocal second, prefix
        nanoseconds = time.time_ns()
        now, rest = divmod(nanoseconds, 1_000_000_000)
        if now != second:
            second, prefix = now, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        if "exc_info" in fields:
            fields = dict(structlog.processors.format_exc_info(_logger, method, fields))
            trace = fields.pop("exception", None)
            if trace:
                fields["error"] = trace
        return {
            "timestamp": f"{prefix}.{rest // 1_000_000:03d}Z",
            "level": method,
            "event": fields.pop("event"),
            "component": component,
            "pid": pid,
            **fields,
        }

    return add


def _render_json(_logger: Any, _method: str, fields: MutableMapping[str, Any]) -> bytes:
    try:
        return _encode(fields) + b"\n"
    except UnicodeEncodeError:  # a file name whose bytes are no UTF-8
        return _encode({key: _spelled(value) for key, value in fields.items()}) + b"\n"


def _spelled(value: Any) -> Any:
    """A text with what UTF-8 cannot say written as backslash escapes."""
    if not isinstance(value, str):
        return _spelled(str(value)) if isinstance(value, os.PathLike) else value
    return value.encode(errors="backslashreplace").decode()


def _render_console(_logger: Any, _method: str, fields: MutableMapping[str, Any]) -> bytes:
    head = f"{fields.pop('timestamp')[11:-1]} {fields.pop('level'):7} {fields.pop('event')}"
    fields.pop("pid")
    rest = " ".join(f"{key}={value}" for key, value in fields.items())
    return f"{head}  {rest}\n".encode(errors="backslashreplace")


class _Both:
    """JSON to the file and a readable line to the terminal."""

    def __init__(self, handle: int, terminal: int) -> None:
        self._file = _Lines(handle, None)
        self._terminal = _Lines(terminal, None)

    def msg(self, fields: MutableMapping[str, Any]) -> None:
        self._file.msg(_render_json(None, "", fields))
        self._terminal.msg(_render_console(None, "", dict(fields)))

    log = debug = info = warning = error = critical = exception = msg


def _whole(
    _logger: Any, _method: str, fields: MutableMapping[str, Any]
) -> tuple[tuple[MutableMapping[str, Any]], dict[str, Any]]:
    return (fields,), {}


def configure(
    component: str,
    paths: Paths,
    *,
    level: str = "info",
    console: bool = False,
    also_stderr: bool = False,
) -> None:
    """Set this process' log up; call it after a fork, once.

    `console`: a readable line to stderr beside the file. `also_stderr`: the JSON line to stderr, for a service
    manager's own log. Raises OSError when the file cannot be opened.
    """
    handle = os.open(
        paths.log / FILE_NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600
    )
    sink = (
        _Both(handle, sys.stderr.fileno())
        if console
        else _Lines(handle, sys.stderr.fileno() if also_stderr else None)
    )
    processors: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        _stamp(component, os.getpid()),
        _whole if console else _render_json,
    ]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS.get(level, 20)),
        logger_factory=lambda *_: sink,
        cache_logger_on_first_use=True,
    )


def logger() -> FilteringBoundLogger:
    """This process' logger; bind `session_id`, `turn_id`, `terminal_id`, `client_id` where they apply."""
    bound: FilteringBoundLogger = structlog.get_logger()
    return bound
