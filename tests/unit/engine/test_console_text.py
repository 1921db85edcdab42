"""What a terminal would show of a command's output."""

import pytest

from lembasd.engine.native.core.console_text import MAX_OPEN_LINE_CHARS, ConsoleText


def shown(*pieces: bytes) -> str:
    text = ConsoleText()
    return "".join([text.feed(piece) for piece in pieces] + [text.finish()])


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (b"", ""),
        (b"a\nb\n", "a\nb\n"),
        (b"a\tb", "a\tb"),
        (b"a\r\nb\r\n", "a\nb\n"),
        (b" 10%\r 50%\r100%\n", "100%\n"),
        (b"working\rdone   \n", "done   \n"),
        (b"longer line\rshort\n", "shortr line\n"),
        (b"longer line\r\x1b[Kshort\n", "short\n"),
        (b"longer line\x1b[2K\rshort\n", "short\n"),
        (b"longer line\x1b[2Kshort\n", "           short\n"),
        (b"longer line\x1b[1K\n", "longer line\n"),
        (b"longer\x1b[Gsh\x1b[1Gw\n", "whnger\n"),
        (b"a line\r", "a line"),
        (b"abc\b\bX\n", "aXc\n"),
        (b"\b\bX\n", "X\n"),
        (b"abcdef\b\b\b\bX\r\r\rY\x07\x07\n", "YbXdef\n"),
        (b"abc\r\x1b\x1b\x1b[Ktext\n", "text\n"),
        (b"\x1b[3\x001mred\x00\x7f\xc2\x9b\x0c!\n", "red!\n"),
        (b"\x1b[1;31mred\x1b[0m and \x1b[38;5;12mblue\x1b[m\n", "red and blue\n"),
        (b"\x1b]0;a title\x07text\n", "text\n"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", "link\n"),
        (b"\x1bPq#0;1\x1b\\picture\n", "picture\n"),
        (b"\x1b(B\x1b7\x1b=text\x1bM\n", "text\n"),
        (b"bell\x07 nul\x00 del\x7f\n", "bell nul del\n"),
        ("next\x85line\x9b\n".encode(), "nextline\n"),
        (b"cut \x1b[31\nnext\n", "cut [31\nnext\n"),
        (b"cut \x1b", "cut "),
        (b"cut \x1b[31", "cut "),
        (b"cut \x1b]0;never ended", "cut "),
        (b"no sequence \x1b\xc3\xa9\n", "no sequence é\n"),
        (b"caf\xe9 \xff\n", "caf\ufffd \ufffd\n"),
        ("grüße 🦀\n".encode(), "grüße 🦀\n"),
    ],
)
def test_colours_go_and_a_line_is_as_it_stood_last(said: bytes, text: str) -> None:
    assert shown(said) == text


@pytest.mark.parametrize(
    "pieces",
    [
        (b"gr\xc3", b"\xbc\xc3\x9fe\n"),
        (b"\xf0\x9f", b"\xa6", b"\x80\n"),
        (b"50%\r", b"100%\n"),
        (b"a\x1b", b"[31", b"mred\x1b[0", b"m\n"),
        (b"\x1b]0;ti", b"tle\x1b", b"\\text\n"),
        (b"a\r", b"\n", b"b\n"),
        (b"abc\r\x1b", b"\x1b", b"[Ka\b", b"\bd\n"),
    ],
)
def test_what_is_cut_by_the_end_of_a_piece_is_whole(pieces: tuple[bytes, ...]) -> None:
    assert shown(*pieces) == shown(b"".join(pieces))


def test_a_character_that_never_gets_its_rest_is_replaced() -> None:
    assert shown(b"a\xf0\x9f") == "a\ufffd"


def test_the_open_line_is_there_before_it_ends() -> None:
    text = ConsoleText()
    assert (text.feed(b"one\n 50%"), text.open_line) == ("one\n", " 50%")
    assert (text.feed(b"\r100%"), text.open_line) == ("", "100%")


def test_a_line_that_is_too_long_to_wait_for_is_final() -> None:
    text = ConsoleText()
    long = b"x" * (MAX_OPEN_LINE_CHARS + 1)
    assert text.feed(long) == long.decode()
    assert text.feed(b"\ry") + text.finish() == "y"


def test_an_escape_that_never_ends_does_not_hold_the_output_back() -> None:
    text = ConsoleText()
    said = b"\x1b]" + b"x" * 5000
    assert text.feed(said) + text.finish() == "]" + "x" * 5000
