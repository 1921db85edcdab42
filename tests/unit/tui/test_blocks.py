"""A growing Markdown text as blocks."""

import pytest

from lembasd.tui.core.blocks import MAX_CODE_LINES, MAX_PROSE_LINES, Block, Blocks


def blocks(*pieces: str) -> list[Block]:
    made = Blocks()
    for piece in pieces:
        made.feed(piece)
    return made.all()


def test_an_empty_line_ends_a_block_when_something_at_the_margin_follows() -> None:
    assert blocks("one\nmore\n\ntwo\n") == [Block("one\nmore"), Block("two")]


def test_what_belongs_to_a_list_stays_with_it() -> None:
    assert blocks("- one\n\n  more of it\n- two\n") == [Block("- one\n\n  more of it\n- two")]


def test_code_is_a_block_with_its_language_and_may_not_be_finished() -> None:
    made = Blocks()
    made.feed("see\n```Python title\nx = 1\n\ny")
    assert made.finished == [Block("see")]
    assert made.last == Block("x = 1\n\ny", "python")
    made.feed(" = 2\n```\nafter\n")
    assert made.all() == [Block("see"), Block("x = 1\n\ny = 2", "python"), Block("after")]


def test_only_the_own_fence_closes_code() -> None:
    assert blocks("~~~~\n```\n~~~\n~~~~\n") == [Block("```\n~~~", "")]


def test_an_empty_listing_is_no_block() -> None:
    assert blocks("```\n```\n") == []
    assert blocks("```\n") == []


def test_a_long_listing_goes_on_in_the_next_block() -> None:
    lines = [str(number) for number in range(MAX_CODE_LINES + 1)]
    first, second = blocks("```c\n" + "\n".join(lines) + "\n```\n")
    assert first == Block("\n".join(lines[:-1]), "c")
    assert second == Block(lines[-1], "c", goes_on=True)


def test_a_listing_that_ends_with_its_block_leaves_nothing_behind() -> None:
    lines = "x\n" * MAX_CODE_LINES
    assert len(blocks(f"```\n{lines}```\nafter")) == 2


def test_long_prose_without_an_empty_line_is_cut() -> None:
    assert len(blocks("a line\n" * (MAX_PROSE_LINES + 5))) == 2


@pytest.mark.parametrize("line", ["``", "```py", "  ~~~"])
def test_a_line_that_may_become_a_fence_is_not_shown_yet(line: str) -> None:
    assert blocks("text\n" + line) == [Block("text")]


def test_within_code_a_line_that_cannot_close_it_is_shown() -> None:
    assert blocks("```\nx\n~~")[-1] == Block("x\n~~", "")
    assert blocks("```\nx\n``")[-1] == Block("x", "")


def test_blank_text_is_no_block() -> None:
    assert blocks("\n \n") == []
