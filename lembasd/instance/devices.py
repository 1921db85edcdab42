"""The devices that are linked, and what their links say: events, cards, terminals, the end of turns."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from lembasd.device import milestones
from lembasd.instance.core.open_cards import Card, OpenCards
from lembasd.instance.core.resend import pause_s
from lembasd.instance.core.rows import Rows, Session, Turn
from lembasd.instance.deleting import Deleting
from lembasd.instance.events import Events
from lembasd.instance.link import CLOSE_REPLACED, DeviceLink, LinkLost, Refused
from lembasd.instance.rows_file import RowsFile
from lembasd.instance.terminals import Terminals
from lembasd.instance.tokens import Device, Tokens
from lembasd.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, RequestRefused
from lembasd.protocol.lembas import LINK_PROTOCOL, TERMINAL_FLOW, TERMINAL_RESUME

_INITIALIZE: Final = {
    "protocolVersion": 1,
    "clientCapabilities": {
        "_meta": {"lembas": {"protocol": LINK_PROTOCOL, TERMINAL_FLOW: True, TERMINAL_RESUME: True}}
    },
}
#: a card that is taken down because nobody will answer it
_CANCELLED: Final = {"outcome": {"outcome": "cancelled"}}


class Devices:
    """A `LinkHandler` for every device."""

    def __init__(
        self,
        tokens: Tokens,
        file: RowsFile,
        deleting: Deleting,
        events: Events,
        terminals: Path | None,
    ) -> None:
        """`terminals`: the file that keeps which of them run. Raises ConfigError for one that cannot be used."""
        self.rows: Rows = file.rows
        self.cards = OpenCards()
        self.terminals = Terminals(terminals, events, self._spawn, self.link_of)
        self.events = events
        self._tokens = tokens
        self._file = file
        self._deleting = deleting
        self._links: dict[str, DeviceLink] = {}
        self._names: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # ── a link's life ───────────────────────────────────────────────────────────────────────────

    async def serve(self, socket: WebSocket, device: Device) -> None:
        """One link, from its hello to its end."""
        await socket.accept()
        link = DeviceLink(socket, device.id)
        try:
            hello = await link.greet()
        except Refused as refused:
            await link.close(refused.code, refused.reason)
            return
        except WebSocketDisconnect:
            return
        self._names[device.id] = hello.device.host
        older = self._links.get(device.id)
        self._links[device.id] = link
        if older is not None:
            self._forget(older)
            await older.close(CLOSE_REPLACED, "this device opened a newer link")
        self._spawn(self._open(link))
        try:
            await link.run(self)
        finally:
            if self._links.get(device.id) is link:
                del self._links[device.id]
                self._forget(link)
                self._changed(device.id)

    async def _open(self, link: DeviceLink) -> None:
        """Introduce ourselves, then have done what earlier links did not bring: deletions, and the answers of turns.

        A turn without an answer is asked for by its id. The device runs it if it does not know it; else it answers when
        the turn that runs or waits is done, or at once (link.md, session/status and Turn ids).
        """
        link.about = _lembas(await link.request("initialize", _INITIALIZE))
        link.initialized = True
        self.terminals.resume(link)
        self._changed(link.device_id)
        milestones.reached("instance.device_linked", device=link.device_id)
        self._spawn(self._deleting.deliver_all(link))
        await self._send_unfinished(link)
        link.ready = True
        await self._send_unfinished(link)  # those that were asked meanwhile
        for session in self.rows.of(link.device_id):
            try:
                status = await link.request(
                    "_lembas/session/status", {"sessionId": session.session_id}
                )
            except LinkLost:
                raise
            except RequestRefused:
                continue  # a session that the device cannot tell about keeps the title it had
            self._seen(session, status)

    async def _send_unfinished(self, link: DeviceLink) -> None:
        for session in self.rows.of(link.device_id):
            for turn in session.unfinished:
                await self._send_once(link, session, turn)

    def _forget(self, link: DeviceLink) -> None:
        """What lived on the link that ended: cards are asked again, terminals wait for the next or are gone."""
        self.cards.forget(link.device_id)
        for session in self.rows.of(link.device_id):
            session.at_terminal = False  # the next link says it anew
        self.terminals.link_lost(link)

    def _changed(self, device_id: str) -> None:
        linked = device_id in self._links
        self.events.add("instance/device", {"device": device_id, "linked": linked})

    async def close(self) -> None:
        """End every link and write what is not written yet."""
        for link in list(self._links.values()):
            await link.close(1001, "the instance stops")
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._file.saved()
        await self._deleting.saved()
        await self.terminals.saved()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        async def guarded() -> None:
            try:
                await work
            except RequestRefused:
                pass  # the link ended, or the device refused: what is open is asked for on the next link

        task = asyncio.create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ── what a person asks ──────────────────────────────────────────────────────────────────────

    def link_of(self, device_id: str) -> DeviceLink:
        """Raises LinkLost."""
        link = self._links.get(device_id)
        if link is None:
            raise LinkLost
        return link

    def choose(self, device_id: str | None) -> DeviceLink:
        """The link of a device, or of the one that is linked. Raises LinkLost, RequestRefused."""
        if device_id is not None:
            return self.link_of(device_id)
        if len(self._links) > 1:
            raise RequestRefused(INVALID_PARAMS, "several devices are linked; say which `device`")
        return self.link_of(next(iter(self._links), ""))

    def listing(self) -> list[dict[str, Any]]:
        """Every device that has a token, as the API shows it."""
        return [self._shown(device) for device in self._tokens.all() if device.may("link")]

    def _shown(self, device: Device) -> dict[str, Any]:
        link = self._links.get(device.id)
        hello = link.hello if link is not None else None
        about = link.about if link is not None else {}
        return {
            "id": device.id,
            "name": self._names.get(device.id, ""),
            "linked": link is not None and link.initialized,
            "limits": msgspec.to_builtins(hello.limits) if hello is not None else None,
            "capabilities": about.get("capabilities", []),
            "sessions": [session.session_id for session in self.rows.of(device.id)],
        }

    async def open_session(self, link: DeviceLink, params: dict[str, Any]) -> dict[str, Any]:
        """session/new. Raises RequestRefused with the device's reason."""
        result = await link.request("session/new", params)
        opened = _read(result, _Opened)
        said = _lembas(result)
        mode = str(said.get("mode") or opened.modes.get("currentModeId") or "")
        self.rows.add(Session(opened.sessionId, link.device_id, params["cwd"], mode=mode))
        self._file.changed()
        self.events.add("instance/session", {"sessionId": opened.sessionId})
        return {"session_id": opened.sessionId, "mode": mode, "model": said.get("model")}

    async def prompt(self, session: Session, turn_id: str, text: str) -> None:
        """Ask a turn, now or at the device's next link. Raises TooManyTurns."""
        turn, new = self.rows.ask(session, turn_id, text)
        if not new:
            return
        self._file.changed()
        await (
            self._file.saved()
        )  # the turn is the instance's to remember from the moment it is taken in
        link = self._links.get(session.device)
        if link is not None and link.ready:
            await self._send_once(link, session, turn)

    async def ask_again(self, session: Session, turn_id: str, new_id: str) -> Turn:
        """Ask once more for what a failed turn asked for. Raises NotFailed, TooManyTurns."""
        turn = self.rows.ask_again(session, turn_id, new_id)
        self._file.changed()
        await self._file.saved()
        link = self._links.get(session.device)
        if link is not None and link.ready:
            link.sent.discard((session.session_id, turn.turn_id))
            await self._send_once(link, session, turn)
        return turn

    async def _send_once(self, link: DeviceLink, session: Session, turn: Turn) -> None:
        """Send a turn that was not sent on this link yet: the device knows a turn id that it had."""
        key = (session.session_id, turn.turn_id)
        if key not in link.sent:
            link.sent.add(key)
            await self._send(link, session, turn, 1)

    async def _send(self, link: DeviceLink, session: Session, turn: Turn, count: int) -> None:
        """Send a turn for the `count`th time on this link. Its answer comes in the background."""
        params = {
            "sessionId": session.session_id,
            "prompt": [{"type": "text", "text": turn.text}],
            "_meta": {"lembas": {"turnId": turn.turn_id}},
        }
        try:
            answer = await link.ask("session/prompt", params)
        except LinkLost:
            return  # it is sent again on the next link
        except RequestRefused as error:
            self._finished(session, turn, error=_told(error))
            return
        session.start_next()
        self._spawn(self._collect(link, session, turn, answer, count))

    async def _collect(
        self,
        link: DeviceLink,
        session: Session,
        turn: Turn,
        answer: asyncio.Future[Any],
        count: int,
    ) -> None:
        try:
            self._finished(session, turn, answer=await answer)
            return
        except LinkLost:
            raise
        except RequestRefused as error:
            pause = pause_s(error.data, count)
            if pause is None:
                self._finished(session, turn, error=_told(error))
                return
            # the device said to try later; there is nothing but time to wait for
            await asyncio.sleep(pause)
            if self.rows.get(session.session_id) is session:
                await self._send(link, session, turn, count + 1)

    def _finished(
        self, session: Session, turn: Turn, answer: Any = None, error: dict[str, Any] | None = None
    ) -> None:
        self.rows.finish(session, turn, answer, error)
        self._file.changed()
        params = {"sessionId": session.session_id, "turnId": turn.turn_id}
        self.events.add("instance/turn", params, session=session.session_id)

    async def delete(self, session: Session) -> None:
        """Delete a chat, and its session on the device: now, or when the device links next."""
        self._drop(session)
        deletion = await self._deleting.add(session.session_id, session.device)
        self.events.add("instance/session", {"sessionId": session.session_id})
        link = self._links.get(session.device)
        if link is not None and link.initialized:
            self._spawn(self._deleting.deliver(link, deletion))

    def _drop(self, session: Session) -> None:
        self.rows.remove(session.session_id)
        self.cards.drop(session.device, session.session_id)
        self._file.changed()

    async def answer_card(self, card: Card, result: dict[str, Any]) -> None:
        """Answer and take it down. Raises LinkLost."""
        self.cards.settle(card.key)
        self.events.add("instance/card", {"toolCallId": card.tool_call_id}, session=card.session_id)
        await self.link_of(card.device).answer(card.request_id, result)

    # ── what a device says ──────────────────────────────────────────────────────────────────────

    def requested(self, link: DeviceLink, request_id: bytes, method: str, params: Any) -> None:
        if self._links.get(link.device_id) is not link:
            return  # a newer link is there, and is asked again
        card = _card(link.device_id, request_id, params)
        if method != "session/request_permission" or card is None or not self._may(link, card):
            self._spawn(link.refuse(request_id, method))
            return
        oldest = self.cards.ask(card)
        if oldest is not None:
            self._spawn(self.answer_card(oldest, _CANCELLED))
        self.events.add(method, params, session=card.session_id)

    def _may(self, link: DeviceLink, card: Card) -> bool:
        return self._is_theirs(link, self.rows.get(card.session_id))

    @staticmethod
    def _is_theirs(link: DeviceLink, session: Session | None) -> bool:
        """Whether a device may speak of a session: of its own, and of those that only it knows."""
        return session is None or session.device == link.device_id

    def notified(self, link: DeviceLink, method: str, params: dict[str, Any]) -> None:
        if self._links.get(link.device_id) is not link:
            return
        session_id, terminal_id = params.get("sessionId"), params.get("terminalId")
        if isinstance(terminal_id, str) and terminal_id:
            self.terminals.said(link, terminal_id, method, params)
            return
        session_id = session_id if isinstance(session_id, str) else ""
        session = self.rows.get(session_id)
        if not self._is_theirs(link, session):
            return
        match method:
            case "_lembas/permission/settled":
                self.cards.settle((link.device_id, session_id, str(params.get("toolCallId"))))
            case "_lembas/event" if session is not None:
                self._heard(session, params.get("event"))
            case "_lembas/session/deleted":
                self._deleted(session_id, session)
            case "_lembas/session/left" if session is not None:
                session.at_terminal = False
                self._file.changed()
            case "_lembas/session/announce":
                if not self._announced(link, session_id, params):
                    return
            case _:
                pass
        self.events.add(method, params, session=session_id)

    def _deleted(self, session_id: str, session: Session | None) -> None:
        """Delete the chat; there may never have been one, or it is deleted already."""
        if self._deleting.waits(session_id):
            self._deleting.said(session_id)
        if session is not None:
            self._drop(session)

    def _announced(self, link: DeviceLink, session_id: str, params: dict[str, Any]) -> bool:
        """Make a chat of a session that a terminal shares; False for one that is to be deleted, or is none."""
        cwd = params.get("cwd")
        if not session_id or not isinstance(cwd, str) or self._deleting.waits(session_id):
            return False
        session = self.rows.add(Session(session_id, link.device_id, cwd))
        session.title = str(params.get("title") or session.title)
        session.mode = str(params.get("mode") or session.mode)
        session.at_terminal = True
        self._file.changed()
        return True

    @staticmethod
    def _heard(session: Session, event: Any) -> None:
        """Keep what an engine event says of its session."""
        if not isinstance(event, dict):
            return
        if event.get("type") == "title":
            session.title = str(event.get("title") or session.title)
        elif event.get("type") == "mode":
            session.mode = str(event.get("mode") or session.mode)

    def _seen(self, session: Session, status: Any) -> None:
        if isinstance(status, dict) and isinstance(status.get("title"), str):
            session.title = status["title"] or session.title


T = TypeVar("T", bound=msgspec.Struct)


def _read(result: Any, kind: type[T]) -> T:
    """A device's result. Raises RequestRefused for one that is of another shape."""
    try:
        return msgspec.convert(result, type=kind)
    except msgspec.ValidationError:
        raise RequestRefused(
            INTERNAL_ERROR, "the device's answer cannot be read; update lembasd there"
        ) from None


class _Opened(msgspec.Struct, frozen=True):
    sessionId: str
    modes: dict[str, Any] = {}


def _card(device: str, request_id: bytes, params: dict[str, Any]) -> Card | None:
    """The card of a permission request; None for one that names no tool call."""
    call = params.get("toolCall")
    if not isinstance(call, dict) or not isinstance(call.get("toolCallId"), str):
        return None
    return Card(
        tool_call_id=call["toolCallId"],
        session_id=str(params.get("sessionId", "")),
        device=device,
        title=str(call.get("title", "")),
        params=params,
        request_id=request_id,
    )


def _told(error: RequestRefused) -> dict[str, Any]:
    return {"code": error.code, "message": error.message, "data": error.data}


def _lembas(result: Any) -> dict[str, Any]:
    """`_meta.lembas` of a result, {} when there is none."""
    meta = result.get("_meta") if isinstance(result, dict) else None
    said = meta.get("lembas") if isinstance(meta, dict) else None
    return said if isinstance(said, dict) else {}
