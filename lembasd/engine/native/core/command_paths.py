"""The paths a command names, from wherever it may stand."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from msgspec import Struct

from lembasd.engine.native.core.ground import Ground
from lembasd.engine.native.core.paths import lexical
from lembasd.engine.native.core.shell.directories import joined, target
from lembasd.engine.native.core.shell.options import basename, operands, values_of
from lembasd.engine.native.core.shell.reading import Command, Opened, Places, Reading, Word
from lembasd.harness.permissions import HARDLINE

#: characters of a path; a longer word is none
MAX_PATH_CHARS: Final = 4096
#: paths of one line that are followed; of a line with more, the rest counts as unknown
MAX_PATHS: Final = 256
TOO_MANY: Final = "it names too many paths to be checked; name fewer, or a directory"
_GLOB: Final = "*?["
#: a path behind a mark in a word: `@/a` (curl), `file:///a`, `UNIX-CONNECT:/a`, `("/a")`
_BEHIND_MARK: Final = re.compile(r"(?:^|[@:=,<>\"'(])@?(?://)?(/(?!/)[^\s\"'()<>,]*)")


class Named(Struct, frozen=True):
    """A path as a word names it, absolute by its words. `text` None: it is known when it runs.

    `glob`: where its first part that is a pattern begins; -1: it is none.
    """

    text: str | None
    glob: int = -1

    @property
    def followed(self) -> str | None:
        """What of it can be looked up: all, or the directories before its first pattern."""
        if self.text is None or self.glob < 0:
            return self.text
        return self.text[: self.glob].rpartition("/")[0] or "/"


def _candidates(text: str) -> Iterator[str]:
    """What of a command's word may be a path: the word, what stands behind its `=` or another mark, what is glued to its option."""
    if not text.startswith("-"):
        yield text
    if "/" in text and text[0] != "/":
        yield from (found[1] for found in islice(_BEHIND_MARK.finditer(text), MAX_PATHS))
    _, glued, value = text.partition("=")
    if glued and value:
        yield value
    elif text.startswith("-") and "/" in text:
        yield text[text.index("/") :]
    elif text.startswith("-") and len(text) > 2 and text[1] != "-" and "." in text:
        yield text[2:]


def ways(named: Named, ground: Ground) -> list[str]:
    """A path by its words, and by where it leads; none when it is not known."""
    followed = named.followed
    if named.text is None or followed is None:
        return []
    rest = "" if named.glob < 0 else named.text[len(followed.rstrip("/")) :]
    return list(dict.fromkeys([named.text, ground.lead(followed) + rest]))


def of_word(word: Word, places: Places) -> Iterator[Named]:
    """The paths that a word may be."""
    if not word.known:
        yield Named(None)
        return
    for text in _candidates(word.text):
        if len(text) > MAX_PATH_CHARS or "\n" in text or "\0" in text:
            continue
        if text.startswith("/"):
            yield _named(text, glob=word.glob)
        elif places is None:
            yield Named(None)
        else:
            for place in places:
                yield _named(f"{place}/{text}", glob=word.glob)


def _named(path: str, *, glob: bool) -> Named:
    if not glob:
        return Named(path)
    at = min((path.index(one) for one in _GLOB if one in path), default=-1)
    if at >= 0 and ".." in path[at:].split("/"):
        # what a pattern matches may lead anywhere
        return Named(None)
    return Named(path, at)


def places_of(one: Command) -> Places:
    """Where the relative paths of a command may begin: where it runs, and where an option of it leads (`tar -C`)."""
    options = HARDLINE.directory_options.get(basename(one.words[0].text))
    places = one.places
    if options is not None:
        for value in values_of(one.words[1:], options):
            known = value.known and not value.glob
            places = joined(places, target(value.text, one.places) if known else None)
    return places


def of_command(one: Command) -> Iterator[Named]:
    """The paths of a command's words, its name left out."""
    if one.words:
        yield from of_words(one.words[1:], places_of(one))


def of_words(words: Iterable[Word], places: Places) -> Iterator[Named]:
    """The paths that words may be."""
    for word in words:
        yield from of_word(word, places)


def of_opened(one: Opened) -> Iterator[Named]:
    """The paths that a redirection may open."""
    if not one.word.known:
        yield Named(None)
        return
    yield from of_word(
        Word(
            "./" + one.word.text if one.word.text.startswith("-") else one.word.text,
            glob=one.word.glob,
        ),
        one.places,
    )


def made_links(reading: Reading) -> dict[str, str]:
    """The links that a line's own `ln` makes: path → where it leads. What is not known is left out."""
    found: dict[str, str] = {}
    for one in reading.commands:
        if not one.words or basename(one.words[0].text) not in ("ln", "gln"):
            continue
        targets = [word for word in operands(one.words[1:]) if word.known]
        if not targets:
            continue
        *sources, last = targets if len(targets) > 1 else [*targets, Word(".")]
        for place in places_of(one) or ():
            for source in sources:
                leads = lexical(f"{place}/{source.text}" if source.text[:1] != "/" else source.text)
                link = lexical(f"{place}/{last.text}" if last.text[:1] != "/" else last.text)
                for made in (link, f"{link}/{basename(leads)}"):
                    if made != leads and not leads.startswith(made + "/"):
                        found[made] = leads
    return found


def to_follow(reading: Reading) -> list[str]:
    """What must be looked up before a line can be judged: at most MAX_PATHS, more are noted in the reading."""
    found: dict[str, None] = {}
    for command in reading.commands:
        found.update(dict.fromkeys(command.places or ()))
        for named in of_command(command):
            if named.followed is not None:
                found[named.followed] = None
    for opened in reading.opened:
        for named in of_opened(opened):
            if named.followed is not None:
                found[named.followed] = None
    if len(found) > MAX_PATHS:
        reading.cannot_see(TOO_MANY)
    return list(found)[:MAX_PATHS]
