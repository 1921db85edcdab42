"""What of an agent's text may reach a terminal."""

import pytest

from lembasd.tui.core.plain import clean, clean_line, short, typed


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain text,\nof two lines", "plain text,\nof two lines"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]52;c;c2VjcmV0\x1b\\text", "text"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0\x1b\\text", "text"),
        ("\x1b]0;broken off", ""),
        ("\x1b(0qqq", "qqq"),
        ("\x1bc\x1b[2J\x1b[Hgone", "gone"),
        ("\x9b31mred", "red"),
        ("\x9d0;title\x9ctext", "text"),
        ("a\x1b", "a"),
        ("bell\x07 back\x08 null\x00 delete\x7f", "bell back null delete"),
        ("one\r\ntwo\rthree", "one\ntwothree"),
        ("a\tb", "a    b"),
        ("safe\u202egnihtyna\u2066\u200f", "safegnihtyna"),
        ("half \ud83d a character", "half  a character"),
        ("line\u2028separator", "lineseparator"),
    ],
)
def test_nothing_that_a_terminal_would_obey_is_left(given: str, shown: str) -> None:
    assert clean(given) == shown


def test_what_is_typed_keeps_its_tabs() -> None:
    assert typed("a\tb\x1b[31m\r\nc\t") == "a\tb\nc\t"


def test_a_line_has_no_newlines_and_no_runs_of_spaces() -> None:
    assert clean_line("  a\n\tb \x1b[1m c ") == "a b c"


def test_a_long_text_is_cut_with_an_ellipsis() -> None:
    assert (short("abc", 3), short("abcd", 3)) == ("abc", "ab…")
