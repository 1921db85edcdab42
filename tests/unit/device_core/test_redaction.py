"""What looks like a secret is not written."""

import pytest

from lembasd.device.core.redaction import redacted


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (
            b'{"error":"401 for Authorization: Bearer abcdefgh1234"}',
            b'{"error":"401 for Authorization: Bearer [hidden]"}',
        ),
        (b"Basic dXNlcjpwYXNz failed", b"Basic [hidden] failed"),
        (b'{"token":"abcdef","n":" "}', b'{"token":"[hidden]","n":" "}'),
        (b"{\"error\":\"{'api_key': 'abcdefgh'}\"}", b"{\"error\":\"{'api_key': '[hidden]'}\"}"),
        (b'"url":"https://x.org/?access_token=abcdef12&a=1"', b'"url":"https://x.org/?access_token=[hidden]&a=1"'),
        (b"https://me:hunter2@x.org/p", b"https://[hidden]@x.org/p"),
        (b"key sk-abcdefghijklmnop ends", b"key [hidden] ends"),
        (b"a ghp_abcdefghijklmnopqrst", b"a [hidden]"),
        (b"a=eyJhbGciOiJIUzI1.eyJzdWIiOiIx.sig-_x", b"a=[hidden]"),
    ],
)  # fmt: skip
def test_what_looks_like_a_secret_is_hidden(text: bytes, clean: bytes) -> None:
    assert redacted(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        b'{"tokens":120000,"event":"turn_ended"}',
        b'{"session_id":"ses_0123456789abcdef"}',
        b"basic auth is not set",
        b"no token here; log in again with `lembas login`",
        b"mail me@example.org, see https://x.org:8443/a@b",
        b"the key: x",
        b'{"key":"abcdefgh"}',
        b"a sentence without a sign",
    ],
)
def test_what_is_no_secret_stays(text: bytes) -> None:
    assert redacted(text) == text


def test_a_secret_that_is_known_is_hidden_wherever_it_stands() -> None:
    assert redacted(b'{"error":"odd 12/34 here 12/34"}', [b"12/34", b"zz"]) == (
        b'{"error":"odd [hidden] here [hidden]"}'
    )
