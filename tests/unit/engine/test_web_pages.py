"""Addresses of pages, and what servers say of them."""

import pytest

from lembasd.engine.native.core.web_addresses import is_public
from lembasd.engine.native.core.web_pages import (
    Address,
    decoded,
    is_followed,
    kind_of,
    read_address,
    redirected,
)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.0.1",
        "0.0.0.0",  # noqa: S104 - not bound: refused
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "239.1.1.1",
        "240.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "fd00:ec2::254",
        "fec0::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2001:0:0:0:0:0:80ff:fffe",
        "2001:db8::1",
        "no address",
    ],
)
def test_what_only_this_machine_reaches_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"],
)
def test_what_the_internet_reaches_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("http://a.example", Address("http://a.example/", "http", "a.example", 80)),
        (
            " https://A.example./b?c=d#e ",
            Address("https://a.example/b?c=d", "https", "a.example", 443),
        ),
        ("https://a:443/", Address("https://a/", "https", "a", 443)),
        ("http://[::1]:8080/x", Address("http://[::1]:8080/x", "http", "::1", 8080)),
        (
            "http://müller.example",
            Address("http://xn--mller-kva.example/", "http", "xn--mller-kva.example", 80),
        ),
    ],
)
def test_an_address_is_read(text: str, address: Address) -> None:
    assert read_address(text) == address


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ftp://a", "only http"),
        ("file:///etc/passwd", "only http"),
        ("a.example", "only http"),
        ("http://", "names no host"),
        ("http:///x", "names no host"),
        ("http://a:99999/", "is no address"),
        ("http://[::1", "is no address"),
        ("http://" + "x" * 70 + ".example", "is no address"),
        ("http://me:secret@a.example", "name or password"),
        ("http://a example", "has spaces"),
        ("http://a/\nX-Evil: 1", "has spaces"),
        ("http://a/" + "x" * 5000, "too long"),
    ],
)
def test_what_is_no_address_is_told(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_address(text)


@pytest.mark.parametrize(
    ("location", "url", "followed"),
    [
        ("/b", "https://a.example/b", True),
        ("https://a.example:8443/", "https://a.example:8443/", True),
        ("http://a.example/", "http://a.example/", False),
        ("//b.example/", "https://b.example/", False),
    ],
)
def test_a_redirect_is_followed_on_its_host_and_never_to_plain_http(
    location: str, url: str, followed: bool
) -> None:
    at = read_address("https://a.example/x/y")
    to = redirected(at, location)
    assert (to.url, is_followed(at, to)) == (url, followed)


@pytest.mark.parametrize(
    ("content_type", "content", "kind"),
    [
        ("text/html; charset=utf-8", b"", "html"),
        ("application/xhtml+xml", b"", "html"),
        ("text/plain", b"", "text"),
        ("application/json", b"", "text"),
        ("application/problem+json", b"", "text"),
        ("image/svg+xml", b"", "text"),
        ("application/pdf", b"", "binary"),
        ("image/png", b"", "binary"),
        ("", b"  <!DOCTYPE HTML><p>", "html"),
        ("", b"<html>", "html"),
        ("", b"hello", "text"),
        ("", b"\x7fELF\0", "binary"),
    ],
)
def test_the_kind_of_a_page(content_type: str, content: bytes, kind: str) -> None:
    assert kind_of(content_type, content) == kind


@pytest.mark.parametrize(
    ("content", "content_type", "text"),
    [
        ("é".encode(), "text/plain", "é"),
        ("é".encode("latin-1"), "text/plain; charset=ISO-8859-1", "é"),
        ("é".encode("latin-1"), "text/html", "\N{REPLACEMENT CHARACTER}"),
        (b"\xef\xbb\xbfa", "text/plain; charset=latin-1", "a"),
        ("é".encode("utf-16"), "text/plain", "é"),
        (b'<meta charset="cp1252">\x80', "text/html", '<meta charset="cp1252">€'),
        ("日本".encode("shift_jis"), 'text/plain; charset="Shift_JIS"', "日本"),
        (b"a-b", "text/plain; charset=punycode", "a-b"),
        (b"a", "text/plain; charset=rot13", "a"),
        (b"a", "text/plain; charset=nonsense", "a"),
        (b"a", "text/plain; charset=\0", "a"),
    ],
)
def test_a_page_is_decoded_as_it_says_or_as_utf_8(
    content: bytes, content_type: str, text: str
) -> None:
    assert decoded(content, content_type, kind_of(content_type, content)) == text
