"""Which names a query means, the likeliest first. A name that was used lately is likelier."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Final

from msgspec import Struct
from rapidfuzz import fuzz

from lembasd.worker.core.file_index import FileIndex, spellings

#: names that hold the query are looked at so far, short ones first: one letter is in nearly all
MAX_CONTAINING: Final = 6_000
#: names that hold the query's letters in their order, and that resemble it, are compared so far
MAX_RESEMBLING: Final = 1_000
#: three letters of a query that are looked for where it may be misspelled
MAX_PIECES: Final = 5
MAX_OF_PIECE: Final = 250
#: a shorter query is not misspelled, it is begun
MIN_MISSPELLED_CHARS: Final = 4
#: of 100; a name that resembles the query less is another one
MIN_RESEMBLANCE: Final = 60.0

#: how much a name is what was asked for, of 100
_WHOLE: Final = 100.0
_WHOLE_STEM: Final = 90.0
_BEGINS: Final = 80.0
_BEGINS_WORD: Final = 70.0
_IN_NAME: Final = 60.0
_IN_PATH: Final = 40.0
_IN_ORDER_NAME: Final = 30.0
_RESEMBLES: Final = 25.0
_IN_ORDER: Final = 20.0
#: what being used lately and often adds at most
_USED: Final = 25.0

_ESCAPED: Final = re.compile(r"\\([ #])")
_RANGE: Final = re.compile(r"(?<!\\)#[\d-]*$")
_BETWEEN_WORDS: Final = frozenset(b"_-. /")
#: what a whole name may have behind it
_ENDS: Final = (b"", b"/")


class Found(Struct, frozen=True):
    """A name that was found. `kind`: file or dir."""

    path: str
    kind: str


def plain_query(text: str) -> str:
    """What a person looks for who has typed `text` behind an @: without its escapes, its range of lines and a ./."""
    return _ESCAPED.sub(r"\1", _RANGE.sub("", text)).removeprefix("./").replace("\0", "")


class Ranking:
    """Looks through one index, query by query. It keeps what a query's letters were found in, for the longer one that follows."""

    def __init__(self, index: FileIndex) -> None:
        self.index = index
        #: all names that hold the letters of these keys in their order
        self._in_order: dict[bytes, list[int]] = {}

    def rank(self, text: str, used: Mapping[str, float], limit: int) -> list[Found]:
        """At most `limit` names that `text` means; an empty one means those that were `used`, by how much."""
        weights = _known(self.index, used)
        query = plain_query(text)
        if not query.strip():
            best = sorted(weights, key=lambda begin: (-weights[begin], begin))
        else:
            scores = self._scores(query, weights, limit)
            best = sorted(scores, key=lambda begin: (-scores[begin], begin))
        return [_found(self.index.name_at(begin)) for begin in best[:limit]]

    def _scores(self, query: str, weights: Mapping[int, float], limit: int) -> dict[int, float]:
        scores: dict[int, float] = {}
        keys, asked = self.index.keys, spellings(query)
        for key in asked:
            for begin in _containing(keys, key):
                scores[begin] = max(scores.get(begin, 0.0), _likeness(keys, begin, key))
        if len(scores) < limit:
            self._resembling(asked, scores)
        _add_used(keys, asked, weights, scores)
        return scores

    def _resembling(self, asked: tuple[bytes, ...], scores: dict[int, float]) -> None:
        before, self._in_order = self._in_order, {}
        for key in asked:
            tail = key.decode(errors="replace").rpartition("/")[2]
            for begin in self._letters(key, before):
                if begin not in scores:
                    # letters that are all in the last part were meant for it
                    named = _holds(self.index.keys, _base(self.index.keys, begin), key)
                    likeness = _resemblance(self.index, begin, tail) / 100
                    scores[begin] = (_IN_ORDER_NAME if named else _IN_ORDER) + likeness
        if not scores:
            self._misspelled(asked, scores)

    def _misspelled(self, asked: tuple[bytes, ...], scores: dict[int, float]) -> None:
        for key in asked:
            tail = key.decode(errors="replace").rpartition("/")[2]
            for begin in _sharing(self.index.keys, tail):
                likeness = _resemblance(self.index, begin, tail)
                if likeness >= MIN_RESEMBLANCE:
                    scores[begin] = max(scores.get(begin, 0.0), _RESEMBLES * likeness / 100)

    def _letters(self, key: bytes, before: Mapping[bytes, list[int]]) -> list[int]:
        """Where names begin that hold the key's letters in their order, short ones first."""
        keys = self.index.keys
        for shorter, names in before.items():
            if key.startswith(shorter):
                # a name that does not hold the first letters does not hold them all
                found = [begin for begin in names if _holds(keys, begin, key)]
                break
        else:
            found = list(islice(_in_order(keys, key), MAX_RESEMBLING))
            if len(found) == MAX_RESEMBLING:
                return found  # not all of them: the next query has to look again
        self._in_order[key] = found
        return found


def _found(name: bytes) -> Found:
    kind = "dir" if name.endswith(b"/") else "file"
    return Found(name.decode().removesuffix("/"), kind)


def _known(index: FileIndex, used: Mapping[str, float]) -> dict[int, float]:
    places = ((index.find(name.encode(errors="replace")), weight) for name, weight in used.items())
    return {begin: weight for begin, weight in places if begin is not None}


def _containing(keys: bytes, key: bytes, most: int = MAX_CONTAINING) -> Iterator[int]:
    """Where names begin that hold the key."""
    at = keys.find(key)
    while at >= 0 and most:
        most -= 1
        yield keys.rindex(b"\0", 0, at) + 1
        at = keys.find(key, keys.index(b"\0", at))


def _likeness(keys: bytes, begin: int, key: bytes) -> float:
    """How much a name that holds the key is what was asked for."""
    base, end = _base(keys, begin), keys.index(b"\0", begin)
    at = keys.find(key, base, end)
    if at < 0:
        return _IN_PATH
    if at == base:
        rest = keys[at + len(key) : end]
        if rest in _ENDS:
            return _WHOLE
        return _WHOLE_STEM if rest.startswith(b".") else _BEGINS
    return _BEGINS_WORD if keys[at - 1] in _BETWEEN_WORDS else _IN_NAME


def _resemblance(index: FileIndex, begin: int, text: str) -> float:
    """How much a name's last part is like the text, of 100: with its suffix or without."""
    base = index.name_at(begin).decode().lower().removesuffix("/").rpartition("/")[2]
    stem = base.rpartition(".")[0] or base
    return max(fuzz.ratio(text, base), fuzz.ratio(text, stem))


def _in_order(keys: bytes, key: bytes) -> Iterator[int]:
    """Where names begin that hold the key's letters in their order, spaces aside."""
    return (match.start() + 1 for match in re.finditer(b"\0" + _expression(key), keys))


def _base(keys: bytes, begin: int) -> int:
    """Where the last part of a name begins."""
    end = keys.index(b"\0", begin)
    return keys.rfind(b"/", begin, end - 1) + 1 or begin


def _holds(keys: bytes, begin: int, key: bytes) -> bool:
    """Whether a name, from there on, holds the key's letters in their order."""
    return _pattern(key).match(keys, begin) is not None


@lru_cache(maxsize=8)
def _pattern(key: bytes) -> re.Pattern[bytes]:
    return re.compile(_expression(key))


def _expression(key: bytes) -> bytes:
    letters = [letter.encode() for letter in key.decode(errors="replace") if not letter.isspace()]
    return b"".join(map(_up_to, letters))


def _up_to(letter: bytes) -> bytes:
    """An expression for everything in a name up to and with a letter; it never goes back."""
    escaped = re.escape(letter)
    if len(letter) == 1:
        return b"[^\0" + escaped + b"]*+" + escaped
    return b"(?:(?!" + escaped + b")[^\0])*+" + escaped


def _sharing(keys: bytes, text: str) -> Iterable[int]:
    """Where names begin that hold three letters of the text side by side."""
    if len(text) < MIN_MISSPELLED_CHARS:
        return ()
    pieces = dict.fromkeys(text[at : at + 3] for at in range(len(text) - 2))
    step = -(-len(pieces) // MAX_PIECES)
    return {
        begin
        for piece in list(pieces)[::step]
        for begin in _containing(keys, piece.encode(), MAX_OF_PIECE)
    }


def _add_used(
    keys: bytes, asked: tuple[bytes, ...], weights: Mapping[int, float], scores: dict[int, float]
) -> None:
    """Names that were used lately count for more, where they are what was asked for."""
    for begin, weight in weights.items():
        if begin not in scores:
            if not any(_holds(keys, begin, key) for key in asked):
                continue
            name = keys[begin : keys.index(b"\0", begin)]
            held = next((key for key in asked if key in name), None)
            scores[begin] = _IN_ORDER if held is None else _likeness(keys, begin, held)
        scores[begin] += _USED * weight / (weight + 1)
