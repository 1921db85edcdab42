"""What holds for every text: nothing but the change changes, and what is written down can be read back."""

import fnmatch
import re

from hypothesis import assume, given
from hypothesis import strategies as st

from lembasd.engine.native.core.diff import unified
from lembasd.engine.native.core.edit_match import Edited, edited
from lembasd.engine.native.core.line_endings import Body, Piece, plain
from lembasd.engine.native.core.line_window import LineWindow
from lembasd.engine.native.core.patch import parsed
from lembasd.engine.native.core.patch_apply import Applied, applied
from lembasd.engine.native.core.text_code import Decoder, NotText
from lembasd.engine.native.core.wildcard import segment_regex

endings = st.sampled_from(["\n", "\r\n"])
words = st.text(alphabet="ab \t“", max_size=3)
lines = st.lists(words, max_size=8)
mixed = st.lists(st.tuples(words, endings), max_size=8).map(
    lambda pairs: "".join(word + end for word, end in pairs)
)


@given(mixed, words, st.data())
def test_an_exact_edit_changes_its_piece_and_nothing_else(
    text: str, new: str, data: st.DataObject
) -> None:
    body = plain(text)
    assume(body)
    start = data.draw(st.integers(0, len(body) - 1))
    end = data.draw(st.integers(start + 1, len(body)))
    old = body[start:end]
    found = edited(text, old, new, "f")
    assume(isinstance(found, Edited) and found.step in ("exact", "line endings"))
    assert isinstance(found, Edited)
    at = body.index(old)
    assert plain(found.text) == body[:at] + new + body[at + len(old) :]
    # the lines before it, and those behind it, byte for byte
    before = body[:at].count("\n")
    after = body[at + len(old) :].count("\n")
    theirs, ours = re.findall(r"\r?\n", text), re.findall(r"\r?\n", found.text)
    assert ours[:before] == theirs[:before]
    assert ours[len(ours) - after :] == theirs[len(theirs) - after :]


@given(
    mixed, st.text(alphabet='ab\n “"', min_size=1, max_size=6), st.text(alphabet="ab\n", max_size=4)
)
def test_an_edit_never_changes_a_text_in_two_places(text: str, old: str, new: str) -> None:
    found = edited(text, old, new, "f")
    if isinstance(found, Edited):
        assert len(found.lines) == 1
        assert plain(found.text).count("\n") - plain(text).count("\n") in range(-9, 9)


@given(mixed)
def test_a_text_without_a_change_is_the_same(text: str) -> None:
    assert Body(text).with_pieces([]) == text
    assert Body(text).with_text(text) == text
    assert Body(text).with_pieces([Piece(0, 0, "")]) == text


@given(lines, lines, st.booleans(), st.booleans())
def test_a_diff_makes_the_new_text_of_the_old_one(
    old: list[str], new: list[str], old_end: bool, new_end: bool
) -> None:
    before = "\n".join(old) + ("\n" if old_end else "")
    after = "\n".join(new) + ("\n" if new_end else "")
    assume(before != after)
    (one,) = parsed(unified(before, after, "f"))
    found = applied(before, one.hunks, "f")
    # (a hunk of empty lines alone is refused: it says nothing of where it stands)
    assume(isinstance(found, Applied))
    assert isinstance(found, Applied)
    assert found.text == after


@given(st.lists(st.binary(min_size=4, max_size=9), max_size=5))
def test_bytes_go_back_as_they_came(pieces: list[bytes]) -> None:
    decoder = Decoder()
    try:
        for piece in pieces:
            decoder.feed(piece)
        for _ in decoder.finish():
            pass
    except NotText:
        return
    assert decoder.code.encode("".join(decoder.texts)) == b"".join(pieces)


@given(
    st.lists(st.text(alphabet="ab\r\n", max_size=6), max_size=6),
    st.integers(1, 6),
    st.integers(1, 6),
)
def test_a_window_shows_the_same_lines_however_the_text_comes(
    pieces: list[str], offset: int, limit: int
) -> None:
    window = LineWindow(offset, limit, 100)
    for piece in pieces:
        window.feed(piece)
    text = "".join(pieces)
    every = text.removesuffix("\n").split("\n") if text else []
    if text == "\n":
        every = [""]
    wanted = [line.removesuffix("\r") for line in every[offset - 1 : offset - 1 + limit]]
    assert (window.finish(), window.lines) == (len(every), wanted)


@given(st.text(alphabet="ab*?", max_size=8), st.text(alphabet="ab", min_size=1, max_size=10))
def test_wildcards_match_as_a_shells_do(pattern: str, name: str) -> None:
    ours = re.fullmatch(segment_regex(pattern), name) is not None
    assert ours == fnmatch.fnmatchcase(name, pattern)
