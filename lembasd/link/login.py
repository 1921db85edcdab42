"""Logging a device in: the device authorization grant (RFC 8628), or a token that another program holds."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import msgspec
from msgspec import Struct

from lembasd.device.credentials import Credentials, is_token
from lembasd.link.api import InstanceApi, LoginEnded, NotAllowed, NotThere
from lembasd.link.core.faults import LOOPBACK, plain
from lembasd.link.discovery import Document, Redirected, Unreachable, fetch, retry_after
from lembasd.protocol.errors import EXIT_REFUSED, LembasError
from lembasd.protocol.http_api import InstanceInfo

CLIENT_ID: Final = "lembas-cli"
SCOPE: Final = "models memory link"
NEEDED_SCOPE: Final = "link"
_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
#: RFC 8628, 3.5: what slow_down adds to the interval, and what is polled at when the server does not say
SLOW_DOWN_S: Final = 5.0
DEFAULT_INTERVAL_S: Final = 5.0
#: no server is polled faster, whatever it says
MIN_INTERVAL_S: Final = 0.1
#: nobody waits for an approval for longer, whatever the server says
MAX_EXPIRES_S: Final = 3600.0


class LoginRefused(LembasError):
    """The login did not come about; one sentence says what to do."""

    exit_code = EXIT_REFUSED


class Code(Struct, frozen=True):
    """What a person is shown."""

    user_code: str
    verification_uri: str
    verification_uri_complete: str | None
    expires_in_s: float


class Pending(Struct, frozen=True):
    """Nobody has approved yet; ask again after this many seconds."""

    wait_s: float


class _Authorization(Struct, frozen=True):
    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str | None = None
    expires_in: float = 900.0
    interval: float = DEFAULT_INTERVAL_S


class _Token(Struct, frozen=True):
    access_token: str


class _Refusal(Struct, frozen=True):
    error: str = ""


class DeviceGrant:
    """One device login. `start`, show the code, then `poll` until it gives a token.

    `server` is the base URL. Raises LoginRefused for a server without device login, or whose endpoints cannot be used.
    """

    def __init__(self, http: httpx.AsyncClient, server: str, document: Document) -> None:
        if document.device_authorization_endpoint is None or document.token_endpoint is None:
            raise LoginRefused(
                "this server offers no device login; log in with `lembas login --token-stdin`"
            )
        for endpoint in (document.device_authorization_endpoint, document.token_endpoint):
            if not _is_usable(endpoint, server):
                raise LoginRefused(
                    f"this server's device login is at {plain(endpoint)!r}, which cannot be used; "
                    "ask who runs it, or log in with `lembas login --token-stdin`"
                )
        self._http = http
        self._authorize = document.device_authorization_endpoint
        self._token = document.token_endpoint
        self._code = ""
        self._interval_s = DEFAULT_INTERVAL_S

    async def start(self) -> Code:
        """Ask for a code. Raises LoginRefused, Unreachable."""
        form = {"client_id": CLIENT_ID, "scope": SCOPE}
        response = await fetch(self._http, "POST", self._authorize, data=form)
        if response.status_code == 429 or response.status_code >= 500:
            raise Unreachable(
                f"{plain(self._authorize)} answers {response.status_code}; try again later",
                retry_after(response.headers),
            )
        if response.status_code != 200:
            raise LoginRefused(
                f"the server refuses a device login ({response.status_code}); ask who runs it"
            )
        given: _Authorization = _decode(response, _Authorization)
        if not _is_page(given.verification_uri):
            raise LoginRefused("the server names no page to approve a login on; ask who runs it")
        complete = given.verification_uri_complete
        self._code = given.device_code
        self._interval_s = min(max(MIN_INTERVAL_S, given.interval), MAX_EXPIRES_S)
        return Code(
            user_code=given.user_code,
            verification_uri=given.verification_uri,
            verification_uri_complete=complete if complete and _is_page(complete) else None,
            expires_in_s=min(given.expires_in, MAX_EXPIRES_S),
        )

    async def poll(self) -> str | Pending:
        """Ask once: the token, or how long to wait. Raises LoginRefused when it was denied or took too long."""
        form = {"grant_type": _GRANT, "device_code": self._code, "client_id": CLIENT_ID}
        try:
            response = await fetch(self._http, "POST", self._token, data=form)
        except Redirected:
            raise
        except Unreachable:
            return self._slower()  # RFC 8628, 3.5: back off on a connection time-out
        if response.status_code == 429 or response.status_code >= 500:
            return self._slower()
        if response.status_code == 200:
            token: _Token = _decode(response, _Token)
            if not is_token(token.access_token):
                raise LoginRefused("the server gives a token that cannot be used; ask who runs it")
            return token.access_token
        match _decode(response, _Refusal).error:
            case "authorization_pending":
                return Pending(self._interval_s)
            case "slow_down":
                return self._slower()
            case "expired_token":
                raise LoginRefused("nobody approved in time; run `lembas login` again")
            case "access_denied":
                raise LoginRefused("the login was denied; run `lembas login` to ask again")
            case other:
                raise LoginRefused(
                    f"the server refuses the login ({plain(other)}); ask who runs it"
                )

    def _slower(self) -> Pending:
        self._interval_s += SLOW_DOWN_S
        return Pending(self._interval_s)


def _is_page(address: str) -> bool:
    """Whether a browser shows a page for it, and runs or sends nothing."""
    return address.lower().startswith(("https://", "http://"))


def _is_usable(endpoint: str, server: str) -> bool:
    """Whether a token may come from there: encrypted, or from this machine where the server itself is on it."""
    try:
        parts, host = urlsplit(endpoint), urlsplit(endpoint).hostname
    except ValueError:
        return False
    if parts.username or parts.password or not host:
        return False
    # one scheme for all: the client of a server on this machine checks no certificates
    is_same = server.startswith(f"{parts.scheme}:")
    return is_same and (parts.scheme == "https" or host in LOOPBACK)


def _decode(response: httpx.Response, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(response.content, type=kind)
    except (msgspec.MsgspecError, RecursionError):
        raise LoginRefused(
            f"the server's answer ({response.status_code}) is none of a login; is it a LLeMbas server?"
        ) from None


async def poll_until_done(
    grant: DeviceGrant, expires_in_s: float, sleep: Callable[[float], Awaitable[None]]
) -> str:
    """Poll until there is a token. `sleep` waits a number of seconds. Raises LoginRefused, Redirected."""
    waited = 0.0
    try:
        # a server that takes its time over each answer ends a login no later
        async with asyncio.timeout(max(0.0, expires_in_s)):
            while not isinstance(answer := await grant.poll(), str):
                waited += answer.wait_s
                if waited > expires_in_s:
                    break
                await sleep(answer.wait_s)
            else:
                return answer
    except TimeoutError:
        pass
    raise LoginRefused("nobody approved in time; run `lembas login` again")


async def ask_instance(http: httpx.AsyncClient, server: str, token: str) -> InstanceInfo:
    """What the instance says of itself and of this token.

    Raises LoginRefused for a token it does not accept, an older server, or a scope without `link`; Unreachable.
    """
    if not is_token(token):
        raise LoginRefused("this is no token; give the token alone on standard input")
    try:
        about = await InstanceApi(http, server, token).about()
    except LoginEnded:
        raise LoginRefused(f"{server} does not accept this token; get a new one") from None
    except NotAllowed as refused:
        raise LoginRefused(f"{refused}; get a token with the scopes {SCOPE}") from None
    except NotThere:
        raise LoginRefused(f"{server} is an older server; update it to LLeMbas 2.0") from None
    if about.scope is None:
        raise LoginRefused(f"{server} is an older server; update it to LLeMbas 2.0")
    if NEEDED_SCOPE not in about.scope.split():
        raise LoginRefused(
            f"this token may do {plain(about.scope) or 'nothing'} but not link; get one with the link scope"
        )
    return about


async def prove(http: httpx.AsyncClient, server: str, token: str) -> Credentials:
    """Prove a token at the instance before anything is written; what to store. Raises as `ask_instance`."""
    about = await ask_instance(http, server, token)
    return Credentials(
        server=server,
        token=token,
        connection=plain(about.connection) or None if about.connection else None,
        instance_name=plain(about.name),
        default_model=about.default_model,
        scope=about.scope or "",
    )
