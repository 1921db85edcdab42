"""However output is cut into pieces, its text is the same."""

from hypothesis import given
from hypothesis import strategies as st

from lembasd.engine.native.core.console_text import ConsoleText
from lembasd.engine.native.core.live_output import SHOWN_CHARS, LiveOutput

_bits = st.sampled_from(
    [
        *("a", "word", "é", "🦀", "\n", "\r", "\r\n", "\b", "\t", "\x07", "\x9b", "["),
        *(
            "\x1b",
            "\x1b[31m",
            "\x1b[K",
            "\x1b[2K",
            "\x1b[G",
            "\x1b(B",
            "\x1b]0;t\x07",
            "\x1bP1\x1b\\",
        ),
    ]
).map(str.encode) | st.sampled_from([b"\xff", b"\xf0\x9f"])
_said = st.lists(_bits, max_size=40).map(b"".join)
_cuts = st.lists(st.integers(min_value=1, max_value=7), max_size=60)


def pieces(said: bytes, cuts: list[int]) -> list[bytes]:
    found, at = [], 0
    for cut in cuts:
        found.append(said[at : at + cut])
        at += cut
    return [*found, said[at:]]


def text_of(parts: list[bytes]) -> str:
    text = ConsoleText()
    return "".join([text.feed(part) for part in parts] + [text.finish()])


@given(_said, _cuts)
def test_pieces_make_no_difference(said: bytes, cuts: list[int]) -> None:
    text = text_of([said])
    assert text_of(pieces(said, cuts)) == text
    assert not any((one < " " and one not in "\t\n") or "\x7f" <= one < "\xa0" for one in text)


@given(_said, _cuts, st.integers(min_value=2, max_value=30))
def test_head_and_tail_are_those_of_the_whole(said: bytes, cuts: list[int], bound: int) -> None:
    output = LiveOutput(max_chars=bound)
    for part in pieces(said, cuts):
        output.feed(part)
        shown = output.look(0.0)
        assert shown is None or len(shown) <= SHOWN_CHARS
    whole, half = text_of([said]), bound // 2
    if len(whole) <= 2 * half:
        expected = whole
    else:
        left = len(whole) - 2 * half
        expected = f"{whole[:half]}\n[{left} characters left out]\n{whole[-half:]}"
    assert output.finish() == expected
