"""Which entries of an instance's `GET /v1/models` are whose (link.md, The HTTP API). Pure.

The list is somebody's JSON: an entry of another shape is passed over.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

#: models that a session can run on; an instance that lists such ones alone names no kind
_CHAT: Final = (None, "chat")
_EMBEDDING: Final = "embedding"


def is_list(listed: Any) -> bool:
    """Whether it is a list of models at all."""
    return isinstance(listed, dict) and isinstance(listed.get("data"), list)


def for_chat(listed: Any) -> list[Mapping[str, Any]]:
    """The entries of models that a session can run on, each id once, in the instance's order."""
    found = {entry["id"]: entry for entry in _entries(listed) if entry.get("kind") in _CHAT}
    return list(found.values())


def embedding(listed: Any, connection: str | None) -> str | None:
    """The `embedding` setting for a login: `<connection>/<served id>` of the first embedding model."""
    for entry in _entries(listed):
        if entry.get("kind") == _EMBEDDING:
            return f"{connection}/{entry['id']}" if connection else str(entry["id"])
    return None


def served(ref: str | None, listed: Any, connection: str | None) -> str | None:
    """The served id of a model that a setting names, which may be in the older form `<connection>/<served id>`."""
    ids = {entry["id"] for entry in _entries(listed)}
    if ref is None or ref in ids or not connection:
        return ref
    bare = ref.removeprefix(f"{connection}/")
    return bare if bare in ids else ref


def _entries(listed: Any) -> Iterator[Mapping[str, Any]]:
    for entry in listed["data"] if is_list(listed) else []:
        if isinstance(entry, dict) and isinstance(entry.get("id"), str) and entry["id"]:
            yield entry
