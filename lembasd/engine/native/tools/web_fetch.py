"""`web_fetch`: one page of the web as text.

Each request goes to an address that was looked up and judged here, so that a name cannot mean another one by the
time it is connected to. A redirect to another host is told, not followed: the person allowed this one.
"""

import asyncio
import socket
import zlib
from collections.abc import Awaitable, Callable
from typing import Any, Final

import httpx

from lembasd import __version__
from lembasd.engine.native.core.web_addresses import is_public
from lembasd.engine.native.core.web_pages import (
    Address,
    Kind,
    decoded,
    is_followed,
    kind_of,
    read_address,
    redirected,
)
from lembasd.engine.native.model_client import shared_context
from lembasd.engine.native.tools.outcome import Outcome
from lembasd.protocol.limits import MIB

#: seconds for everything, redirects included; a slower server is given up
TIMEOUT_S: Final = 30.0
CONNECT_S: Final = 10.0
#: redirects on one host; more is a circle
MAX_REDIRECTS: Final = 5
#: addresses of one host that are tried, for one of them may lead nowhere from here
MAX_ADDRESSES: Final = 3
#: of a page, unpacked; the rest is left out
MAX_BYTES: Final = 4 * MIB
#: of its text; the rest is left out
MAX_CHARS: Final = 1_000_000
_HEADERS: Final = {
    "User-Agent": f"lembasd/{__version__}",
    "Accept": "text/html, text/markdown, text/plain, application/json, text/*;q=0.9, */*;q=0.5",
    # what is unpacked is bounded here: a small page may unpack to a huge one
    "Accept-Encoding": "gzip",
}

Resolve = Callable[[str, int], Awaitable[list[str]]]


class _Refused(Exception):
    """The page is not to be had; the text is one sentence for the model."""


class _Page:
    """A page as it came."""

    def __init__(self, address: Address, response: httpx.Response) -> None:
        self.address = address
        self.status = response.status_code
        self.content_type = response.headers.get("content-type", "")
        self.location = response.headers.get("location") if response.is_redirect else None
        self.content = b""
        self.is_cut = False


async def look_up(host: str, port: int) -> list[str]:
    """The addresses of a host. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


class Fetcher:
    """`allowed`: the hosts that the person allowed though they are not public, as they are now."""

    def __init__(self, allowed: Callable[[], list[str]], resolve: Resolve = look_up) -> None:
        self._allowed = allowed
        self._resolve = resolve

    async def fetch(self, args: dict[str, Any]) -> Outcome:
        """Get args["url"]."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                page = await self._followed(read_address(args["url"]))
            return await _told(page)
        except TimeoutError:
            return _error(f"{args['url']} gave no answer within {TIMEOUT_S:g} s.")
        except (_Refused, ValueError) as why:
            return _error(str(why))
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return _error(f"{args['url']} cannot be had: {str(error) or type(error).__name__}.")

    async def _followed(self, address: Address) -> _Page:
        async with httpx.AsyncClient(
            verify=shared_context(),
            # a proxy would look names up itself, and be asked for what is judged here
            trust_env=False,
            timeout=httpx.Timeout(TIMEOUT_S, connect=CONNECT_S),
        ) as http:
            for _ in range(MAX_REDIRECTS + 1):
                page = await self._asked(http, address)
                if page.location is None:
                    return page
                to = redirected(address, page.location)
                if not is_followed(address, to):
                    raise _Refused(f"{address.url} leads to {to.url}; call web_fetch with that.")
                address = to
        raise _Refused(f"{address.url} leads on more than {MAX_REDIRECTS} times.")

    async def _asked(self, http: httpx.AsyncClient, address: Address) -> _Page:
        *others, last = (await self._judged(address))[:MAX_ADDRESSES]
        for one in others:
            try:
                return await self._asked_at(http, address, one)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                pass  # nothing was sent to it
        return await self._asked_at(http, address, last)

    async def _asked_at(self, http: httpx.AsyncClient, address: Address, place: str) -> _Page:
        url = httpx.URL(address.url)
        request = http.build_request(
            "GET",
            url.copy_with(host=place),
            headers={**_HEADERS, "Host": url.netloc.decode()},
            extensions={"sni_hostname": address.host},
        )
        response = await http.send(request, stream=True)
        try:
            page = _Page(address, response)
            if page.location is None:
                await _read(page, response)
        finally:
            await response.aclose()
        return page

    async def _judged(self, address: Address) -> list[str]:
        """The addresses of the host that may be asked."""
        try:
            found = await self._resolve(address.host, address.port)
        except OSError as error:
            raise _Refused(f"{address.host} is not known here ({error.strerror}).") from None
        is_allowed = address.host in self._allowed()
        fit = [one for one in found if is_allowed or is_public(one)]
        if not fit:
            raise _Refused(
                f"{address.host} is on this machine or its network, so it is not asked. "
                "The person can allow it in config.yaml, under web.allow_hosts."
            )
        return fit


async def _read(page: _Page, response: httpx.Response) -> None:
    """Read the body up to the bound, unpacked."""
    packed = response.headers.get("content-encoding", "identity").strip().lower()
    if packed not in ("identity", "", "gzip", "x-gzip", "deflate"):
        raise _Refused(f"{page.address.url} comes packed as {packed}, which is not read here.")
    unpack = None if packed in ("identity", "") else zlib.decompressobj(wbits=47)
    content = bytearray()
    async for data in response.aiter_raw():
        room = MAX_BYTES - len(content)
        try:
            content += data[: room + 1] if unpack is None else unpack.decompress(data, room + 1)
        except zlib.error:
            raise _Refused(f"{page.address.url} is packed in a way that cannot be read.") from None
        if len(content) > MAX_BYTES:
            page.is_cut = True
            break
        if unpack is not None and unpack.eof:
            break  # what follows is no part of the page, and may have no end
    if unpack is not None and not (unpack.eof or page.is_cut):
        raise _Refused(f"{page.address.url} ended in its middle.")
    page.content = bytes(content[:MAX_BYTES])


async def _told(page: _Page) -> Outcome:
    kind = kind_of(page.content_type, page.content)
    if kind == "binary":
        media = page.content_type.partition(";")[0].strip() or "binary"
        return _error(
            f"{page.address.url} is no text ({media}, {len(page.content):,} bytes); "
            "download it with bash if it is needed."
        )
    # beside the loop: a long page takes a while
    text = (await asyncio.to_thread(_text, page, kind)).strip()
    notes = [f"[{page.address.url} answered with HTTP {page.status}]"] if page.status >= 400 else []
    is_cut = page.is_cut or len(text) > MAX_CHARS
    cut = ["[the rest of the page is left out]"] if is_cut else []
    said = "\n".join([*notes, text[:MAX_CHARS] or "[the page has no text]", *cut])
    return Outcome(said, is_error=page.status >= 400)


def _text(page: _Page, kind: Kind) -> str:
    text = decoded(page.content, page.content_type, kind)
    if kind == "text":
        return text
    # loaded with the first page: most sessions have none
    import html_to_markdown

    options = html_to_markdown.ConversionOptions(skip_images=True, base_url=page.address.url)
    try:
        return html_to_markdown.convert(text, options).content or ""
    except html_to_markdown.ConversionError:
        return text


def _error(text: str) -> Outcome:
    return Outcome(text, is_error=True)
