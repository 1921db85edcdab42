"""Which paths, and which lines, the words of a prompt may name."""

import pytest

from lembasd.engine.native.core.mentions import Mention, mentions


def first(text: str) -> list[Mention]:
    return [readings[0] for readings in mentions(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see @a.py", [Mention("a.py")]),
        ("@a @b/c/", [Mention("a"), Mention("b/c/")]),
        ("@my\\ notes.md", [Mention("my notes.md")]),
        ("@a\\#b.md", [Mention("a#b.md")]),
        ("@c.md#10-20", [Mention("c.md", 10, 20)]),
        ("@c.md#10", [Mention("c.md", 10, 10)]),
        ("@c.md#10-", [Mention("c.md", 10)]),
        ("@c.md#20-10", [Mention("c.md", 10, 20)]),
        ("@c.md#0-0", [Mention("c.md", 1, 1)]),
        ("@a\\#10", [Mention("a#10")]),
        ("@a\\\\#10", [Mention("a\\", 10, 10)]),
        ("@a#b.md", [Mention("a#b.md")]),
        ("@a#1b", [Mention("a#1b")]),
        ("@#10", [Mention("#10")]),
        ("@a#9999999999", [Mention("a#9999999999")]),
        ("@a\\\nb", [Mention("a\nb")]),
        ("@src\\lib", [Mention("src\\lib")]),
        ("@\N{ROCKET}", [Mention("\N{ROCKET}")]),
        ("(@a) [@b] {@c} <@d> \"@e\" '@f' `@g` x,@h", [Mention(f"{one}") for one in "abcdefgh"]),
        ("me@there.org x/@y =@z", []),
        ("@ a", []),
        ("@\\", []),
        ("@@a", [Mention("@a")]),
        ("@" + "x" * 5000, []),
        ("", []),
    ],
)
def test_what_a_word_names(text: str, found: list[Mention]) -> None:
    # the brackets and quotes of a word are the matter of its later readings
    got = [
        next((one for one in readings if one in found), readings[0]) for readings in mentions(text)
    ]
    assert got == found


def test_marks_at_the_end_may_be_the_names_or_the_sentences() -> None:
    assert list(mentions("@a.py).")) == [(Mention("a.py)."), Mention("a.py)"), Mention("a.py"))]
    assert list(mentions("@a#2,")) == [(Mention("a#2,"), Mention("a", 2, 2))]
    assert list(mentions("@a\\!")) == [(Mention("a!"),)]
    assert list(mentions("@...")) == [(Mention("..."), Mention(".."), Mention("."))]
    assert list(mentions("@a!!!!!!")) == [tuple(Mention("a" + "!" * n) for n in (6, 5, 4, 3, 2))]


def test_the_first_reading_is_the_whole_word() -> None:
    assert first("@a. @b,") == [Mention("a."), Mention("b,")]
