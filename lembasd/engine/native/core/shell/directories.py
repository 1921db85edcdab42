"""Where a command of a line may be: the directories that a cd, or an option of the command, leads to."""

from lembasd.engine.native.core.paths import lexical
from lembasd.engine.native.core.shell.reading import MAX_PLACES, Places


def joined(one: Places, other: Places) -> Places:
    """Any of both."""
    if one is None or other is None:
        return None
    both = one | other
    return both if len(both) <= MAX_PLACES else None


def target(text: str, before: Places) -> Places:
    """Where a directory, named from where a command may be, is by its words."""
    if text.startswith("/"):
        return frozenset({lexical(text)})
    if before is None:
        return None
    return frozenset(lexical(f"{one}/{text}") for one in before)
