"""Error codes of JSON-RPC answers, and the exceptions of this project.

LembasError
├── FrameError          a peer sent what is no frame, or one over its bound; the connection ends
├── RequestRefused      an answer to a request: code, one sentence, data; the connection goes on
├── ConfigError         a file of the person's that cannot be read: file, line, what was expected
│   └── BadValue        a value that a setting cannot have
└── UsageError          a command cannot do what was asked; one sentence that says what to do
"""

import errno
from typing import Any, Final

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

#: exit codes of the commands (interface.md)
EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_NOT_RUNNING: Final = 3
EXIT_REFUSED: Final = 4
EXIT_INTERRUPTED: Final = 130


#: what is said to whoever would begin something new while hardly any room is left; `data.reason` is DISK_REASON
DISK_LOW: Final = "the disk of this computer is nearly full, so nothing new begins; free some space there, then send it again"
DISK_REASON: Final = "store"


class LembasError(Exception):
    """The root of this project's exceptions. Its text is one sentence for a person.

    `exit_code` is what a command that ends with it leaves with, one of the EXIT_* numbers.
    """

    exit_code: int = EXIT_FAILED


class FrameError(LembasError):
    """A peer sent garbage, or a frame or message over its bound: its connection is ended, nothing else is."""


class RequestRefused(LembasError):
    """A request's answer is an error. `data` is JSON-able; `data["reason"]` is for programs."""

    exit_code = EXIT_REFUSED

    def __init__(self, code: int, message: str, data: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class ConfigError(LembasError):
    """A file cannot be used as it is.

    `path` the file, `line` 1-based or None, `problem` what is wrong and what is expected.
    """

    def __init__(self, path: str, problem: str, line: int | None = None) -> None:
        super().__init__(path, problem, line)
        self.path = path
        self.problem = problem
        self.line = line

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path}, line {self.line}"
        return f"{where}: {self.problem}"


class CannotReadNow(ConfigError):
    """A file could not be read for a reason that passes and says nothing of what is in it."""


class BadValue(ConfigError):
    """A value that a setting cannot have; the file is as it was."""

    exit_code = EXIT_USAGE

    def __str__(self) -> str:
        return self.problem


#: what a person can do about an error of the operating system
_REMEDIES: Final = {
    errno.ENOSPC: "free some space, then try again",
    errno.EDQUOT: "free some space, then try again",
    errno.EACCES: "see that it is yours and that you may write there",
    errno.EPERM: "see that it is yours and that you may write there",
    errno.EROFS: "have it mounted for writing, or set LEMBAS_HOME to another directory",
    errno.ENOTDIR: "make it a directory, or take it away",
    errno.EIO: "see to the disk, then try again",
}


def says(error: OSError) -> str:
    """What an error of the operating system says to a person: which file, what, and what to do where that is known."""
    where = f"{error.filename}: " if error.filename else ""
    remedy = _REMEDIES.get(error.errno or 0)
    return f"{where}{error.strerror or error}{f'; {remedy}' if remedy else ''}"


class UsageError(LembasError):
    """A command cannot go on; `exit_code` is one of the EXIT_* numbers."""

    def __init__(self, message: str, exit_code: int = EXIT_FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


#: what an agent's processes are told wherever they ask for what a person alone may do
AGENTS_REFUSED: Final = (
    "a session's own processes may not do this; run it in a terminal of your own"
)
