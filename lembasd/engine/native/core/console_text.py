"""A command's output as text: what a terminal would show in the end, without colours and a progress bar's past.

Bytes come in pieces; a character, an escape sequence or a line that the end of a piece cuts waits for its rest.
"""

import codecs
import re
from typing import Final

#: of a line that may still be written over; a longer one is final as far as it goes, so that rewriting stays cheap
MAX_OPEN_LINE_CHARS: Final = 4096
#: an escape sequence that is not over by then is none: its first character is dropped, the rest is text
MAX_SEQUENCE_CHARS: Final = 4096

#: what does something to the text before it
_ACTING: Final = "\r\b\x07\x1b"
#: those in runs: a flood of one costs no more than text does. Of many escapes the last may begin a sequence
_ACTION: Final = re.compile("([\r\b\x07\x1b])\\1*")
#: what is no text to a terminal and changes none, wherever it stands: dropped as it comes
_NOTHING: Final = bytes({*range(0x20), 0x7F} - {*b"\t\n\r\b\x07\x1b"})
#: the same of those that are no ASCII
_C1: Final = re.compile("[\x80-\x9f]+")
#: ECMA-48: CSI … final byte; OSC, DCS, SOS, PM or APC up to BEL or ST; the short escapes
_SEQUENCE: Final = re.compile(
    "\x1b\\[([0-?]*)[ -/]*([@-~])|\x1b[]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)|\x1b[ -/]*[0-OQ-WYZ\\\\`-~]"
)
#: the start of one that may go on in the next piece
_UNFINISHED: Final = re.compile("\x1b(?:\\[[0-?]*[ -/]*|[]PX^_][^\x07\x1b]*\x1b?|[ -/]*)\\Z")


class ConsoleText:
    """Turns pieces of output into final text and the line that is still open."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._line = ""
        self._column = 0

    @property
    def open_line(self) -> str:
        """The last line as it stands; it may be written over yet."""
        return self._line

    def feed(self, data: bytes) -> str:
        """Take a piece; the text that has become final by it."""
        return self._take(self._decoder.decode(data.translate(None, _NOTHING)))

    def finish(self) -> str:
        """No more comes: what is left, the open line included. A sequence that was cut off shows nothing."""
        text = self._take(self._decoder.decode(b"", final=True))
        left, self._rest, self._line, self._column = self._line, "", "", 0
        return text + left

    def _take(self, piece: str) -> str:
        text, self._rest = self._rest + piece, ""
        if not piece.isascii():
            text = _C1.sub("", text)
        if self._column == len(self._line) and not any(one in text for one in _ACTING):
            done, newline, self._line = (self._line + text).rpartition("\n")
            self._column = len(self._line)
            return done + newline + self._overlong()
        *lines, last = text.split("\n")
        done_lines: list[str] = []
        for line in lines:
            self._write(line, goes_on=False)
            done_lines.append(self._line + "\n")
            self._line, self._column = "", 0
        self._write(last, goes_on=True)
        return "".join(done_lines) + self._overlong()

    def _overlong(self) -> str:
        """The open line once it is too long to wait for its end."""
        if len(self._line) <= MAX_OPEN_LINE_CHARS:
            return ""
        line, self._line, self._column = self._line, "", 0
        return line

    def _write(self, text: str, *, goes_on: bool) -> None:
        """Write over the open line what stands between two newlines. `goes_on`: more of it may come."""
        at = 0
        while (action := _ACTION.search(text, at)) is not None:
            self._put(text[at : action.start()])
            at, run = action.end(), action.group()
            match run[0]:
                case "\r":
                    self._column = 0
                case "\b":
                    self._column = max(0, self._column - len(run))
                case "\x1b":
                    sequence = _SEQUENCE.match(text, at - 1)
                    if sequence is not None:
                        at = sequence.end()
                        self._obey(sequence[2], sequence[1])
                    elif goes_on and _may_end(text, at - 1):
                        self._rest = text[at - 1 :]
                        return
                case _:
                    pass  # a bell: nothing to see
        self._put(text[at:])

    def _put(self, text: str) -> None:
        if text:
            end = self._column + len(text)
            self._line = self._line[: self._column].ljust(self._column) + text + self._line[end:]
            self._column = end

    def _obey(self, final: str | None, numbers: str | None) -> None:
        """The sequences that progress bars are made of; any other changes no text of this line."""
        match final, numbers:
            case "K", "" | "0":
                self._line = self._line[: self._column]
            case "K", "2":
                self._line = ""
            case "G", "" | "1":
                self._column = 0
            case _:
                pass


def _may_end(text: str, start: int) -> bool:
    """Whether a sequence that is not complete may become so with the next piece."""
    return len(text) - start <= MAX_SEQUENCE_CHARS and _UNFINISHED.match(text, start) is not None
