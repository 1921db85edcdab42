"""What a line of bash would do: its plain commands, wrappers peeled off, lines that are given to a shell read too."""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from lembasd.engine.native.core.paths import lexical
from lembasd.engine.native.core.shell import programs, shells
from lembasd.engine.native.core.shell.evaluate import HIDDEN, NOTHING, UNREADABLE, State
from lembasd.engine.native.core.shell.expansion import (
    LOADERS,
    SHELLS,
    SPELLING,
    WRAPPERS,
    Expansion,
    Special,
)
from lembasd.engine.native.core.shell.options import basename
from lembasd.engine.native.core.shell.reading import Command, Reading, Word
from lembasd.engine.native.core.shell.walk import Expander, Walk
from lembasd.engine.native.core.shell.wrappers import LOADER, wrapper

NAME_UNKNOWN: Final = "the name of a command is known only when it runs"
_RESERVED: Final = frozenset(
    [
        "!",
        "{",
        "}",
        "[[",
        "]]",
        "(",
        ")",
        "if",
        "then",
        "else",
        "elif",
        "fi",
        "for",
        "while",
        "until",
        "do",
        "done",
        "case",
        "esac",
        "in",
        "select",
        "function",
    ]
)


def read(line: str, home: str, place: str, exported: Mapping[str, str] = NOTHING) -> Reading:
    """What a line would do. `home`: the person's; `place`: where it starts. Never raises, always ends.

    `exported`: variables that every shell of it has; one that the line may change is not known.
    """
    walk = Walk(_Expander(), {name: exported[name] for name in exported if _is_kept(name, line)})
    variables = {"HOME": home, "IFS": " \t\n"}
    walk.read(line, State(variables, frozenset({lexical(place)})))
    walk.reading.text = line
    return walk.reading


def _is_kept(name: str, line: str) -> bool:
    """Whether a line does nothing with a variable but to use it."""
    return all(line[:one].endswith(("$", "${")) for one in _found(name, line))


def _found(name: str, line: str) -> Iterator[int]:
    at = line.find(name)
    while at >= 0:
        yield at
        at = line.find(name, at + 1)


class _Expander(Expander):
    def assigned(self, walk: Walk, name: str, value: Word, state: State) -> None:
        if name not in SPELLING.code_variables:
            return
        if value.known:
            walk.line(value.text, state.copy(deeper=1))
        else:
            walk.reading.cannot_see(HIDDEN)

    def command(self, walk: Walk, one: Command, state: State) -> None:
        if not walk.spend(state, len(one.words)):
            return
        if one.words:
            self._named(walk, one, state)
        elif one.sets:
            walk.reading.commands.append(one)

    def _named(self, walk: Walk, one: Command, state: State) -> None:
        name = one.words[0]
        if name.known and name.text in _RESERVED:
            # a word of the shell's own where the parser took it for a name
            walk.reading.cannot_see(UNREADABLE)
        elif name.known and (not name.glob or name.text == "["):
            _expand(Expansion(self, walk, one, state))
            return
        else:
            walk.reading.cannot_see(NAME_UNKNOWN)
        walk.reading.commands.append(replace(one, outer=True))
        # where it comes to nothing, the next word is the name
        inner = replace(one, words=one.words[1:], sets=(), stands_for=True)
        self.command(walk, inner, state.copy(deeper=1))


def _expand(one: Expansion) -> None:
    name = basename(one.command.words[0].text)
    key = WRAPPERS.find(name)
    if key is not None:
        wrapper(one, SPELLING.wrappers[key])
    elif LOADERS.find(name) is not None:
        wrapper(one, LOADER)
    else:
        one.keep()
        special = shells.shell if SHELLS.find(name) else _SPECIAL.get(name, programs.other)
        special(one, name)


_SPECIAL: Final[dict[str, Special]] = {
    "eval": shells.evaluated,
    "source": shells.sourced,
    ".": shells.sourced,
    "trap": shells.trapped,
    "alias": shells.aliased,
    "cd": shells.goes,
    "pushd": shells.goes,
    "popd": shells.goes,
    "enable": shells.changes,
    "hash": shells.changes,
    "shopt": shells.changes,
    "set": shells.changes,
    "find": programs.find,
    "gfind": programs.find,
    "git": programs.git,
}
