"""The person's API: sessions, prompts, cards, logins and events. Every route needs the page's secret."""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from lembasd.instance.core.rows import MAX_WAITING_TURNS, NotFailed, Session, TooManyTurns
from lembasd.instance.devices import Devices
from lembasd.instance.events import Events
from lembasd.instance.guard import Keys, TooLong, read_body, refusal
from lembasd.instance.link import NOT_LINKED
from lembasd.instance.models import Models
from lembasd.instance.oauth import OAuth
from lembasd.protocol.errors import LembasError, RequestRefused
from lembasd.protocol.limits import MAX_BLOCK_BYTES

#: a comment line keeps a quiet event stream open
PING_S: Final = 15
#: a reader whose connection takes nothing for so long is cut: it is away, or asleep
SEND_TIMEOUT_S: Final = 60
_NO_SESSION: Final = "this instance knows no such session; look at /api/local/sessions"
_TOO_MANY: Final = f"{MAX_WAITING_TURNS} turns of this session wait; cancel some or wait"


class NewSession(Struct, frozen=True, forbid_unknown_fields=True):
    cwd: str
    mode: str | None = None
    model: str | None = None
    device: str | None = None


class Prompt(Struct, frozen=True, forbid_unknown_fields=True):
    text: str
    turn_id: str | None = None


class SetMode(Struct, frozen=True, forbid_unknown_fields=True):
    mode: str


class CardAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """`session_id` tells cards apart whose tool calls have the same id."""

    option: str
    session_id: str | None = None
    command: str | None = None
    feedback: str | None = None


class LoginDecision(Struct, frozen=True, forbid_unknown_fields=True):
    approve: bool


class Problem(LembasError):
    """The request cannot be done: `status` and one sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


T = TypeVar("T", bound=Struct)
Handler = Callable[[Request], Awaitable[Response]]


async def body(request: Request, kind: type[T]) -> T:
    """The request's JSON body. Raises Problem."""
    try:
        return msgspec.json.decode(await read_body(request), type=kind)
    except TooLong:
        raise Problem(413, "this request is too long; send less") from None
    except msgspec.MsgspecError as error:
        raise Problem(422, f"the body cannot be read: {error}") from None


def for_person(keys: Keys, handler: Handler) -> Handler:
    """The handler, behind the secret, with its refusals made answers."""

    async def guarded(request: Request) -> Response:
        if not keys.is_person(request):
            return refusal(401, "open the address that the instance printed at its start")
        try:
            return await handler(request)
        except Problem as problem:
            return refusal(problem.status, str(problem))
        except RequestRefused as refused:
            error = {"code": refused.code, "message": refused.message, "data": refused.data}
            return JSONResponse({"error": error}, 503 if refused.code == NOT_LINKED else 409)

    return guarded


class LocalApi:
    """Sessions, cards, logins, events. Terminals are in `terminals_api`."""

    def __init__(self, devices: Devices, oauth: OAuth, keys: Keys, models: Models) -> None:
        self._devices = devices
        self._models = models
        self._oauth = oauth
        self._keys = keys

    def routes(self) -> list[Route]:
        one = "/api/local/sessions/{session_id}"
        table: list[tuple[str, str, Handler]] = [
            ("GET", "/api/local/devices", self._list_devices),
            ("GET", "/api/local/logins", self._list_logins),
            ("POST", "/api/local/logins/{user_code}", self._decide_login),
            ("GET", "/api/local/sessions", self._list_sessions),
            ("POST", "/api/local/sessions", self._new_session),
            ("GET", one, self._show_session),
            ("POST", f"{one}/prompt", self._prompt),
            ("GET", f"{one}/history", self._history),
            ("GET", f"{one}/status", self._status),
            ("POST", f"{one}/turns/{{turn_id}}/again", self._ask_again),
            ("POST", f"{one}/cancel", self._cancel),
            ("POST", f"{one}/delete", self._delete),
            ("POST", f"{one}/mode", self._set_mode),
            ("GET", f"{one}/events", self._session_events),
            ("GET", "/api/local/events", self._events),
            ("GET", "/api/local/cards", self._list_cards),
            ("POST", "/api/local/cards/{tool_call_id}", self._answer_card),
        ]
        return [
            Route(path, for_person(self._keys, handler), methods=[method])
            for method, path, handler in table
        ]

    def _session(self, request: Request) -> Session:
        session = self._devices.rows.get(request.path_params["session_id"])
        if session is None:
            raise Problem(404, _NO_SESSION)
        return session

    # ── devices and logins ──────────────────────────────────────────────────────────────────────

    async def _list_devices(self, request: Request) -> Response:
        return JSONResponse({"devices": self._devices.listing()})

    async def _list_logins(self, request: Request) -> Response:
        logins = [
            {"user_code": login.user_code, "client_id": login.client_id, "scope": login.scope}
            for login in self._oauth.pending()
        ]
        return JSONResponse({"logins": logins})

    async def _decide_login(self, request: Request) -> Response:
        decision = await body(request, LoginDecision)
        if not self._oauth.decide(request.path_params["user_code"], approve=decision.approve):
            raise Problem(404, "no login with this code waits; run `lembas login` again")
        return JSONResponse({})

    # ── sessions ────────────────────────────────────────────────────────────────────────────────

    async def _list_sessions(self, request: Request) -> Response:
        return JSONResponse({"sessions": [_shown(one) for one in self._devices.rows.all()]})

    async def _new_session(self, request: Request) -> Response:
        asked = await body(request, NewSession)
        meta: dict[str, Any] = {}
        if asked.mode is not None:
            meta["mode"] = asked.mode
        # the models are this side's to know: the device's default is of the day of its login
        model = asked.model or await self._models.default_model()
        if model is not None:
            meta["lembas_model"] = model
        params = {"cwd": asked.cwd, "mcpServers": [], "_meta": meta}
        opened = await self._devices.open_session(self._devices.choose(asked.device), params)
        return JSONResponse(opened, 201)

    async def _show_session(self, request: Request) -> Response:
        session = self._session(request)
        turns = [msgspec.to_builtins(turn) for turn in session.turns]
        return JSONResponse({**_shown(session), "turns": turns})

    async def _prompt(self, request: Request) -> Response:
        session = self._session(request)
        asked = await body(request, Prompt)
        if not asked.text.strip():
            raise Problem(422, "the prompt is empty; write what is to be done")
        if len(asked.text.encode()) > MAX_BLOCK_BYTES:
            raise Problem(422, f"a prompt has at most {MAX_BLOCK_BYTES} bytes; send less")
        turn_id = asked.turn_id or _turn_id()
        try:
            await self._devices.prompt(session, turn_id, asked.text)
        except TooManyTurns:
            raise Problem(429, _TOO_MANY) from None
        return JSONResponse({"turn_id": turn_id}, 202)

    async def _ask_again(self, request: Request) -> Response:
        session = self._session(request)
        failed = request.path_params["turn_id"]
        try:
            turn = await self._devices.ask_again(session, failed, _turn_id())
        except NotFailed:
            raise Problem(409, "this turn has not failed; write a new prompt") from None
        except TooManyTurns:
            raise Problem(429, _TOO_MANY) from None
        return JSONResponse({"turn_id": turn.turn_id}, 202)

    async def _delete(self, request: Request) -> Response:
        await self._devices.delete(self._session(request))
        return JSONResponse({})

    async def _ask(self, request: Request, method: str, **params: Any) -> Any:
        session = self._session(request)
        link = self._devices.link_of(session.device)
        return await link.request(method, {"sessionId": session.session_id, **params})

    async def _history(self, request: Request) -> Response:
        return JSONResponse(await self._ask(request, "_lembas/session/history"))

    async def _status(self, request: Request) -> Response:
        return JSONResponse(await self._ask(request, "_lembas/session/status"))

    async def _set_mode(self, request: Request) -> Response:
        asked = await body(request, SetMode)
        return JSONResponse(await self._ask(request, "session/set_mode", modeId=asked.mode))

    async def _cancel(self, request: Request) -> Response:
        session = self._session(request)
        link = self._devices.link_of(session.device)
        await link.notify("session/cancel", {"sessionId": session.session_id})
        return JSONResponse({})

    # ── cards ───────────────────────────────────────────────────────────────────────────────────

    async def _list_cards(self, request: Request) -> Response:
        return JSONResponse({"cards": [card.shown() for card in self._devices.cards.all()]})

    async def _answer_card(self, request: Request) -> Response:
        answer = await body(request, CardAnswer)
        found = self._devices.cards.find(request.path_params["tool_call_id"], answer.session_id)
        if not found:
            raise Problem(404, "this card is answered already, or no longer waits")
        if len(found) > 1:
            raise Problem(409, "several sessions have a card of this id; say which `session_id`")
        [card] = found
        if answer.option not in card.options:
            raise Problem(422, f"the options of this card are {', '.join(card.options)}")
        said = {"command": answer.command, "feedback": answer.feedback}
        meta = {key: text for key, text in said.items() if text is not None}
        result: dict[str, Any] = {
            "outcome": {"outcome": "selected", "optionId": answer.option},
            **({"_meta": {"lembas": meta}} if meta else {}),
        }
        await self._devices.answer_card(card, result)
        return JSONResponse({})

    # ── events ──────────────────────────────────────────────────────────────────────────────────

    async def _events(self, request: Request) -> Response:
        return _feed(request, self._devices.events, request.query_params.get("session", ""))

    async def _session_events(self, request: Request) -> Response:
        return _feed(request, self._devices.events, self._session(request).session_id)


def resume_from(request: Request) -> int | None:
    """The number of the last event that a stream's reader saw, None when it says none."""
    asked = request.headers.get("last-event-id") or request.query_params.get("after")
    return int(asked) if asked and asked.isdecimal() and len(asked) < 20 else None


def event_stream(content: AsyncIterator[dict[str, Any]]) -> Response:
    """Server-sent events; a reader that takes nothing for SEND_TIMEOUT_S is cut and may come back."""
    return EventSourceResponse(content, ping=PING_S, send_timeout=SEND_TIMEOUT_S, sep="\n")


def _feed(request: Request, events: Events, session_id: str = "") -> Response:
    after = resume_from(request)
    start = events.last if after is None else after

    async def stream() -> AsyncIterator[dict[str, Any]]:
        async for event in events.after(start, session_id):
            yield {"id": str(event.n), "data": event.body}

    return event_stream(stream())


def _turn_id() -> str:
    return f"turn_{secrets.token_hex(12)}"


def _shown(session: Session) -> dict[str, Any]:
    return {
        "session_id": session.session_id,
        "device": session.device,
        "cwd": session.cwd,
        "title": session.title,
        "status": session.status,
        "mode": session.mode,
        "at_terminal": session.at_terminal,
    }
