"""Server-sent events from bytes."""

import pytest

from lembasd.engine.native.core.sse import MAX_EVENT_BYTES, EventStream, EventTooLong


def events(*chunks: bytes) -> list[bytes]:
    stream = EventStream()
    found = [event for chunk in chunks for event in stream.feed(chunk)]
    return found + stream.end()


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_each_line_ending_ends_a_line(end: bytes) -> None:
    assert events(b"data: one" + end + end + b"data: two" + end + end) == [b"one", b"two"]


def test_a_crlf_cut_in_its_middle_is_one_line_end() -> None:
    assert events(b"data: one\r", b"\ndata: two\r", b"\n\r", b"\n") == [b"one\ntwo"]


def test_a_cut_after_a_cr_swallows_nothing_but_its_lf() -> None:
    assert events(b"data: one\r", b"data: two\r", b"\r") == [b"one\ntwo"]


def test_several_data_lines_are_one_event_of_several_lines() -> None:
    assert events(b"data: one\ndata\ndata: two\n\n") == [b"one\n\ntwo"]


def test_one_space_after_the_colon_is_no_part_of_the_data() -> None:
    assert events(b"data:one\n\ndata:  two\n\n") == [b"one", b" two"]


def test_comments_and_other_fields_say_nothing() -> None:
    raw = b": keep-alive\n\nevent: chunk\nid: 7\nretry: 10\ndata: one\nnonsense\n\n"
    assert events(raw) == [b"one"]


def test_an_event_without_data_is_none() -> None:
    assert events(b"event: ping\n\n\n\n") == []


def test_an_empty_data_line_is_an_empty_event() -> None:
    assert events(b"data:\n\n") == [b""]


def test_a_byte_order_mark_at_the_start_is_skipped_however_it_is_cut() -> None:
    assert events(b"\xef", b"\xbb", b"\xbfdata: one\n\n") == [b"one"]


def test_a_byte_order_mark_later_is_data() -> None:
    assert events(b"data: one\n\n", b"data: \xef\xbb\xbftwo\n\n") == [b"one", b"\xef\xbb\xbftwo"]


def test_what_a_server_left_without_its_last_empty_line_is_still_read() -> None:
    assert events(b"data: one\n\ndata: two") == [b"one", b"two"]
    assert events(b"data: one\n") == [b"one"]


def test_nothing_is_left_at_the_end_of_a_whole_stream() -> None:
    assert events(b"data: one\n\n: bye") == [b"one"]


def test_a_line_without_end_is_refused() -> None:
    stream = EventStream()
    with pytest.raises(EventTooLong):
        stream.feed(b"data: " + b"x" * MAX_EVENT_BYTES)


def test_an_event_without_end_is_refused() -> None:
    stream = EventStream()
    line = b"data: " + b"x" * (MAX_EVENT_BYTES // 2) + b"\n"
    with pytest.raises(EventTooLong):
        stream.feed(line * 3)
