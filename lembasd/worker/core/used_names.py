"""Which files a session uses: what a prompt mentions, and what its tools read and wrote."""

import posixpath
from collections.abc import Iterator
from typing import Final

from lembasd.engine.native.core.mentions import mentions
from lembasd.store.records import AnyRecord, Assistant, ToolResult

#: names of one turn that are counted; what comes after them is not
MAX_NAMES: Final = 200
#: tools whose `path` is a file
_TOOLS: Final = frozenset({"read", "write", "edit", "multiedit"})


class UsedNames:
    """The names below `root` that a turn used, /-separated, a directory's with a / at its end."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._names: dict[str, None] = {}
        self._paths: dict[str, str] = {}

    def said(self, text: str) -> None:
        """A prompt: what it mentions with an @."""
        for readings in mentions(text):
            self._add(readings[0].path)

    def recorded(self, record: AnyRecord) -> None:
        """What happened in the turn."""
        match record:
            case Assistant():
                self._paths = dict(_paths(record))
            case ToolResult(call_id=call_id, is_error=False) if call_id in self._paths:
                self._add(self._paths[call_id])
            case _:
                pass

    def take(self) -> list[str]:
        """The names so far; from now on they are forgotten."""
        names, self._names = list(self._names), {}
        return names

    def _add(self, path: str) -> None:
        name = below(self._root, path)
        if name is not None and len(self._names) < MAX_NAMES:
            self._names[name] = None


def below(root: str, path: str) -> str | None:
    """A path as it is called below `root`; None for one that is elsewhere, or `root` itself."""
    whole = posixpath.normpath(posixpath.join(root, path))
    prefix = root if root.endswith("/") else f"{root}/"
    if not whole.startswith(prefix):
        return None
    name = whole.removeprefix(prefix)
    return f"{name}/" if name and path.endswith("/") else name or None


def _paths(message: Assistant) -> Iterator[tuple[str, str]]:
    for call in message.calls:
        path = (call.args or {}).get("path")
        if call.name in _TOOLS and isinstance(path, str):
            yield call.id, path
