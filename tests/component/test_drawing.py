"""Entries as lines."""

from textual.strip import Strip

from lembasd.tui.core.entries import Reply
from lembasd.tui.drawing.entries import MAX_BLOCKS_AT_ONCE, Drawing


def test_a_long_reply_is_drawn_some_blocks_a_look_and_stays_as_it_is_between() -> None:
    reply = Reply(number=1)
    count = 2 * MAX_BLOCKS_AT_ONCE + 3
    reply.add("\n\n".join(f"Paragraph {number}" for number in range(count)) + "\n")
    drawing = Drawing(reply, 40)
    seen: list[list[Strip]] = []
    for _ in range(3):
        seen.append(list(drawing.lines(opened=False)))
        assert drawing.lines(opened=False) == seen[-1]
        drawing.go_on()
    assert not drawing.is_behind
    assert [len(lines) for lines in seen] == [
        2 * MAX_BLOCKS_AT_ONCE - 1,
        4 * MAX_BLOCKS_AT_ONCE - 1,
        2 * count - 1,
    ]
    assert seen[-1][-1].text.strip() == f"Paragraph {count - 1}"


def test_only_what_was_not_finished_is_drawn_again() -> None:
    reply = Reply(number=1)
    reply.add("One.\n\nTwo\nmo")
    drawing = Drawing(reply, 40)
    first = drawing.lines(opened=False)[0]
    reply.add("re.")
    lines = drawing.lines(opened=False)
    assert lines[0] is first
    assert [line.text.strip() for line in lines] == ["One.", "", "Two more."]
