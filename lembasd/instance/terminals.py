"""The terminals of all devices: opened, acknowledged as they are shown, and taken up again on a device's next link."""

import asyncio
import base64
import binascii
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import msgspec

from lembasd.instance.events import Events
from lembasd.instance.link import DeviceLink, LinkLost
from lembasd.instance.records import MAX_TERMINALS, Terminal
from lembasd.instance.state_file import StateFile, read
from lembasd.protocol.errors import INTERNAL_ERROR, RequestRefused
from lembasd.protocol.lembas import TERMINAL_FLOW, TERMINAL_RESUME
from lembasd.protocol.limits import TERMINAL_RESUME_S

#: after a hub's start its terminals find it within this; one that is refused for longer has ended
ADOPTED_S: Final = 20.0
_ASK_AGAIN_S: Final = 0.25

Spawn = Callable[[Coroutine[Any, Any, None]], None]


class _Opened(msgspec.Struct, frozen=True):
    terminalId: str
    cwd: str = ""
    cols: int = 80
    rows: int = 24


class _Attached(msgspec.Struct, frozen=True):
    redraw: bool = False


class _Kept(msgspec.Struct, frozen=True):
    """A terminal that runs, on disk."""

    device: str
    cwd: str


_kept: Final = msgspec.json.Decoder(dict[str, _Kept])


class Terminals(StateFile):
    """`file` keeps which terminals run, so that a new start of the instance takes them up again. `spawn` runs what nobody waits for; `link_of` gives a device's link or raises LinkLost."""

    def __init__(
        self,
        file: Path | None,
        events: Events,
        spawn: Spawn,
        link_of: Callable[[str], DeviceLink],
    ) -> None:
        """Raises ConfigError for a file that cannot be used."""
        super().__init__(file, self._encode_running)
        self._events = events
        self._spawn = spawn
        self._link_of = link_of
        self._terminals: dict[str, Terminal] = {}
        self._redrawing: set[str] = set()
        none: dict[str, _Kept] = {}
        for name, one in read(file, _kept.decode, none).items():
            terminal = self._terminals[name] = Terminal(one.device)
            terminal.cwd = one.cwd
            self._wait(name, terminal)

    def _encode_running(self) -> bytes:
        return msgspec.json.encode(
            {
                name: _Kept(one.device, one.cwd)
                for name, one in self._terminals.items()
                if not one.exited
            }
        )

    def get(self, terminal_id: str) -> Terminal | None:
        return self._terminals.get(terminal_id)

    def listing(self) -> list[dict[str, Any]]:
        """Every terminal that is kept, as the API shows it."""
        return [terminal.listed(name) for name, terminal in self._terminals.items()]

    async def open(self, link: DeviceLink, params: dict[str, Any]) -> dict[str, Any]:
        """_lembas/terminal/open. Raises RequestRefused."""
        result = await link.request("_lembas/terminal/open", params)
        try:
            opened = msgspec.convert(result, type=_Opened)
        except msgspec.ValidationError:
            raise RequestRefused(
                INTERNAL_ERROR, "the device's answer cannot be read; update lembasd there"
            ) from None
        self._terminal(link, opened.terminalId).cwd = opened.cwd
        self._changed(opened.terminalId)
        return {
            "terminal_id": opened.terminalId,
            "cwd": opened.cwd,
            "cols": opened.cols,
            "rows": opened.rows,
        }

    def _changed(self, terminal_id: str) -> None:
        self.changed()
        self._events.add("instance/terminal", {"terminalId": terminal_id}, terminal=terminal_id)

    # ── what a device says ──────────────────────────────────────────────────────────────────────

    def _terminal(self, link: DeviceLink, terminal_id: str) -> Terminal:
        """The record of a terminal, made at its first sign: output may be read before its open is answered."""
        known = self._terminals.get(terminal_id)
        if known is None or known.device != link.device_id:
            while len(self._terminals) >= MAX_TERMINALS:
                del self._terminals[next(iter(self._terminals))]
            known = self._terminals[terminal_id] = Terminal(link.device_id)
        return known

    def said(self, link: DeviceLink, terminal_id: str, method: str, params: dict[str, Any]) -> None:
        """A notification of a terminal."""
        terminal = self._terminal(link, terminal_id)
        if method == "_lembas/terminal/output":
            try:
                data = base64.b64decode(str(params.get("data", "")), validate=True)
            except binascii.Error:
                return
            terminal.add(data, _offset(params))
            self.acknowledge(terminal_id)
        elif method == "_lembas/terminal/exit":
            code = params.get("code")
            terminal.ended(code if isinstance(code, int) else None)
            self.changed()
            self._events.add(method, params, terminal=terminal_id)

    def acknowledge(self, terminal_id: str) -> None:
        """Tell the device how far the terminal was shown, where that is news."""
        terminal = self._terminals.get(terminal_id)
        offset = terminal.output.acknowledge() if terminal is not None else None
        if terminal is None or offset is None:
            return
        try:
            link = self._link_of(terminal.device)
        except LinkLost:
            return  # its next link goes on from what came
        if link.can(TERMINAL_FLOW):
            about = {"terminalId": terminal_id, "offset": offset}
            self._spawn(link.notify("_lembas/terminal/ack", about))

    # ── links that come and go ──────────────────────────────────────────────────────────────────

    def link_lost(self, link: DeviceLink) -> None:
        """The device's terminals wait for its next link, or have ended with this one."""
        for name, terminal in self._terminals.items():
            if terminal.device != link.device_id or terminal.exited:
                continue
            if not link.can(TERMINAL_RESUME):
                terminal.ended(None)
                self.changed()
                continue
            self._wait(name, terminal)

    def _wait(self, terminal_id: str, terminal: Terminal) -> None:
        terminal.waits(away=True)
        loop = asyncio.get_running_loop()
        loop.call_later(TERMINAL_RESUME_S, self._gave_up, terminal_id, terminal.absences)

    def _gave_up(self, terminal_id: str, absence: int) -> None:
        terminal = self._terminals.get(terminal_id)
        if terminal is not None and terminal.away and terminal.absences == absence:
            terminal.ended(None)
            self._changed(terminal_id)

    def resume(self, link: DeviceLink) -> None:
        """Take up what waits for the device's link."""
        for name, terminal in self._terminals.items():
            if terminal.device == link.device_id and terminal.away:
                self._spawn(self._resume(link, name, terminal))

    async def _resume(self, link: DeviceLink, terminal_id: str, terminal: Terminal) -> None:
        if not link.can(TERMINAL_RESUME):
            terminal.ended(None)
            self._changed(terminal_id)
            return
        loop = asyncio.get_running_loop()
        give_up = loop.time() + ADOPTED_S
        while True:
            try:
                await self._attach(link, terminal_id, terminal, terminal.output.offset)
                break
            except LinkLost:
                return  # it waits for the next
            except RequestRefused:
                if loop.time() > give_up:
                    terminal.ended(None)
                    break
            # a new hub has yet to hear of its terminals; there is nothing to wait for but time
            await asyncio.sleep(_ASK_AGAIN_S)
        terminal.waits(away=False)
        self._changed(terminal_id)

    async def redraw(self, terminal_id: str) -> bool:
        """Have the terminal drawn from an empty screen, for a viewer that begins in its middle; whether it will be."""
        terminal = self._terminals.get(terminal_id)
        if terminal is None or terminal.exited or terminal.away or terminal_id in self._redrawing:
            return False
        self._redrawing.add(terminal_id)
        try:
            link = self._link_of(terminal.device)
            if not link.can(TERMINAL_RESUME):
                return False
            return await self._attach(link, terminal_id, terminal, None)
        except RequestRefused:
            return False  # what is kept has to do
        finally:
            self._redrawing.discard(terminal_id)

    async def _attach(
        self, link: DeviceLink, terminal_id: str, terminal: Terminal, offset: int | None
    ) -> bool:
        """Whether the output goes on with a redraw. Raises RequestRefused."""
        params: dict[str, Any] = {"terminalId": terminal_id}
        if offset is None:
            terminal.output.redraw_asked()
        else:
            params["offset"] = offset
        result = await link.request("_lembas/terminal/attach", params)
        try:
            redraw = msgspec.convert(result, type=_Attached).redraw
        except msgspec.ValidationError:
            redraw = False
        if not redraw:
            terminal.output.no_redraw()
        return redraw


def _offset(params: dict[str, Any]) -> int | None:
    """Where a piece of output stands, as a device with `terminal_flow` or `terminal_resume` says."""
    meta = params.get("_meta")
    said = meta.get("lembas") if isinstance(meta, dict) else None
    offset = said.get("offset") if isinstance(said, dict) else None
    return offset if isinstance(offset, int) and offset >= 0 else None
