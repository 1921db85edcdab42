"""What an instance says of itself before anything else (link.md, Versions and discovery), and asking it by HTTP."""

import asyncio
import ssl
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx
import msgspec
from msgspec import Struct

from lembasd.link.core import faults
from lembasd.link.core.faults import plain
from lembasd.protocol.errors import EXIT_REFUSED, EXIT_USAGE, LembasError
from lembasd.protocol.lembas import LINK_PROTOCOL
from lembasd.protocol.limits import MIB

WELL_KNOWN: Final = "/.well-known/lembas.json"
#: a discovery document is a few hundred bytes
MAX_BODY_BYTES: Final = 1 * MIB
#: one request may take this long, to the last byte of its answer, before the instance counts as away
TIMEOUT_S: Final = 15.0


class Document(Struct, frozen=True):
    """The discovery document; keys that this build does not use are left out."""

    name: str = "LLeMbas"
    version: str = "1.x"
    protocol: int = 1
    protocols: list[int] | None = None
    device_authorization_endpoint: str | None = None
    token_endpoint: str | None = None

    @property
    def spoken(self) -> list[int]:
        return self.protocols if self.protocols is not None else [self.protocol]


class Unreachable(LembasError):
    """The instance is away or does not answer as one: try later. `retry_after_s` is the server's wish."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Redirected(Unreachable):
    """The instance sends on to somewhere else."""


class WrongProtocol(LembasError):
    """The instance does not speak link protocol 3: the link stops until one side is updated."""

    exit_code = EXIT_REFUSED


class BadServer(LembasError):
    """The address itself cannot be used."""

    exit_code = EXIT_USAGE


def base_url(server: str) -> str:
    """The server's address in one form, without a trailing slash.

    Raises BadServer for what is no http(s) URL, and for http to anything but this machine.
    """
    text = server if "://" in server else f"https://{server}"
    try:
        parts = urlsplit(text)
        host, _port = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    if not host or parts.scheme not in ("http", "https"):
        shown = plain(server.partition("?")[0])
        raise BadServer(f"{shown!r} is no server address; write it as https://lembas.example.org")
    if parts.username or parts.password:
        raise BadServer("leave name and password out of the server's address; log in instead")
    if parts.query or parts.fragment:
        # it may be a secret: the page of a pocket instance has one there
        start = f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")
        raise BadServer(f"leave what follows the ? out of the server's address; write {start}")
    if parts.scheme == "http" and host not in faults.LOOPBACK:
        raise BadServer(f"{server} would send your token unencrypted; use https://{parts.netloc}")
    return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")


def client(context: ssl.SSLContext | None) -> httpx.AsyncClient:
    """An HTTP client for one instance.

    No redirects, since a token must not follow one, and no proxy, since the WebSocket takes none either. `context` is
    None for an instance on this machine, which is asked without TLS.
    """
    verify: ssl.SSLContext | bool = context if context is not None else False
    return httpx.AsyncClient(
        timeout=TIMEOUT_S,
        follow_redirects=False,
        trust_env=False,
        verify=verify,
        headers={"Accept": "application/json", "Accept-Encoding": "identity"},
    )


def tls_context(server: str) -> ssl.SSLContext | None:
    """The TLS context for a server's address; None for http. It reads certificates: call it in a thread."""
    return ssl.create_default_context() if server.startswith("https:") else None


def retry_after(headers: Any) -> float | None:
    """The seconds of a Retry-After header; None without one, or for a date (the back-off will do)."""
    text = str(headers.get("retry-after", "")).strip()
    return float(text) if text.isdecimal() and len(text) < 10 else None


async def fetch(
    http: httpx.AsyncClient,
    method: str,
    url: str,
    *,
    most_bytes: int = MAX_BODY_BYTES,
    timeout_s: float = TIMEOUT_S,
    **options: Any,
) -> httpx.Response:
    """One request, bounded in bytes and in time, however slowly the answer comes.

    Raises Unreachable for everything that is not a whole answer, Redirected for one that sends on to elsewhere.
    """
    shown = plain(url)
    try:
        async with asyncio.timeout(timeout_s), http.stream(method, url, **options) as response:
            if response.status_code in faults.REDIRECTS:
                raise Redirected(faults.redirected(shown, response.headers.get("location", "")))
            body = await _body(response, shown, most_bytes)
            headers = [
                (name, value)
                for name, value in response.headers.multi_items()
                if name.lower() not in ("content-encoding", "content-length", "transfer-encoding")
            ]
            return httpx.Response(response.status_code, headers=headers, content=body)
    except TimeoutError:
        raise Unreachable(
            f"{shown} did not answer within {timeout_s:g} s; see that it runs, and check the network"
        ) from None
    except httpx.RemoteProtocolError as error:
        raise Unreachable(faults.garbled(shown, str(error))) from error
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        # a ValueError: headers or a URL that cannot be written, of an endpoint that the other side named
        what = str(error) or "the connection broke"
        raise Unreachable(faults.unreachable(shown, what, proxied=_is_proxied(url))) from error


async def _body(response: httpx.Response, url: str, most_bytes: int) -> bytes:
    # a few bytes of a packed answer can stand for any number, so what comes packed is not unpacked
    if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise Unreachable(f"{url} packs its answer, which was not asked for; ask who runs it")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > most_bytes:
            raise Unreachable(f"{url} answers with too much; is it a LLeMbas server?")
    return bytes(body)


def _is_proxied(url: str) -> bool:
    """Whether other programs would ask a proxy for this URL."""
    parts = urlsplit(url)
    return parts.hostname not in faults.LOOPBACK and parts.scheme in getproxies()


async def discover(http: httpx.AsyncClient, server: str) -> Document:
    """Read and judge the discovery document.

    Raises Unreachable when the instance is away or is none, WrongProtocol with the spec's sentence when it does not
    speak protocol 3.
    """
    response = await fetch(http, "GET", server + WELL_KNOWN)
    if response.status_code != 200:
        raise Unreachable(
            f"{server} answers {response.status_code} to discovery; is it a LLeMbas server?",
            retry_after(response.headers),
        )
    try:
        document = msgspec.json.decode(response.content, type=Document)
    except (msgspec.MsgspecError, RecursionError):
        raise Unreachable(f"{server} has no readable discovery; is it a LLeMbas server?") from None
    if LINK_PROTOCOL not in document.spoken:
        raise WrongProtocol(refusal(server, document))
    return document


def refusal(server: str, document: Document) -> str:
    """The spec's sentence to a server of another protocol, word for word."""
    return (
        f"{server} runs LLeMbas {plain(document.version, 40)}, "
        f"which speaks link protocol {faults.listing(document.spoken)}; "
        "this LLeMbas CLI needs a LLeMbas 2.0 server (protocol 3) — update the server, "
        "or use LLeMbas CLI 1.x with it"
    )
