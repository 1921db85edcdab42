"""Discovery and the device login (RFC 8628): the only routes that need neither token nor secret."""

import asyncio
import secrets
import time
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from lembasd.instance.core import grants
from lembasd.instance.guard import TooLong, read_body
from lembasd.instance.tokens import Tokens
from lembasd.protocol.lembas import LINK_PROTOCOL

NAME: Final = "Pocket instance"
#: what it says to be: the LLeMbas whose protocol it speaks
VERSION: Final = "2.0"
GRANT_TYPE: Final = "urn:ietf:params:oauth:grant-type:device_code"
#: a login's form is a few hundred bytes
MAX_FORM_BYTES: Final = 16 * 1024
#: letters of a user code: none that is read as another, no vowels that make words (RFC 8628, 6.1)
_LETTERS: Final = "BCDFGHJKLMNPQRSTVWXZ"


class OAuth:
    """Runs the grants: makes codes and tokens, reads the clock."""

    def __init__(self, base_url: str, tokens: Tokens, *, approve: bool) -> None:
        self._base_url = base_url
        self._tokens = tokens
        self._approve = approve
        self._grants = grants.Grants()

    def routes(self) -> list[Route]:
        return [
            Route("/.well-known/lembas.json", self._discovery, methods=["GET"]),
            Route("/oauth/device_authorization", self._authorize, methods=["POST"]),
            Route("/oauth/token", self._token, methods=["POST"]),
        ]

    def pending(self) -> list[grants.Login]:
        return self._grants.pending(time.monotonic())

    def decide(self, user_code: str, *, approve: bool) -> bool:
        """Approve or deny a login; False when none with this code waits."""
        decision = grants.Decide(user_code, approve)
        [effect] = self._grants.handle(decision, time.monotonic())
        return isinstance(effect, grants.Decided)

    async def _discovery(self, request: Request) -> Response:
        return JSONResponse(
            {
                "name": NAME,
                "version": VERSION,
                "protocol": LINK_PROTOCOL,
                "protocols": [LINK_PROTOCOL],
                "device_authorization_endpoint": f"{self._base_url}/oauth/device_authorization",
                "token_endpoint": f"{self._base_url}/oauth/token",
            }
        )

    async def _authorize(self, request: Request) -> Response:
        form = await _form(request)
        if form is None:
            return _error("invalid_request", "send a form")
        letters = "".join(secrets.choice(_LETTERS) for _ in range(8))
        begin = grants.Begin(
            device_code=secrets.token_urlsafe(32),
            user_code=f"{letters[:4]}-{letters[4:]}",
            client_id=form.get("client_id", ""),
            scope=form.get("scope", ""),
            approve=self._approve,
        )
        return await self._answer(begin)

    async def _token(self, request: Request) -> Response:
        form = await _form(request)
        if form is None or not form.get("device_code"):
            return _error("invalid_request", "send a form with a device_code")
        if form.get("grant_type") != GRANT_TYPE:
            return _error("unsupported_grant_type", f"the grant type here is {GRANT_TYPE}")
        return await self._answer(grants.Poll(form["device_code"], form.get("client_id", "")))

    async def _answer(self, item: grants.Begin | grants.Poll) -> Response:
        [effect] = self._grants.handle(item, time.monotonic())
        match effect:
            case grants.Begun():
                page = f"{self._base_url}/"
                return JSONResponse(
                    {
                        "device_code": effect.device_code,
                        "user_code": effect.user_code,
                        "verification_uri": page,
                        "verification_uri_complete": f"{page}?user_code={effect.user_code}",
                        "expires_in": int(effect.expires_in_s),
                        "interval": int(effect.interval_s),
                    }
                )
            case grants.IssueToken():
                try:
                    token = await asyncio.to_thread(self._tokens.issue, effect.scope)
                except OSError as error:
                    what = f"the token cannot be stored ({error.strerror}); make room, log in again"
                    return _error("server_error", what)
                return JSONResponse(
                    {"access_token": token, "token_type": "Bearer", "scope": effect.scope}
                )
            case grants.Refuse():
                return _error(effect.error, effect.description)
            case grants.Decided() | grants.NoSuchLogin():
                raise AssertionError("only a decision has these outcomes")


def _error(error: str, description: str) -> Response:
    body: dict[str, Any] = {"error": error, "error_description": description}
    status = {"invalid_client": 401, "server_error": 500, "temporarily_unavailable": 503}.get(
        error, 400
    )
    return JSONResponse(body, status)


async def _form(request: Request) -> dict[str, str] | None:
    """The form's fields; None for what is no form, or names a field twice."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        return None
    try:
        text = (await read_body(request, MAX_FORM_BYTES)).decode()
        fields = parse_qsl(text, keep_blank_values=True, max_num_fields=20)
    except (TooLong, ValueError):
        return None
    form = dict(fields)
    return form if len(form) == len(fields) else None
