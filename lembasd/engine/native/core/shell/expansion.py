"""One command with a known name, while what it comes to is found out."""

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import translate
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from lembasd.engine.native.core.shell.evaluate import State
from lembasd.engine.native.core.shell.reading import UNKNOWN, Command, Word
from lembasd.engine.native.core.shell.walk import Expander, Walk
from lembasd.harness.permissions import HARDLINE

INPUT_UNKNOWN: Final = "what a shell or interpreter is given is known only when it runs"
OPTION_UNKNOWN: Final = "what a command runs depends on an option that is not known"
CODE: Final = "it holds code that is not looked into"
PROGRAM: Final = "an option or setting in it names a program that is run"
SPELLING: Final = HARDLINE.spelling


class Expansion(Struct):
    """The command, and what it adds to the reading."""

    expander: Expander
    walk: Walk
    command: Command
    state: State

    @property
    def words(self) -> tuple[Word, ...]:
        """The command's words behind its name."""
        return self.command.words[1:]

    @property
    def input(self) -> Word | None:
        """What it reads: None nothing of the line's."""
        return UNKNOWN if self.walk.input_lost else self.state.input

    def keep(self, *, outer: bool = False) -> None:
        """The command itself is one that runs."""
        outer = outer or self.command.stands_for
        self.walk.reading.commands.append(replace(self.command, outer=outer))

    def unseen(self, why: str) -> None:
        """More may run than can be seen."""
        self.walk.reading.cannot_see(why)

    def again(
        self,
        words: Sequence[Word],
        *,
        strange: bool = True,
        sets: tuple[str, ...] = (),
        here: bool = False,
        stands_for: bool = False,
    ) -> None:
        """Expand the command that this one runs. `here`: in the same shell, whose state it may change.

        `stands_for`: the command is this one's business, but for what floor and rules have against it.
        """
        inner = replace(
            self.command,
            words=tuple(words),
            sets=(*self.command.sets, *sets),
            strange=strange or self.command.strange,
            stands_for=stands_for or self.command.stands_for,
        )
        state = self.state if here else self.state.copy()
        state.depth += 1
        self.expander.command(self.walk, inner, state)
        state.depth -= 1

    def line(self, words: Sequence[Word], state: State | None = None) -> None:
        """Read words as a shell's line; `state` None: in this shell."""
        if not words or not all(one.known and not one.glob for one in words):
            self.unseen(INPUT_UNKNOWN)
            return
        state = self.state if state is None else state
        state.depth += 1
        self.walk.line(" ".join(one.text for one in words), state)
        state.depth -= 1

    def other_shell(self, given: Word | None = None) -> State:
        """What another shell knows: variables that were not exported are not its own."""
        known = self.state.variables
        kept = {name: value for name, value in known.items() if name in ("HOME", "IFS")}
        return State(kept, self.state.places, given, (), self.state.depth)

    def shell_reads(self, given: Word | None) -> None:
        """A shell reads lines from its input; None: nothing is on it."""
        if given is not None:
            self.line([replace(given, glob=False)], self.other_shell())


Special = Callable[[Expansion, str], None]


class Names:
    """A table of names, in which `*` and `[` make patterns. A file system may not care for case."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        patterns = [one for one in self._names if "*" in one or "[" in one]
        self._patterns = {one: re.compile(translate(one)) for one in patterns}
        self._any = re.compile("|".join(map(translate, patterns)) or r"(?!)")

    def find(self, name: str) -> str | None:
        """The entry that a name is."""
        for one in (name, name.lower()):
            if one in self._names:
                return one
        small = name.lower()
        if self._any.match(small) is None:
            return None
        return next(one for one, pattern in self._patterns.items() if pattern.match(small))


WRAPPERS: Final = Names(SPELLING.wrappers)
LOADERS: Final = Names(SPELLING.loaders)
SHELLS: Final = Names(SPELLING.shells)
CODE_COMMANDS: Final = Names(SPELLING.code_commands)
INTERPRETERS: Final = Names(SPELLING.interpreters)
STDIN_INTERPRETERS: Final = Names(SPELLING.stdin_interpreters)
