"""What went wrong between this device and its instance, in one sentence for a person. Pure."""

from typing import Final
from urllib.parse import urljoin, urlsplit

#: of a text of the other side's; what is longer is no name or reason
MAX_SHOWN_CHARS: Final = 300
REDIRECTS: Final = (301, 302, 303, 307, 308)
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
#: OpenSSL's words for a peer that answered with something else than TLS
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_MESSAGE")


def plain(text: str, most: int = MAX_SHOWN_CHARS) -> str:
    """Text of the other side's, fit for a terminal and a log: nothing in it moves a cursor, and it is short."""
    shown = "".join(
        character if character.isprintable() else " " for character in text[:most]
    ).strip()
    return shown if len(text) <= most else f"{shown}…"


def origin(url: str) -> str:
    """Scheme, host and port of a URL as they are written in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def unreachable(url: str, what: str, *, proxied: bool) -> str:
    """No answer came; `what` is the connection's own word for it, `proxied` whether the environment names a proxy."""
    where = origin(url)
    if "CERTIFICATE_VERIFY_FAILED" in what:
        why = what.rpartition("verify failed: ")[2].partition(" (_ssl")[0]
        return (
            f"the certificate of {where} is not trusted ({plain(why)}); check the address, "
            "or name its authority's file in SSL_CERT_FILE"
        )
    if any(word in what for word in _NO_TLS):
        is_here = urlsplit(url).hostname in LOOPBACK
        so = "write http:// for a server on this machine" if is_here else "check its port"
        return f"{where} does not speak TLS; {so}"
    hint = ", which must go without the proxy of the environment" if proxied else ""
    return f"{url} cannot be reached ({plain(what)}); see that it runs, and check the network{hint}"


def garbled(url: str, what: str) -> str:
    """Something came, and it was no whole HTTP answer; `what` is the client's word for it."""
    return f"{url} gives no whole answer ({plain(what)}); see that it is a LLeMbas server, and that it runs"


def redirected(url: str, location: str) -> str:
    """The answer was a redirect, which is never followed: the token is for one address alone."""
    try:
        target = urlsplit(urljoin(url, location))
    except ValueError:
        target = urlsplit("")
    if target.scheme not in ("http", "https") or not target.netloc or "@" in target.netloc:
        return f"{url} sends on to nowhere; is it a LLeMbas server?"
    there = f"{target.scheme}://{target.netloc}"
    if there == origin(url):
        return f"{url} sends on to {plain(target.path) or '/'}; is it a LLeMbas server?"
    there = plain(there)
    return (
        f"{origin(url)} sends on to {there}; "
        f"if that is your server, run `lembas login --server {there}`"
    )


def listing(numbers: list[int]) -> str:
    """Numbers as a sentence names them: "1 and 2"; "none" for none."""
    words = [str(number) for number in numbers[:8]]
    if len(words) < 2:
        return words[0] if words else "none"
    return f"{', '.join(words[:-1])} and {words[-1]}"
