"""The screen as a window on a list of any heights."""

from hypothesis import given
from hypothesis import strategies as st

from lembasd.tui.core.viewport import Viewport


def lines(view: Viewport, heights: list[int], rows: int) -> list[tuple[int, int]]:
    """Each line that is seen: its item, and which line of it."""
    pieces = view.pieces(len(heights), rows, heights.__getitem__)
    return [(one.index, one.first + at) for one in pieces for at in range(one.count)]


@given(
    st.lists(st.integers(0, 6), max_size=12),
    st.integers(1, 9),
    st.lists(st.integers(-12, 12), max_size=8),
)
def test_the_screen_is_a_window_on_the_lines_whatever_was_scrolled(
    heights: list[int], rows: int, moves: list[int]
) -> None:
    whole = [(item, line) for item, height in enumerate(heights) for line in range(height)]
    view = Viewport()
    lines(view, heights, rows)
    at = max(0, len(whole) - rows)
    for move in moves:
        view.scroll(move, len(heights), rows, heights.__getitem__)
        at = min(max(0, at + move), max(0, len(whole) - rows))
        assert lines(view, heights, rows) == whole[at : at + rows]
