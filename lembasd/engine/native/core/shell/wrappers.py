"""Commands that run the command behind their own words: sudo, env, timeout, xargs, ssh and the like."""

import re
from typing import Final

from msgspec.structs import replace

from lembasd.engine.native.core.shell.directories import target
from lembasd.engine.native.core.shell.evaluate import HIDDEN, State, holds_command
from lembasd.engine.native.core.shell.expansion import OPTION_UNKNOWN, PROGRAM, Expansion
from lembasd.engine.native.core.shell.options import Found, Options, basename
from lembasd.engine.native.core.shell.reading import UNKNOWN, UNKNOWN_MANY, Word
from lembasd.harness.permissions import HARDLINE, Wrapper

#: what loads the program named by its first operand
LOADER: Final = Wrapper(
    value=["--library-path", "--preload", "--argv0", "--audit"], alone=["--inhibit-cache"]
)
#: what is split in the same way everywhere
_PLAIN: Final = re.compile(r"[\w\s./:=,+@%{}-]*")
_SETS: Final = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
#: to a program that sets variables any name is one
_ANY_SETS: Final = re.compile(r"[^=]+=")
_MARK: Final = "{}"


def wrapper(one: Expansion, how: Wrapper) -> None:
    """Peel a wrapper off."""
    options = Options(how.alone, how.value, how.query, how.text_option, numbers=how.numbers)
    found = options.read(one.words)
    if found.asks:
        one.keep()
        return
    one.keep(outer=True)
    if found.unknown:
        # whether its value follows is not known
        one.unseen(OPTION_UNKNOWN)
    if any(value.text[:1] in ("|", "!") for _, value in found.values):
        # its output goes into a command
        one.unseen(PROGRAM)
    if found.texts:
        _split(one, found)
        return
    rest = list(found.rest)
    _goes(one, found)
    names = _assigned(one, rest, _SETS if how.here else _ANY_SETS) if how.assignments else []
    cut = next((at for at, word in enumerate(rest) if word.text in how.until), len(rest))
    rest = rest[how.skip : cut]
    if not rest:
        if how.lasts:
            one.walk.input_lost = True
        if how.reads:
            one.shell_reads(UNKNOWN if how.reads == "always" else one.input)
    elif rest[0].text in how.code:
        one.line(rest[1:2], one.state.copy())
    elif how.appends:
        _appended(one, how, found, rest)
    elif how.text:
        one.line(
            rest,
            State({}, None, UNKNOWN, (), one.state.depth) if how.elsewhere else one.state.copy(),
        )
    else:
        one.again(rest, strange=not how.plain, sets=tuple(names), here=how.here)


def _split(one: Expansion, found: Found) -> None:
    """env -S: a text is split into words, by rules of its own, and they stand before the rest."""
    words = [Word(part) for text in found.texts for part in text.text.split()]
    if not all(text.known and _PLAIN.fullmatch(text.text) for text in found.texts):
        one.unseen(OPTION_UNKNOWN)
    one.again([one.command.words[0], *words, *found.rest], strange=False)


def _assigned(one: Expansion, rest: list[Word], sets: re.Pattern[str]) -> list[str]:
    """Take the variables that are set off the front; their names."""
    names: list[str] = []
    while rest and sets.match(rest[0].text):
        variable, _, value = rest[0].text.partition("=")
        names.append(variable.removesuffix("+"))
        one.state.forget(names[-1])
        if holds_command(value):
            one.unseen(HIDDEN)
        one.expander.assigned(one.walk, names[-1], Word(value, rest.pop(0).known), one.state)
    return names


def _goes(one: Expansion, found: Found) -> None:
    """The command runs where an option says."""
    name = basename(one.command.words[0].text)
    for option, value in found.values:
        if option in HARDLINE.directory_options.get(name, ()):
            known = value.known and not value.glob
            places = target(value.text, one.command.places) if known else None
            one.command = replace(one.command, places=places)
            one.state = one.state.copy()
            one.state.places = places


def _appended(one: Expansion, how: Wrapper, found: Found, rest: list[Word]) -> None:
    """Words come from its input, in the place of a mark or at the end."""
    marks = [value.text for option, value in found.values if option in how.replace]
    if not marks and any(option in how.replace for option in found.options):
        marks = [_MARK]
    if not marks and how.text and any(_MARK in word.text for word in rest):
        marks = [_MARK]
    given = _given_words(one.input)
    if marks:
        mark = marks[-1]
        only = given[0] if given is not None and len(given) == 1 else None
        rest = [_replaced(word, mark, only) for word in rest]
    else:
        rest += [UNKNOWN_MANY] if given is None else given
    if how.text:
        one.line(rest, one.state.copy())
    one.again(rest)


def _replaced(word: Word, mark: str, by: Word | None) -> Word:
    if not mark or mark not in word.text:
        return word
    if by is not None and word.known:
        return Word(word.text.replace(mark, by.text))
    return UNKNOWN if word.text == mark else Word(word.text.partition(mark)[0], known=False)


def _given_words(given: Word | None) -> list[Word] | None:
    """The words on the input, where they are plain to see; None: nobody knows them."""
    if given is None or not given.known or re.search(r"[\\'\"]", given.text):
        return None
    return [Word(one) for one in given.text.split()]
