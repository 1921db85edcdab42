"""What the model has seen is named, not shown again."""

from lembasd.engine.native.core.shown import MIN_CHARS, Shown
from lembasd.store.records import Seen


def seen(first: int, last: int, digest: str = "d", path: str = "a") -> Seen:
    return Seen(path, digest, first, last)


def read(shown: Shown, lines: Seen) -> str | None:
    return shown.stub("read", {}, "text", lines)


def test_an_unchanged_read_or_a_part_of_one_is_named() -> None:
    shown = Shown()
    assert read(shown, seen(5, 20)) is None
    shown.add("read", {}, "text", seen(5, 20), "#0001")
    for lines in (seen(5, 20), seen(5, 5), seen(7, 19)):
        assert read(shown, lines) == "[unchanged since #0001, which shows lines 5-20]"


def test_what_was_not_shown_is_read() -> None:
    shown = Shown()
    shown.add("read", {}, "text", seen(5, 20), "#0001")
    for lines in (seen(4, 20), seen(5, 21), seen(30, 40), seen(5, 20, path="./a")):
        assert read(shown, lines) is None


def test_a_changed_file_is_read_again_and_its_old_lines_count_no_more() -> None:
    shown = Shown()
    shown.add("read", {}, "text", seen(1, 20), "#0001")
    assert read(shown, seen(1, 20, "e")) is None
    shown.add("read", {}, "text", seen(1, 5, "e"), "#0002")
    assert read(shown, seen(2, 3, "e")) == "[unchanged since #0002, which shows lines 1-5]"
    assert read(shown, seen(2, 3)) is None


def test_the_same_listing_is_named_by_its_arguments_and_its_result() -> None:
    shown, text = Shown(), "x" * MIN_CHARS
    args = {"path": "a", "depth": 1}
    shown.add("list", args, text, None, "#0003")
    assert shown.stub("list", {"depth": 1, "path": "a"}, text, None) == "[the same as #0003]"
    assert shown.stub("list", {"path": "b"}, text, None) is None
    assert shown.stub("list", args, text + "y", None) is None
    assert shown.stub("bash", args, text, None) is None


def test_a_short_listing_is_its_own_stub() -> None:
    shown = Shown()
    shown.add("list", {}, "short", None, "#0001")
    assert shown.stub("list", {}, "short", None) is None


def test_after_a_compaction_nothing_was_seen() -> None:
    shown = Shown()
    shown.add("read", {}, "text", seen(1, 5), "#0001")
    assert shown.table() == [("a", 1, 5, "d")]
    shown.clear()
    assert (shown.table(), read(shown, seen(1, 5))) == ([], None)
