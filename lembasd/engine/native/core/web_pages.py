"""Reading what a server says of a page: its kind, its charset, where it leads; and the address itself."""

import codecs
import re
from typing import Final, Literal
from urllib.parse import urljoin, urlsplit

from msgspec import Struct

#: characters of an address; a longer one is no page's
MAX_URL_CHARS: Final = 4096

Kind = Literal["html", "text", "binary"]
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXT: Final = re.compile(
    r"text/.*|.*[/+](json|xml|yaml|x-yaml|toml|javascript|ecmascript|x-sh|x-ndjson|sql|graphql)"
)
_META: Final = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([a-zA-Z0-9_:.-]{1,40})", re.I)
#: where a page's own word on its charset stands, if at all
_META_BYTES: Final = 4096
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


_CHARSET: Final = re.compile(
    r"utf-(8|16|32)(-.*)?|ascii|iso8859-.*|cp\d+|koi8-.*|mac-.*|gb.*|big5.*|euc_.*|shift_jis.*|iso2022_.*"
)


class Address(Struct, frozen=True):
    """A page's address. `url` is it in full, without a fragment; `host` lower case, without brackets."""

    url: str
    scheme: str
    host: str
    port: int


def read_address(text: str) -> Address:
    """Read an address. Raises ValueError: one sentence for the model."""
    text = text.strip()
    if len(text) > MAX_URL_CHARS or any(ord(one) < 33 or ord(one) == 127 for one in text):
        raise ValueError("This is no address of a page: it is too long, or has spaces in it.")
    try:
        parts = urlsplit(text)
        port = parts.port
        host = (parts.hostname or "").rstrip(".").encode("idna").decode()
    except (ValueError, UnicodeError):
        raise ValueError(f"{text} is no address of a page.") from None
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"{text} is not asked: only http:// and https:// are.")
    if not host:
        raise ValueError(f"{text} names no host.")
    if parts.username is not None or parts.password is not None:
        raise ValueError("An address with a name or password in it is not asked.")
    default = 443 if parts.scheme == "https" else 80
    shown = f"[{host}]" if ":" in host else host
    place = shown if port in (None, default) else f"{shown}:{port}"
    query = f"?{parts.query}" if parts.query else ""
    url = f"{parts.scheme}://{place}{parts.path or '/'}{query}"
    return Address(url=url, scheme=parts.scheme, host=host, port=port or default)


def redirected(at: Address, location: str) -> Address:
    """Where a redirect leads. Raises ValueError."""
    return read_address(urljoin(at.url, location))


def is_followed(at: Address, to: Address) -> bool:
    """Whether a redirect stays where the person allowed: on the host, and never from https to http."""
    return at.host == to.host and not (at.scheme == "https" and to.scheme == "http")


def kind_of(content_type: str, content: bytes) -> Kind:
    """What a page is, by its server's word, else by its first bytes."""
    media = content_type.partition(";")[0].strip().lower()
    if media in _HTML:
        return "html"
    if media:
        return "text" if _TEXT.fullmatch(media) else "binary"
    if content[:_META_BYTES].lstrip()[:14].lower().startswith((b"<!doctype html", b"<html")):
        return "html"
    return "binary" if b"\0" in content[:_META_BYTES] else "text"


def decoded(content: bytes, content_type: str, kind: Kind) -> str:
    """The text of a page: by its BOM, its server's word, its own word, else as UTF-8. What does not fit is replaced."""
    for bom, name in _BOMS:
        if content.startswith(bom):
            return content[len(bom) :].decode(name, "replace")
    named = re.search(r"charset\s*=\s*[\"']?([^\s;\"']+)", content_type, re.I)
    charset = named[1] if named is not None else ""
    if not charset and kind == "html":
        said = _META.search(content[:_META_BYTES])
        charset = said[1].decode() if said is not None else ""
    return content.decode(_known(charset) or "utf-8", "replace")


def _known(charset: str) -> str | None:
    """The charset, where it is one of texts: other codecs take minutes, or are of something else."""
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):
        return None
    return name if _CHARSET.fullmatch(name) else None
