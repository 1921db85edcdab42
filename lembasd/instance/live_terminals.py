"""A terminal on the page: its output and what is typed into it, over one WebSocket.

Binary messages are bytes, the output's and the person's. Text messages are JSON. To the page: `{"from": n, "until": m}`
first (the count of the output's first byte to come, and up to where it was there before), `{"lost": n}`, `{"away": bool}`,
`{"exit": code}`. From the page: `{"shown": n}`, `{"cols": c, "rows": r}`.
"""

import asyncio
import base64
from typing import Any, Final

import msgspec
from msgspec import Struct
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from lembasd.instance.core.terminal_output import WINDOW_BYTES
from lembasd.instance.devices import Devices
from lembasd.instance.guard import Keys, refusal
from lembasd.instance.records import MAX_CHUNK_BYTES, Terminal
from lembasd.protocol.errors import RequestRefused

#: the page said what it never says
CLOSE_GARBAGE: Final = 1008
#: the shell ended, and that was told
CLOSE_ENDED: Final = 1000
_NO_TERMINAL: Final = "this instance knows no such terminal; open one"
_NOT_YOURS: Final = "open the address that the instance printed at its start"


class _Said(Struct, frozen=True):
    shown: int | None = None
    cols: int | None = None
    rows: int | None = None


_said: Final = msgspec.json.Decoder(_Said)


class LiveTerminals:
    """`/api/local/terminals/ID/live?after=N`: N bytes of the output are there already."""

    def __init__(self, devices: Devices, keys: Keys) -> None:
        self._devices = devices
        self._keys = keys

    def routes(self) -> list[WebSocketRoute]:
        return [WebSocketRoute("/api/local/terminals/{terminal_id}/live", self._live)]

    async def _live(self, socket: WebSocket) -> None:
        if not self._keys.is_person(socket):
            await socket.send_denial_response(refusal(401, _NOT_YOURS))
            return
        terminal_id: str = socket.path_params["terminal_id"]
        terminal = self._devices.terminals.get(terminal_id)
        if terminal is None:
            await socket.send_denial_response(refusal(404, _NO_TERMINAL))
            return
        await socket.accept()
        after = socket.query_params.get("after", "")
        count = int(after) if after.isdecimal() and len(after) < 20 else None
        viewer = _Viewer(self._devices, socket, terminal_id, terminal, count)
        try:
            await viewer.serve()
        finally:
            viewer.leave()


class _Viewer:
    """One open WebSocket."""

    def __init__(
        self,
        devices: Devices,
        socket: WebSocket,
        terminal_id: str,
        terminal: Terminal,
        count: int | None,
    ) -> None:
        self._devices = devices
        self._socket = socket
        self._id = terminal_id
        self._terminal = terminal
        self._number, self._at = terminal.output.look(count)
        self._continues = self._at == count
        self._away = False

    def leave(self) -> None:
        self._terminal.output.leave(self._number)
        self._devices.terminals.acknowledge(self._id)

    async def serve(self) -> None:
        """Until the page leaves or the shell has ended."""
        telling = asyncio.create_task(self._tell())
        try:
            await self._hear()
        except (msgspec.MsgspecError, UnicodeDecodeError):
            await self._socket.close(CLOSE_GARBAGE, "a message cannot be read")
        except WebSocketDisconnect:
            pass
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)

    # ── from the page ───────────────────────────────────────────────────────────────────────────

    async def _hear(self) -> None:
        while True:
            message = await self._socket.receive()
            if message["type"] != "websocket.receive":
                return
            data = message.get("bytes")
            if data is not None:
                typed = base64.b64encode(data).decode()
                await self._notify("input", data=typed)
                continue
            said = _said.decode(message.get("text") or "")
            if said.shown is not None:
                self._terminal.output.showed(self._number, said.shown)
                self._devices.terminals.acknowledge(self._id)
                self._terminal.wake()
            if said.cols is not None and said.rows is not None:
                await self._notify("resize", cols=said.cols, rows=said.rows)

    async def _notify(self, what: str, **params: Any) -> None:
        try:
            link = self._devices.link_of(self._terminal.device)
            await link.notify(f"_lembas/terminal/{what}", {"terminalId": self._id, **params})
        except RequestRefused:
            pass  # the page shows that the device is away

    # ── to the page ─────────────────────────────────────────────────────────────────────────────

    async def _tell(self) -> None:
        output = self._terminal.output
        if not self._continues and not output.is_whole:
            await self._skip_to_redraw()
        await self._say({"from": self._at, "until": output.total})
        while not await self._tell_next():
            pass
        await self._say({"exit": self._terminal.code})
        await self._socket.close(CLOSE_ENDED)

    async def _tell_next(self) -> bool:
        """Send what there is, or wait for it; whether all is told."""
        terminal, output = self._terminal, self._terminal.output
        news = terminal.news
        if terminal.away != self._away:
            self._away = terminal.away
            await self._say({"away": self._away})
        if self._at < output.start:
            lost, self._at = output.start - self._at, output.start
            output.showed(self._number, self._at)
            await self._say({"lost": lost})
            if not output.is_whole:
                await self._skip_to_redraw()
        ahead = self._at - output.shown(self._number)
        data = output.read(self._at, MAX_CHUNK_BYTES) if ahead < WINDOW_BYTES else b""
        if data:
            self._at += len(data)
            await self._socket.send_bytes(data)
        elif terminal.exited and self._at == output.total:
            return True
        else:
            await news.wait()
        return False

    async def _skip_to_redraw(self) -> None:
        """Leave out what begins in the middle, where the device draws all of it anew."""
        end = self._terminal.output.total
        if await self._devices.terminals.redraw(self._id):
            self._at = end
            self._terminal.output.showed(self._number, end)

    async def _say(self, value: dict[str, Any]) -> None:
        await self._socket.send_text(msgspec.json.encode(value).decode())
