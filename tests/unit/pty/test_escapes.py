"""Where output may be cut."""

import pytest

from lembasd.pty.core.escapes import MAX_SEQUENCE_BYTES, opening, unfinished


@pytest.mark.parametrize(
    ("data", "rest"),
    [
        (b"", b""),
        (b"plain text\r\n", b""),
        ("wide 漢".encode(), b""),
        ("wide 漢".encode()[:-1], "漢".encode()[:2]),
        ("𝄞".encode()[:3], "𝄞".encode()[:3]),
        ("é".encode()[:1], "é".encode()[:1]),
        (b"\x80\x80\x80\x80", b""),
        (b"\xff", b""),
        (b"text\x1b", b"\x1b"),
        (b"text\x1b[", b"\x1b["),
        (b"text\x1b[?20", b"\x1b[?20"),
        (b"text\x1b[1 ", b"\x1b[1 "),
        (b"text\x1b[1 q", b""),
        (b"\x1b[0m\x1b[1;3", b"\x1b[1;3"),
        (b"\x1b(", b"\x1b("),
        (b"\x1b(B", b""),
        (b"\x1b7", b""),
        (b"\x1bc text", b""),
        (b"\x1b[31m" + "漢".encode()[:1], "漢".encode()[:1]),
        (b"\x1b]0;title", b"\x1b]0;title"),
        (b"\x1b]0;title\x07", b""),
        (b"\x1b]0;title\x07" + "漢".encode()[:2], "漢".encode()[:2]),
        (b"\x1b]0;title\x1b", b"\x1b"),
        (b"\x1b]0;title\x1b\\", b""),
        (b"\x1bPq#0\x07", b"\x1bPq#0\x07"),
        (b"\x1bPq#0\x18", b""),
        (b"\x1b_app", b"\x1b_app"),
        # broken: the terminal has gone on
        (b"\x1b[3\x01", b""),
        (b"\x1b\xc5\xbe text \xe6\xbc", b"\xe6\xbc"),
        (b"\x1b[" + b"1" * MAX_SEQUENCE_BYTES, b""),
    ],
)
def test_what_is_not_complete_is_told(data: bytes, rest: bytes) -> None:
    assert data[len(data) - unfinished(data) :] == rest


def test_of_a_string_its_kind_says_how_it_goes_on_and_of_a_sequence_all_of_it() -> None:
    assert opening(b"\x1b]0;a long title") == b"\x1b]"
    assert opening(b"\x1b[38;5;1") == b"\x1b[38;5;1"
    assert unfinished(opening(b"\x1b]0;a long title") + b"more") == 6
    assert unfinished(opening(b"\x1b]0;a long title") + b"more\x07text") == 0
