"""The log: one JSON object a line in `<state>/log/lembasd.jsonl`, and for a person at a terminal a readable line.

Keys and events are a promise (docs/operations.md). No prompt text, tool output, token or key at info or above; what
looks like a secret is not written at any level, and what comes again and again is left out after a while.
"""

import os
import sys
import time
from collections.abc import Callable, MutableMapping
from typing import Any, Final

import msgspec
import structlog
from structlog.typing import FilteringBoundLogger, Processor

from lembasd.device.core.redaction import redacted
from lembasd.device.core.repeats import WINDOW_S, Repeats
from lembasd.device.log_file import LogFile
from lembasd.device.paths import Paths
from lembasd.protocol.limits import KIB

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
#: a secret that is shorter stands in any word, so that lines without it could not be read
MIN_SECRET_CHARS: Final = 4
#: secrets kept out of the log by name; with more, the first is only found by what it looks like
MAX_SECRETS: Final = 32
#: bytes of a line; a longer one keeps the start of each text only
MAX_LINE_BYTES: Final = 64 * KIB
_CUT_CHARS: Final = 1000
_Render = Callable[[Any, str, MutableMapping[str, Any]], bytes]
_encoded: Final = msgspec.json.Encoder(enc_hook=str).encode


class _Lines:
    """Where finished lines go: the file, and another descriptor where one is wanted."""

    def __init__(self, file: LogFile | None, also: int | None) -> None:
        self._file = file
        self._also = also

    def msg(self, line: bytes) -> None:
        if self._file is not None:
            self._file.write(line)
        if self._also is not None:
            try:
                os.write(self._also, line)
            except OSError:
                self._also = None  # nobody reads our stderr any more

    log = debug = info = warning = error = critical = exception = msg


class _Threshold:
    """Drops what is below the level of the moment."""

    def __init__(self) -> None:
        self.level = LEVELS["info"]

    def __call__(
        self, _logger: Any, method: str, fields: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        if LEVELS.get(method, self.level) < self.level:
            raise structlog.DropEvent
        return fields


_threshold: Final = _Threshold()


def set_level(level: str) -> None:
    """Write lines of this level and above from now on."""
    _threshold.level = LEVELS.get(level, LEVELS["info"])


#: secrets that this process knows, as they would stand in a line
_secrets: list[bytes] = []


def hide(secret: str) -> None:
    """Have this secret never stand in a line of this process'."""
    written = _encode(secret)[1:-1]
    if len(secret) >= MIN_SECRET_CHARS and written not in _secrets:
        _secrets.append(written)
        del _secrets[:-MAX_SECRETS]


def _clean(fields: bytes) -> bytes:
    return redacted(fields, _secrets)


def _encode(value: Any) -> bytes:
    try:
        return _encoded(value)
    except UnicodeEncodeError:  # a file name whose bytes are no UTF-8
        if isinstance(value, MutableMapping):
            return _encoded({key: _spelled(one) for key, one in value.items()})
        return _encoded(_spelled(value))


def _spelled(value: Any) -> Any:
    """A text with what UTF-8 cannot say written as backslash escapes."""
    if not isinstance(value, str):
        return _spelled(str(value)) if isinstance(value, os.PathLike) else value
    return value.encode(errors="backslashreplace").decode()


class _Clock:
    """RFC 3339 in UTC with milliseconds. A second's text is made once."""

    def __init__(self) -> None:
        self._second, self._text = 0, b""

    def now(self) -> bytes:
        second, rest = divmod(time.time_ns(), 1_000_000_000)
        if second != self._second:
            self._second = second
            self._text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second)).encode()
        return b"%b.%03dZ" % (self._text, rest // 1_000_000)


def _trace_to_error(fields: MutableMapping[str, Any]) -> None:
    """Put a traceback, where one was asked for, into `error`."""
    trace = structlog.processors.format_exc_info(None, "", fields).pop("exception", None)
    if trace:
        fields["error"] = trace


def _cut(value: Any) -> Any:
    """A value that fits: the start of a text, and of what is no number its text."""
    if isinstance(value, int | float) or value is None:
        return value
    text = str(value)
    return text if len(text) <= _CUT_CHARS else f"{text[:_CUT_CHARS]}…"


def _without_repeats() -> Processor:
    """Leaves out what comes too often; `debug` is asked for, and left alone."""
    repeats = Repeats()

    def judge(
        _logger: Any, method: str, fields: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        if method == "debug":
            return fields
        get = fields.get  # what tells lines of one event apart
        kind = (get("event"), get("session_id"), get("terminal_id"), get("channel"))
        heard = repeats.hear(kind, time.monotonic())
        if not heard.written:
            raise structlog.DropEvent
        if heard.left_out:
            fields["left_out"] = heard.left_out
        if heard.last:
            fields["muted_s"] = int(WINDOW_S)
        return fields

    return judge


def _json_line(component: str, pid: int) -> _Render:
    """What makes a line of a level and fields: the part that is the same in each is encoded once."""
    clock = _Clock()
    ours = b',"component":%b,"pid":%d' % (_encode(component), pid)

    def render(_logger: Any, method: str, fields: MutableMapping[str, Any]) -> bytes:
        if "exc_info" in fields:
            _trace_to_error(fields)
        event = _encode(fields.pop("event"))
        head = b'{"timestamp":"%b","level":"%b","event":%b%b' % (
            clock.now(),
            method.encode(),
            event,
            ours,
        )
        if not fields:
            return head + b"}\n"
        said = _encode(fields)
        if len(said) > MAX_LINE_BYTES:
            said = _encode({key: _cut(value) for key, value in fields.items()})
        return b"%b,%b\n" % (head, _clean(said)[1:])

    return render


def readable(text: str) -> str:
    """A text as a terminal may be shown it: control characters are spelled."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in text)


def _console_line(component: str) -> _Render:
    """What makes a line for a person. Control characters of values reach no terminal."""
    clock = _Clock()

    def render(_logger: Any, method: str, fields: MutableMapping[str, Any]) -> bytes:
        said = {"component": component, **fields}
        head = f"{clock.now()[11:-1].decode()} {method:7} {said.pop('event')}"
        rest = " ".join(f"{key}={value}" for key, value in said.items())
        return _clean(f"{head}  {readable(rest)}\n".encode(errors="backslashreplace"))

    return render


class _Both:
    """JSON to the file and a readable line to the terminal."""

    def __init__(self, file: _Lines, terminal: _Lines) -> None:
        self._file = file
        self._terminal = terminal

    def msg(self, line: bytes, readable: bytes) -> None:
        self._file.msg(line)
        self._terminal.msg(readable)

    log = debug = info = warning = error = critical = exception = msg


def _both_lines(json_line: _Render, console_line: _Render) -> Processor:
    def render(
        logger: Any, method: str, fields: MutableMapping[str, Any]
    ) -> tuple[tuple[bytes, bytes], dict[str, Any]]:
        if "exc_info" in fields:
            _trace_to_error(fields)
        readable = console_line(logger, method, fields)
        return (json_line(logger, method, fields), readable), {}

    return render


def configure(
    component: str,
    paths: Paths,
    *,
    level: str = "info",
    console: bool = False,
    also_stderr: bool = False,
) -> LogFile:
    """Set this process' log up; call it after a fork. The file, for whoever ends the log before the process.

    `console`: a readable line to stderr beside the file. `also_stderr`: the JSON line to stderr, for a service
    manager's own log. Raises OSError when not even /dev/null can be opened.
    """
    file = LogFile(paths.log)
    json_line = _json_line(component, os.getpid())
    sink: _Lines | _Both = _Lines(file, sys.stderr.fileno() if also_stderr else None)
    render: Processor = json_line
    if console:
        sink = _Both(_Lines(file, None), _Lines(None, sys.stderr.fileno()))
        render = _both_lines(json_line, _console_line(component))
    set_level(level)
    structlog.configure(
        processors=[_threshold, _without_repeats(), render],
        # not the level of now: it may change, and loggers are bound already
        wrapper_class=structlog.make_filtering_bound_logger(min(LEVELS.values())),
        logger_factory=lambda *_: sink,
        cache_logger_on_first_use=True,
    )
    if file.aside is not None:
        path, kept = str(file.path), str(file.aside)
        logger().warning("record_damaged", path=path, error="it is no file to write", kept=kept)
    return file


def silence() -> None:
    """No log in this process: a command says what there is to say itself."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())


def logger() -> FilteringBoundLogger:
    """This process' logger; call it after `configure`.

    Bind `session_id`, `turn_id`, `terminal_id`, `client_id` where they apply.
    """
    # bound at once: structlog's lazy proxy would look everything up again at each line
    bound: FilteringBoundLogger = structlog.get_logger().bind()
    return bound
