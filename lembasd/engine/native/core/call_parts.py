"""Streamed pieces of tool calls to calls, whatever a server makes of `index`, `id` and `name`.

The rules, each for servers that need it: a piece goes by its index; one of another id, where the index is taken, opens
a call of its own; one without an index goes by its id, else it opens a call when it names a tool and the last call is
whole, else it belongs to the last call. A name is set once, but grows when it comes in pieces. Arguments that come
whole each time replace what came before.
"""

import json
from collections.abc import Callable, Collection
from typing import Any, Final

from lembasd.engine.native.core import call_arguments, surrogates

#: calls in one reply; a model that makes more is repeating itself, and the rest is left out
MAX_CALLS: Final = 128
#: what begins a control token of a chat format that a server let through in a name
_MARK: Final = "<|"
_KNOWN: Final = frozenset({"index", "id", "type", "function"})
_KNOWN_OF_FUNCTION: Final = frozenset({"name", "arguments", "parsed_arguments"})


class BuildingCall:
    """One call as far as it came. `call_id` is ours; `extra` is what the server added and wants back."""

    def __init__(self, call_id: str) -> None:
        self.call_id = call_id
        self.server_id = ""
        self.name = ""
        self.extra: dict[str, Any] = {}
        self.function_extra: dict[str, Any] = {}
        self._pieces: list[str] = []
        self._length = 0
        self._whole_each_time = False
        self._halves = surrogates.Pieces()

    @property
    def arguments(self) -> str:
        return "".join(self._pieces)

    @property
    def is_whole(self) -> bool:
        """Whether its arguments are finished as they stand. Costs a parse: asked at a piece without an index only."""
        return bool(self._pieces) and call_arguments.read(self.arguments).problem is None

    def named(self, name: str, offered: Collection[str]) -> str | None:
        """The call's name once `name` has come too; None: it is another call's."""
        name = name.partition(_MARK)[0].strip()
        if not name:
            return self.name
        if name.startswith(self.name):
            return name
        if self.name not in offered and any(one.startswith(self.name + name) for one in offered):
            return self.name + name
        return None

    def add_arguments(self, text: str) -> str:
        """The piece of them that is new. Once they are longer than arguments may be, no more is taken."""
        text = self._halves.feed(text)
        if self._length > call_arguments.MAX_ARGUMENTS_CHARS:
            return ""
        text = text[: call_arguments.MAX_ARGUMENTS_CHARS + 1]
        if len(text) > self._length >= 2 and (
            self._whole_each_time or text.startswith(self._pieces[0])
        ):
            before = self.arguments
            if text.startswith(before):
                self._whole_each_time = True
                self._pieces, self._length = [text], len(text)
                return text[len(before) :]
        if self._whole_each_time and text == self._pieces[0]:
            return ""
        self._pieces.append(text)
        self._length += len(text)
        return text


class CallParts:
    """The calls of one reply. `offered`: the names of the tools the model was given."""

    def __init__(self, new_id: Callable[[], str], offered: Collection[str]) -> None:
        self._new_id = new_id
        self._offered = offered
        self.calls: list[BuildingCall] = []
        #: the call that pieces of a server's index go to now
        self._at: dict[int, BuildingCall] = {}

    def add(self, part: dict[str, Any]) -> tuple[BuildingCall, str] | None:
        """Take one piece in; the call and what is new of its arguments. None: a call over the bound."""
        function = part.get("function")
        function = function if isinstance(function, dict) else {}
        server_id = part.get("id")
        server_id = surrogates.whole(server_id) if isinstance(server_id, str) else ""
        name = function.get("name")
        name = surrogates.whole(name) if isinstance(name, str) else ""
        call = self._find(part.get("index"), server_id, name)
        if call is None:
            return None
        if server_id and not call.server_id:
            call.server_id = server_id
        call.name = call.named(name, self._offered) or call.name
        call.extra.update(_echoed(part, _KNOWN))
        call.function_extra.update(_echoed(function, _KNOWN_OF_FUNCTION))
        given = function.get("arguments")
        if given is None:
            return call, ""
        # some servers send an object where a text is due
        text = given if isinstance(given, str) else _written(given)
        return call, call.add_arguments(text)

    def _find(self, index: Any, server_id: str, name: str) -> BuildingCall | None:
        if isinstance(index, int) and not isinstance(index, bool):
            call = self._at.get(index)
            if call is None:
                call = self._open()
            elif self._is_another(call, server_id, name):
                call = self._of_id(server_id) or self._open()
            if call is not None:
                self._at[index] = call
            return call
        last = self.calls[-1] if self.calls else None
        if server_id:
            known = self._of_id(server_id)
            if known is not None:
                return known
            if last is not None and not last.server_id and not last.is_whole and not name:
                return last
            return self._open()
        if last is None or (name and last.name and last.is_whole):
            return self._open()
        return self._open() if last.named(name, self._offered) is None else last

    def _is_another(self, call: BuildingCall, server_id: str, name: str) -> bool:
        """Whether a piece of the call's index is not the call's: some servers give each call the index 0."""
        if server_id and call.server_id not in ("", server_id):
            return bool(name) or call.is_whole
        return call.named(name, self._offered) is None

    def _of_id(self, server_id: str) -> BuildingCall | None:
        if not server_id:
            return None
        return next((one for one in self.calls if one.server_id == server_id), None)

    def _open(self) -> BuildingCall | None:
        if len(self.calls) >= MAX_CALLS:
            return None
        call = BuildingCall(self._new_id())
        self.calls.append(call)
        return call


def _echoed(part: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    """What the server added to a call, as far as it can be sent back: half a character cannot."""
    return {
        key: value
        for key, value in part.items()
        if key not in known and surrogates.can_be_sent((key, value))
    }


def _written(arguments: Any) -> str:
    try:
        return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return "["  # reads as cut off, which never runs
