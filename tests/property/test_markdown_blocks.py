"""A growing Markdown text as blocks, however it is cut."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lembasd.tui.core.blocks import Block, Blocks


def blocks(*pieces: str) -> list[Block]:
    made = Blocks()
    for piece in pieces:
        made.feed(piece)
    return made.all()


@given(st.text(alphabet="ab`~- \n", max_size=80), st.lists(st.integers(0, 80), max_size=6))
def test_the_blocks_are_the_same_however_the_text_was_cut(text: str, cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(text)]
    pieces = [text[a:b] for a, b in pairwise(places)]
    assert blocks(*pieces) == blocks(text)
