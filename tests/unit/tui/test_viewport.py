"""What of a long list is on the screen."""

from collections.abc import Callable

from lembasd.tui.core.viewport import Piece, Viewport


def of(*heights: int) -> tuple[int, Callable[[int], int]]:
    return len(heights), lambda index: heights[index]


def test_a_new_view_shows_the_end() -> None:
    count, height = of(5, 3, 4)
    assert Viewport().pieces(count, 6, height) == [Piece(1, 1, 2), Piece(2, 0, 4)]


def test_a_short_list_begins_at_the_top() -> None:
    count, height = of(2, 1)
    assert Viewport().pieces(count, 6, height) == [Piece(0, 0, 2), Piece(1, 0, 1)]


def test_an_empty_list_shows_nothing() -> None:
    view = Viewport()
    count, height = of()
    assert view.pieces(count, 5, height) == []
    view.scroll(-3, count, 5, height)
    assert (view.pieces(count, 5, height), view.place(count)) == ([], (0.0, 1.0))


def test_only_what_is_seen_is_measured() -> None:
    measured: set[int] = set()

    def height(index: int) -> int:
        measured.add(index)
        return 4

    view = Viewport()
    view.pieces(5000, 8, height)
    view.scroll(-6, 5000, 8, height)
    view.pieces(5000, 8, height)
    assert len(measured) <= 5


def test_scrolling_up_stays_there_when_something_is_added() -> None:
    view = Viewport()
    count, height = of(5, 5, 5)
    view.pieces(count, 5, height)
    view.scroll(-3, count, 5, height)
    assert view.pieces(count, 5, height) == [Piece(1, 2, 3), Piece(2, 0, 2)]
    count, height = of(5, 5, 5, 5)
    assert (view.pieces(count, 5, height), view.follows) == (
        [Piece(1, 2, 3), Piece(2, 0, 2)],
        False,
    )


def test_at_the_end_it_follows_again() -> None:
    view = Viewport()
    count, height = of(5, 5, 5)
    view.pieces(count, 5, height)
    view.scroll(-3, count, 5, height)
    view.scroll(40, count, 5, height)
    assert (view.follows, view.pieces(count, 5, height)) == (True, [Piece(2, 0, 5)])


def test_beyond_the_start_it_stops() -> None:
    view = Viewport()
    count, height = of(5, 5, 5)
    view.pieces(count, 5, height)
    view.scroll(-400, count, 5, height)
    assert view.top == (0, 0)


def test_the_start_and_the_end_are_one_step_away() -> None:
    view = Viewport()
    count, height = of(5, 5, 5)
    view.to_start()
    assert view.pieces(count, 5, height) == [Piece(0, 0, 5)]
    view.to_end()
    assert view.pieces(count, 5, height) == [Piece(2, 0, 5)]


def test_an_item_without_lines_is_passed_over() -> None:
    view = Viewport()
    view.to_start()
    count, height = of(0, 2, 0, 2)
    assert view.pieces(count, 4, height) == [Piece(1, 0, 2), Piece(3, 0, 2)]


def test_items_that_were_taken_away_leave_the_place_at_what_is_left() -> None:
    view = Viewport()
    count, height = of(5, 5, 5)
    view.to_start()
    view.scroll(8, count, 5, height)
    count, height = of(3)
    assert view.pieces(count, 5, height) == [Piece(0, 0, 3)]


def test_an_item_is_brought_on_the_screen_and_one_that_is_there_moves_nothing() -> None:
    view = Viewport()
    count, height = of(5, 5, 5, 5)
    view.show(1, count, 6, height)
    assert view.top == (1, 0)
    view.show(1, count, 6, height)
    assert view.top == (1, 0)


def test_about_where_it_is() -> None:
    view = Viewport()
    count, height = of(5, 5, 5, 5)
    view.pieces(count, 5, height)
    assert view.place(count) == (0.75, 0.25)
