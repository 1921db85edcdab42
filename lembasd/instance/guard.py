"""Who may ask what: Host and Origin on every route, a device's token or the page's secret behind it."""

import hmac
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from lembasd.instance.tokens import Device, Tokens
from lembasd.protocol.limits import MIB

#: a request's body; a longer one is refused before it is read to its end
MAX_BODY_BYTES: Final = 40 * MIB
_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
_HTTP_PORT: Final = 80
_HEADERS: Final = {
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def refusal(status: int, message: str, **data: Any) -> JSONResponse:
    """An error answer: {error: {code, message, data}}; `message` is one sentence for a person."""
    return JSONResponse({"error": {"code": status, "message": message, "data": data}}, status)


class Guard:
    """ASGI middleware. Host against DNS rebinding, Origin and Sec-Fetch-Site against requests of other pages."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        # a browser leaves the port out when it is the scheme's own
        bare = _NAMES if port == _HTTP_PORT else ()
        self._hosts = frozenset((*(f"{name}:{port}" for name in _NAMES), *bare))
        self._origins = frozenset(f"http://{host}" for host in self._hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = self._judge(scope)
        if refused is None:
            try:
                await self._app(scope, receive, _with_headers(send))
            except Broken:
                pass  # the server closes a connection whose answer is not whole
        elif scope["type"] == "websocket":
            socket = WebSocket(scope, receive, _with_headers(send))
            await socket.send_denial_response(refused)
        else:
            await refused(scope, receive, _with_headers(send))

    def _judge(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return refusal(421, "ask this instance by the address that it printed")
        origins = headers.getlist("origin")
        if any(origin.lower() not in self._origins for origin in origins):
            return refusal(403, "requests of other pages are refused")
        site = headers.get("sec-fetch-site", "none")
        # the page itself may be navigated to from anywhere: it does nothing, and Strict keeps the cookie away
        if site not in ("same-origin", "none") and scope["path"] != "/":
            return refusal(403, "requests of other pages are refused")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            return refusal(413, f"a request has at most {MAX_BODY_BYTES} bytes")
        return None


def _with_headers(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return with_headers


class Broken(Exception):
    """An answer ends in its middle: the connection is to be cut."""


class TooLong(Exception):
    """The request's body is over its bound."""


async def read_body(request: Any, limit: int = MAX_BODY_BYTES) -> bytes:
    """A request's body, however it is sent. Raises TooLong beyond `limit` bytes."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise TooLong
    return bytes(body)


def bearer(connection: HTTPConnection) -> str:
    """The token of the Authorization header, "" without one."""
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


class Keys:
    """Tells a device's token and the page's secret; neither stands for the other."""

    def __init__(self, secret: str, tokens: Tokens, port: int) -> None:
        self._secret = secret.encode()
        self._tokens = tokens
        # cookies know no ports: the name keeps two instances of one machine apart
        self.cookie = f"lembas_instance_{port}"

    def device(self, connection: HTTPConnection) -> Device | None:
        return self._tokens.find(bearer(connection))

    def is_secret(self, text: str) -> bool:
        return hmac.compare_digest(text.encode("utf-8", "surrogatepass"), self._secret)

    def is_person(self, connection: HTTPConnection) -> bool:
        """Whether the request carries the secret, as a bearer token or in the cookie."""
        if "authorization" in connection.headers:
            return self.is_secret(bearer(connection))
        try:
            jar = SimpleCookie(connection.headers.get("cookie", ""))
        except CookieError:
            return False
        morsel = jar.get(self.cookie)
        return morsel is not None and self.is_secret(morsel.value)

    def allowed(self, connection: HTTPConnection, scope: str) -> Device | Response:
        """The device whose token may do this, else the refusal to answer with."""
        device = self.device(connection)
        if device is None:
            answer = refusal(401, "this needs a device's token; run `lembas login`")
            answer.headers["WWW-Authenticate"] = "Bearer"
            return answer
        if not device.may(scope):
            return refusal(403, f"this token has no scope `{scope}`; log in again")
        return device
