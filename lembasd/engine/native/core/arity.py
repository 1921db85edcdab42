"""How much of a command an "always" covers: its first words, as many as say what it does."""

from collections.abc import Sequence

from msgspec import Struct

from lembasd.engine.native.core.shell.options import basename
from lembasd.engine.native.core.shell.reading import Command
from lembasd.harness.permissions import ARITY


class Grant(Struct, frozen=True):
    """What a person allowed for a session: a tool (of files: below a directory), or commands that begin with these words.

    `directory`: where the command runs; "" is the project. `exact`: the command as it stands, the file and none below.
    `host`: of a tool that asks the web, the site.
    """

    tool: str
    words: tuple[str, ...] = ()
    exact: bool = False
    directory: str = ""
    host: str = ""

    @property
    def text(self) -> str:
        """As a person reads it."""
        if self.host:
            return f"every page of {self.host}"
        if not self.words and self.exact:
            return f"{self.tool} {self.directory}"
        if not self.words:
            return f"{self.tool} below {self.directory}" if self.directory else f"every {self.tool}"
        shown = " ".join(_quoted(one) for one in self.words) + ("" if self.exact else " *")
        return f"{shown} in {self.directory}" if self.directory else shown


def grant(one: Command, root: str, *, inside: bool) -> Grant | None:
    """What an "always" on a command would cover; None: it is not offered.

    `inside`: all its paths, and where it runs, lie in the project; if not, it covers the command as it stands.
    """
    if one.strange or one.outer or one.stands_for or not one.words or one.sets:
        return None
    if one.places is None or len(one.places) != 1:
        return None
    if not all(word.known for word in one.words):
        return None
    texts = tuple(word.text for word in one.words)
    name = basename(texts[0])
    if name in ARITY.never or one.words[0].glob:
        return None
    (place,) = one.places
    where = "" if place == root else place
    kept = _kept(name, texts)
    if not inside or kept is None or kept > len(texts):
        return Grant("bash", texts, exact=True, directory=where)
    return Grant("bash", texts[:kept], directory=where)


def _kept(name: str, texts: Sequence[str]) -> int | None:
    """How many words are kept; None: all."""
    if texts[0] != name:
        # a program of its own at a path
        return None
    for size in (2, 1):
        kept = ARITY.words.get(" ".join(texts[:size])) if len(texts) >= size else None
        if kept is not None:
            module = size == 2 and texts[1] == "-m"
            # an option among the kept words is none of the subcommands they stand for
            plain = not any(word.startswith("-") for word in texts[size if module else 1 : kept])
            return kept if plain else None
    if name in ARITY.scripts and len(texts) > 1 and not texts[1].startswith("-"):
        return 2
    return None


def _quoted(word: str) -> str:
    return word if word and not any(one.isspace() for one in word) else f"'{word}'"
