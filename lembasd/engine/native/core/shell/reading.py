"""What a line of bash comes to: plain commands with their words, and the files its redirections open."""

from typing import Final, Literal

from msgspec import Struct

#: bytes of a line; a longer one is not read: it belongs in a file
MAX_BYTES: Final = 131_072
#: nodes and words that are looked at, those of loops and payloads again each time; one that needs more is not read further
MAX_NODES: Final = 4000
#: blocks in blocks, and lines in lines (`bash -c` in `bash -c`); what is deeper is not read
MAX_DEPTH: Final = 40
#: of what a parser takes time over that grows with the square of its number; a line with more of it is not read
MAX_OPENINGS: Final = 200
#: the same, here-documents counted too
MAX_ALL_OPENINGS: Final = 2000
#: words that braces may make of one; of more, nothing is known
MAX_WORDS: Final = 500
#: directories a line may be in at one place; with more, nothing is known of it
MAX_PLACES: Final = 8

Access = Literal["read", "write"]
#: where a command may be; None: nobody knows
Places = frozenset[str] | None


class Word(Struct, frozen=True):
    """One word of a command as it is given. `known` False: `text` is how it begins, the rest is known when it runs.

    `glob`: it names what matches it. `many`: it may become several words, or none.
    """

    text: str
    known: bool = True
    glob: bool = False
    many: bool = False


UNKNOWN: Final = Word("", known=False)
UNKNOWN_MANY: Final = Word("", known=False, many=True)


class Command(Struct, frozen=True):
    """One plain command.

    `outer`: it only runs another, which stands for itself. `strange`: it is run in a way no rule or "always" speaks of
    (as somebody else, elsewhere, with words added). `stands_for`: it is no command of the line but what one of it may come
    to, or runs by its own words: what is allowed is that one.
    """

    words: tuple[Word, ...]
    #: variables it is given
    sets: tuple[str, ...] = ()
    places: Places = None
    outer: bool = False
    strange: bool = False
    stands_for: bool = False


class Opened(Struct, frozen=True):
    """A file that a redirection opens."""

    word: Word
    access: Access
    places: Places = None


class Reading(Struct):
    """All that a line would do, as far as it can be seen. Each of `unseen` says why more may run than is listed."""

    commands: list[Command] = []
    opened: list[Opened] = []
    unseen: list[str] = []
    fork_bomb: bool = False
    #: the line as it stands
    text: str = ""

    def cannot_see(self, why: str) -> None:
        """Note a reason why this is not all."""
        if why not in self.unseen:
            self.unseen.append(why)
