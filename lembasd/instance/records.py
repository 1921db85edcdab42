"""Cards and terminals as the instance holds them; both live as long as the device's link."""

import base64
from typing import Any, Final

from msgspec import Struct

from lembasd.protocol.limits import MIB

#: cards that wait; at the bound the oldest is cancelled, as nobody answers them
MAX_CARDS: Final = 256
#: raw output kept of one terminal: the last of it
MAX_OUTPUT_BYTES: Final = 1 * MIB
#: terminals kept, ended ones too; the oldest is forgotten
MAX_TERMINALS: Final = 32


class Card(Struct, frozen=True):
    """A permission request without an answer."""

    tool_call_id: str
    session_id: str
    device: str
    title: str
    params: dict[str, Any]
    request_id: bytes

    @property
    def options(self) -> list[str]:
        options = self.params.get("options")
        return [
            str(option["optionId"])
            for option in (options if isinstance(options, list) else [])
            if isinstance(option, dict) and "optionId" in option
        ]

    def shown(self) -> dict[str, Any]:
        return {
            "tool_call_id": self.tool_call_id,
            "session_id": self.session_id,
            "title": self.title,
            "params": self.params,
        }


class Terminal:
    """The end of what one terminal said. `code` is null while it runs, and when it could not be learnt."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.exited = False
        self.code: int | None = None
        self._output = bytearray()

    def add(self, data: bytes) -> None:
        self._output += data
        if len(self._output) > MAX_OUTPUT_BYTES:
            del self._output[:-MAX_OUTPUT_BYTES]

    def shown(self) -> dict[str, Any]:
        data = base64.b64encode(self._output).decode()
        return {"data": data, "exited": self.exited, "code": self.code}
