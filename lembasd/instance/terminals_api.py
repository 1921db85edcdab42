"""The person's API to terminals on a device."""

import base64
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from lembasd.instance.devices import Devices
from lembasd.instance.guard import Keys
from lembasd.instance.local_api import (
    Handler,
    Problem,
    body,
    event_stream,
    for_person,
    resume_from,
)
from lembasd.instance.records import Terminal


class NewTerminal(Struct, frozen=True, forbid_unknown_fields=True):
    cwd: str | None = None
    cols: int = 80
    rows: int = 24
    device: str | None = None


class Input(Struct, frozen=True, forbid_unknown_fields=True):
    """`data` travels as base64."""

    data: bytes


class Size(Struct, frozen=True, forbid_unknown_fields=True):
    cols: int
    rows: int


class TerminalsApi:
    """Open, type, resize, close; the output so far and as it comes. The page's own way is in `live_terminals`."""

    def __init__(self, devices: Devices, keys: Keys) -> None:
        self._devices = devices
        self._keys = keys

    def routes(self) -> list[Route]:
        one = "/api/local/terminals/{terminal_id}"
        table: list[tuple[str, str, Handler]] = [
            ("GET", "/api/local/terminals", self._list),
            ("POST", "/api/local/terminals", self._open),
            ("POST", f"{one}/input", self._input),
            ("POST", f"{one}/resize", self._resize),
            ("POST", f"{one}/close", self._close),
            ("GET", f"{one}/output", self._output),
        ]
        return [
            Route(path, for_person(self._keys, handler), methods=[method])
            for method, path, handler in table
        ]

    def _terminal(self, request: Request) -> Terminal:
        terminal = self._devices.terminals.get(request.path_params["terminal_id"])
        if terminal is None:
            raise Problem(404, "this instance knows no such terminal; open one")
        return terminal

    async def _list(self, request: Request) -> Response:
        return JSONResponse({"terminals": self._devices.terminals.listing()})

    async def _open(self, request: Request) -> Response:
        asked = await body(request, NewTerminal)
        params: dict[str, Any] = {"cols": asked.cols, "rows": asked.rows}
        if asked.cwd is not None:
            params["cwd"] = asked.cwd
        link = self._devices.choose(asked.device)
        return JSONResponse(await self._devices.terminals.open(link, params), 201)

    async def _tell(self, request: Request, what: str, **params: Any) -> Response:
        terminal = self._terminal(request)
        if terminal.exited:
            raise Problem(409, "this terminal has ended; open another")
        about = {"terminalId": request.path_params["terminal_id"], **params}
        await self._devices.link_of(terminal.device).notify(f"_lembas/terminal/{what}", about)
        return JSONResponse({})

    async def _input(self, request: Request) -> Response:
        typed = await body(request, Input)
        return await self._tell(request, "input", data=base64.b64encode(typed.data).decode())

    async def _resize(self, request: Request) -> Response:
        size = await body(request, Size)
        return await self._tell(request, "resize", cols=size.cols, rows=size.rows)

    async def _close(self, request: Request) -> Response:
        return await self._tell(request, "close")

    async def _output(self, request: Request) -> Response:
        """What is kept, at once; or all of it as it comes, for who accepts an event stream."""
        terminal = self._terminal(request)
        if "text/event-stream" not in request.headers.get("accept", ""):
            return JSONResponse(terminal.shown())
        return event_stream(_stream(terminal, resume_from(request) or 0))


async def _stream(terminal: Terminal, offset: int) -> AsyncIterator[dict[str, Any]]:
    """Events whose id is the offset to go on from, and at the end one of the type `exit`."""
    async for output in terminal.after(offset):
        body = {"data": base64.b64encode(output.data).decode(), "lost": output.lost}
        yield {"id": str(output.end), "data": msgspec.json.encode(body).decode()}
    yield {"event": "exit", "data": msgspec.json.encode({"code": terminal.code}).decode()}
