"""What is too much to be checked is asked about, and quickly; parts of the reading on their own."""

import pytest

from lembasd.engine.native.core.shell.evaluate import TOO_LONG, UNREADABLE
from lembasd.engine.native.core.shell.expand import read
from lembasd.engine.native.core.shell.options import has_option, is_option, operands, values_of
from lembasd.engine.native.core.shell.parse import parse
from lembasd.engine.native.core.shell.reading import MAX_BYTES, MAX_NODES, Word
from lembasd.engine.native.core.shell.words import Piece, in_quotes, may_run, plain, words


@pytest.mark.parametrize(
    "line",
    [
        "a" * (MAX_BYTES + 1),
        "a|" * 300,
        "a|" * 3000,
        "echo a; " * 2000,
        "echo " + "$a " * 6000,
        'echo "' + "$a " * 10_000 + '"',
        "cat <<E\n" + "text | more\n" * 1000 + "E\n" + "((a " * 300,
        "cat <<E\nE\n" + "a " * 9000,
        "( " * 50 + "a" + " )" * 50,
        "eval " * 60 + "a",
        "sudo " * 60 + "a",
        "x=$(" * 45 + "a" + ")" * 45,
        "( echo " + "$(echo " * 30 + ")" * 30 + " )",
        'echo "$(' * 45 + "a" + ')"' * 45,
        "while a; do cd b; x=$x; echo $((" + "1+" * 700 + "1)); done",
        "while a; do cd b; x=$x; echo " + "b" * 9 + "c " * 1500 + "; done",
        "while a; do cd b; x=$x; echo " + '"$x"' * 900 + "; done",
        "while a; do cd b; x=$x; echo " + "$(a)" * 400 + "; done",
        "x={1..400}; y={1..400}; " + "echo {1..400}; " * 11,
        "xargs " * 38 + "a " * 1000,
        "if a; then " * 30 + "b; " + "fi; " * 30 + "c {1..400} " * 12,
    ],
)
def test_what_is_too_much_is_asked_about(line: str) -> None:
    assert TOO_LONG in read(line, "/h", "/p").unseen


def test_a_long_text_is_not_too_much() -> None:
    line = "cat > f <<'E'\n" + "- x, y: $a `b` it's\n" * 4000 + "E\nls"
    reading = read(line, "/h", "/p")
    assert [one.words[0].text for one in reading.commands] == ["cat", "ls"]
    assert reading.unseen == []


@pytest.mark.parametrize("line", ["a\x0cb", "a\x00b", "a\x1b[0mb", "a\rb", "a\ud800b"])
def test_what_is_no_text_to_bash_is_not_believed(line: str) -> None:
    assert UNREADABLE in read(line, "/h", "/p").unseen


@pytest.mark.parametrize(
    ("line", "is_whole"),
    [
        ("a # b", True),
        ("a #b `c`", False),
        ("cat <<E\na\nE", True),
        ("a \\\n b", True),
        ("a &&\\\n b", True),
        ("a\\\n", False),
        ("$\\", False),
        ("a;\\\nb", False),
        ("3<a b", True),
        ("x=a y", True),
    ],
)
def test_a_tree_that_bash_might_not_see_is_not_believed(line: str, is_whole: bool) -> None:
    tree = parse(line, MAX_NODES)
    assert tree is not None
    assert tree.is_whole == is_whole


def test_a_tree_of_more_nodes_than_are_left_is_none() -> None:
    assert parse("a b c d", 3) is None


# ── words ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("raw", "pieces"),
    [
        ("a", [Piece("a")]),
        ("a b", None),
        ("\\a", [Piece("a", quoted=True)]),
        ("a\\ b", [Piece("a"), Piece(" ", quoted=True), Piece("b")]),
        ("a\\\nb", [Piece("a"), Piece("b")]),
        ("a\\b;c", None),
    ],
)
def test_unquoted_text_loses_its_escapes(raw: str, pieces: list[Piece] | None) -> None:
    assert plain(raw) == pieces


@pytest.mark.parametrize(
    ("raw", "text", "runs"),
    [
        ("a", "a", False),
        ("a\\\\b", "a\\b", False),
        ('a\\"b\\$c\\`', 'a"b$c`', False),
        ("a\\b", "a\\b", False),
        ("a\\\nb", "ab", False),
        ("a$(b)", None, True),
        ("a\\\\$(b)", None, True),
        ("a\\$(b)", "a$(b)", False),
        ("a$\\\n(b)", None, True),
        ("\\x`b`", None, True),
        ("a$b", None, False),
    ],
)
def test_quoted_text_loses_its_escapes(raw: str, text: str | None, runs: bool) -> None:
    assert in_quotes(raw) == text
    assert may_run(raw) == runs


def test_a_value_is_split_where_it_has_space() -> None:
    assert words([Piece(" a  b ", expanded=True), Piece("c")], None) == [
        Word("a"),
        Word("b"),
        Word("c"),
    ]
    assert words([Piece("", expanded=True)], None) == []
    assert words([Piece("~", expanded=True)], "/h") == [Word("~")]
    assert words([Piece("~/a")], None) == [Word("", known=False)]


# ── options ─────────────────────────────────────────────────────────────────────────────────────


def words_of(line: str) -> list[Word]:
    return [Word(one.rstrip("…"), known="…" not in one, glob="*" in one) for one in line.split(" ")]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("a -r b", True),
        ("a -fr", True),
        ("a --recursive", True),
        ("a --rec", True),
        ("a --re=x", True),
        ("a --r", False),
        ("a -- -r", False),
        ("a -", False),
        ("a …", None),
        ("a -…", None),
        ("a b…", False),
        ("a *", None),
        ("a -*", None),
        ("a b*", False),
        ("-- *", False),
    ],
)
def test_an_option_is_found_as_getopt_finds_it(line: str, found: bool | None) -> None:
    assert has_option(words_of(line), ["-r", "--recursive"]) is found


def test_an_option_of_one_dash_and_a_word_stands_as_it_is() -> None:
    assert is_option("-delete", ["-delete"])
    assert not is_option("-deleted", ["-delete"])
    assert not is_option("-d", ["-delete"])


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("-o a b", ["a"]),
        ("-oa b", ["a"]),
        ("-so a", ["a"]),
        ("-o", [""]),
        ("--output a", ["a"]),
        ("--output=a --out b", ["a", "b"]),
        ("-fprint a -fprint=b", ["a", "b"]),
        ("-- -o a", []),
        ("a b", []),
    ],
)
def test_the_values_of_options_are_found(line: str, values: list[str]) -> None:
    wanted = ["-o", "--output", "-fprint"]
    assert [one.text for one in values_of(words_of(line), wanted)] == values


def test_operands_are_what_no_option_is() -> None:
    found = operands(words_of("a -b - -- -c"))
    assert [one.text for one in found] == ["a", "-", "-c"]
