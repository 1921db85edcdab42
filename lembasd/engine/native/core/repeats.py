"""A call that is made again and again with the same result: the model is told, then refused (decisions.md, harness 13)."""

from typing import Any, Final

import msgspec

from lembasd.engine.native.core.mcp_tools import PREFIX

#: arguments of our own tools that say why, not what; a server's may mean them
_WORDS: Final = frozenset({"purpose", "description"})
_encoder: Final = msgspec.json.Encoder(order="sorted")


def key_of(name: str, args: dict[str, Any]) -> str:
    """Calls with the same key ask for the same."""
    words = frozenset[str]() if name.startswith(PREFIX) else _WORDS
    asked = {key: value for key, value in args.items() if key not in words}
    return f"{name} {_encoder.encode(asked).decode()}"


class Repeats:
    """The calls of one turn. The `refused`th call in a row that would have the same result is not made."""

    def __init__(self, refused: int) -> None:
        self._refused = refused
        #: by key: the last result, and how often it came in a row
        self._seen: dict[str, tuple[int, int]] = {}

    def is_refused(self, key: str) -> bool:
        """Whether the call has had the same result too often to be made once more."""
        return self._seen.get(key, (0, 0))[1] >= self._refused - 1

    def ended(self, key: str, output: str) -> int:
        """Take a result in; how often the same one has come in a row, this time counted."""
        result = hash(output)
        last, count = self._seen.get(key, (result, 0))
        count = count + 1 if last == result else 1
        self._seen[key] = (result, count)
        return count
