"""A word of bash from its pieces: quotes, escapes, braces, tilde, splitting."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from lembasd.engine.native.core.shell.reading import MAX_WORDS, Word

_GLOB: Final = re.compile(r"[*?\[]")
_ESCAPE: Final = re.compile(r"\\(\n|.)", re.DOTALL)
_IN_QUOTES: Final = re.compile(r'\\([$`"])')
#: what would not be text between double quotes
_HIDDEN: Final = re.compile(r"`|\$[\w({\[@*#?!$-]")
_SUBSTITUTES: Final = re.compile(r"`|\$[({\[]")
_ANSI: Final = re.compile(
    r"\\(?:([abeEfnrtv\\'\"?])|([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|c(.))",
    re.DOTALL,
)
_ANSI_LETTERS: Final = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))
#: what an unquoted word cannot hold: it would be something else
ACTIVE: Final = re.compile(r"""[\s`$;|&<>()'"]""")
_SEQUENCE: Final = re.compile(
    r"(?:(?P<first>[+-]?\d{1,9})\.\.(?P<last>[+-]?\d{1,9})|(?P<from>[A-Za-z])\.\.(?P<to>[A-Za-z]))"
    r"(?:\.\.(?P<step>[+-]?\d{1,9}))?"
)
#: what may be one to the shell, and is not read here
_SEQUENCE_LIKE: Final = re.compile(r"[^.]+\.\.[^.]+(?:\.\.[^.]+)?")


class Piece(Struct, frozen=True):
    """A part of a word. `text` None: it is known when it runs. `expanded`: it is the value of a variable."""

    text: str | None
    quoted: bool = False
    expanded: bool = False


def plain(raw: str) -> list[Piece] | None:
    """Unquoted text with its escapes; None when it holds what no word can hold."""
    if "\\" not in raw:
        return None if ACTIVE.search(raw) else [Piece(raw)]
    pieces: list[Piece] = []
    end = 0
    for found in _ESCAPE.finditer(raw):
        if found.start() > end:
            pieces.append(Piece(raw[end : found.start()]))
        if found[1] != "\n":
            pieces.append(Piece(found[1], quoted=True))
        end = found.end()
    rest = raw[end:]
    if rest:
        pieces.append(Piece(rest))
    if any(not one.quoted and ACTIVE.search(one.text or "") for one in pieces):
        return None
    return pieces


def in_quotes(raw: str, escaped: str = '"') -> str | None:
    """Text between double quotes without its escapes; None when something else hides in it.

    `escaped`: what may be escaped beside the rest; nothing in a here-document.
    """
    if "\\" not in raw:
        return None if _HIDDEN.search(raw) else raw
    joined = raw.replace("\\\\", "\0").replace("\\\n", "")
    if _HIDDEN.search(_IN_QUOTES.sub("", joined)):
        return None
    text = _IN_QUOTES.sub(
        lambda found: found[1] if found[1] in "$`" + escaped else found[0], joined
    )
    return text.replace("\0", "\\")


def may_run(raw: str) -> bool:
    """Whether text between double quotes holds a substitution that is none to the parser."""
    joined = raw.replace("\\\\", "").replace("\\\n", "")
    return _SUBSTITUTES.search(_IN_QUOTES.sub("", joined)) is not None


def ansi(raw: str) -> str:
    """What stands between `$'` and `'`, decoded."""

    def decoded(found: re.Match[str]) -> str:
        letter, octal, byte, short, long, control = found.groups()
        if letter:
            return _ANSI_LETTERS[letter]
        if control:
            return chr(ord(control) & 0x1F)
        code = int(octal, 8) & 0xFF if octal else int(byte or short or long, 16)
        return chr(code) if code <= 0x10FFFF else ""

    # a NUL ends the string
    return _ANSI.sub(decoded, raw).partition("\0")[0]


def words(pieces: Sequence[Piece], home: str | None) -> list[Word]:
    """The words that pieces come to: none when all is unquoted and empty. `home` None: nobody knows where it is."""
    if len(pieces) == 1:
        (one,) = pieces
        if one.text is not None and not one.expanded:
            if one.quoted:
                return [Word(one.text)]
            if not one.text.startswith("~") and "{" not in one.text:
                return [Word(one.text, glob=_GLOB.search(one.text) is not None)]
    variants = [list(pieces)]
    if any(not one.quoted and not one.expanded and "{" in (one.text or "") for one in pieces):
        braced = _braces([char for one in pieces for char in _chars(one)])
        if braced is None:
            return [Word("", known=False, many=True)]
        variants = [_joined(one) for one in braced]
    return [word for one in variants for word in _split(_tilde(one, home))]


# ── braces ──────────────────────────────────────────────────────────────────────────────────────

_Char = Piece


def _chars(piece: Piece) -> list[_Char]:
    if piece.quoted or piece.expanded or piece.text is None:
        return [piece]
    return [Piece(char) for char in piece.text]


def _joined(chars: list[_Char]) -> list[Piece]:
    pieces: list[Piece] = []
    for char in chars:
        last = pieces[-1] if pieces else None
        if last is not None and not (last.quoted or last.expanded or char.quoted or char.expanded):
            pieces[-1] = Piece((last.text or "") + (char.text or ""))
        else:
            pieces.append(char)
    return pieces


def _is(char: _Char, text: str) -> bool:
    return char.text == text and not char.quoted and not char.expanded


def _braces(chars: list[_Char]) -> list[list[_Char]] | None:
    """What braces make of a word; None when it is too much."""
    done: list[list[_Char]] = []
    waiting = [chars]
    while waiting:
        if len(done) + len(waiting) > MAX_WORDS:
            return None
        one = waiting.pop()
        made = _first_brace(one)
        if made is None:
            done.append(one)
        elif len(made) > MAX_WORDS:
            return None
        else:
            waiting += reversed(made)
    return done


def _first_brace(chars: list[_Char]) -> list[list[_Char]] | None:
    """The words that the first pair of braces which means something makes; None: none does."""
    for start, char in enumerate(chars):
        if not _is(char, "{"):
            continue
        depth, commas = 0, [start]
        for at in range(start, len(chars)):
            one = chars[at]
            if _is(one, "{"):
                depth += 1
            elif _is(one, ",") and depth == 1:
                commas.append(at)
            elif _is(one, "}"):
                depth -= 1
                if depth == 0:
                    made = _alternatives(chars, [*commas, at])
                    if made is not None:
                        return [[*chars[:start], *part, *chars[at + 1 :]] for part in made]
                    break
    return None


#: more words than are made
_TOO_MANY: Final[list[list[_Char]]] = [[]] * (MAX_WORDS + 1)


def _alternatives(chars: list[_Char], marks: list[int]) -> list[list[_Char]] | None:
    if len(marks) > 2:
        return [chars[a + 1 : b] for a, b in pairwise(marks)]
    inner = chars[marks[0] + 1 : marks[1]]
    text = "".join(one.text or "\0" for one in inner if not one.quoted)
    found = _SEQUENCE.fullmatch(text)
    if found is None or len(text) != len(inner):
        # digits without end may be one to the shell
        is_alike = "\0" in text or any(char.isdigit() for char in text)
        return _TOO_MANY if is_alike and _SEQUENCE_LIKE.fullmatch(text) else None
    letters = found["from"] is not None
    if letters:
        first, last = ord(found["from"]), ord(found["to"])
    else:
        first, last = int(found["first"]), int(found["last"])
    step = abs(int(found["step"] or 1)) or 1
    if abs(last - first) // step >= MAX_WORDS or (letters and (first > 90) != (last > 90)):
        # between Z and a lie characters that shells treat each in its own way
        return _TOO_MANY
    numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    if letters:
        return [[Piece(chr(one))] for one in numbers]
    ends = (found["first"], found["last"])
    is_padded = any(one.lstrip("+-").startswith("0") and len(one.lstrip("+-")) > 1 for one in ends)
    width = max(map(len, ends)) if is_padded else 0
    return [[Piece(f"{one:0{width}d}")] for one in numbers]


# ── tilde and splitting ─────────────────────────────────────────────────────────────────────────


def _is_home_of(home: str | None, user: str) -> bool:
    """Whether a person's name is, as far as their home's tells."""
    return home is not None and home.rpartition("/")[2] == user


def _tilde(pieces: list[Piece], home: str | None) -> list[Piece]:
    if not pieces or pieces[0].quoted or pieces[0].expanded:
        return pieces
    text = pieces[0].text
    if text is None or not text.startswith("~"):
        return pieces
    user, slash, rest = text[1:].partition("/")
    if not slash and len(pieces) > 1:
        # a name that goes on in quotes is no home
        return pieces if pieces[1].quoted else [Piece(None, quoted=True), *pieces[1:]]
    place = home if not user or _is_home_of(home, user) else "/root" if user == "root" else None
    return [Piece(place, quoted=True), Piece(slash + rest), *pieces[1:]]


def _split(pieces: list[Piece]) -> list[Word]:
    found: list[Word] = []
    text, started, known, glob, many = "", False, True, False, False

    def close() -> None:
        nonlocal text, started, known, glob, many
        if started:
            found.append(Word(text, known, glob, many))
        text, started, known, glob, many = "", False, True, False, False

    for piece in pieces:
        if piece.text is None:
            started, many = True, many or not piece.quoted
            known = False
            continue
        if piece.expanded and not piece.quoted:
            parts = re.split(r"[ \t\n]+", piece.text)
            for number, part in enumerate(parts):
                if number:
                    close()
                if part:
                    started = True
                    text += part if known else ""
                    glob = glob or _GLOB.search(part) is not None
            continue
        started = started or piece.quoted or piece.text != ""
        text += piece.text if known else ""
        glob = glob or (not piece.quoted and _GLOB.search(piece.text) is not None)
    close()
    return found
