"""What is being typed."""

import pytest

from lembasd.tui.core.composing import MAX_PATH_CHARS, Recall, Word, mention, pasted_image, word


@pytest.mark.parametrize(
    ("before", "found"),
    [
        ("", None),
        ("words", None),
        ("/", Word("command", "", 0)),
        ("/mo", Word("command", "mo", 0)),
        ("/mode plan", None),
        ("see /mo", None),
        ("@", Word("mention", "", 0)),
        ("read @src/ma", Word("mention", "src/ma", 5)),
        ("read @my\\ no", Word("mention", "my no", 5)),
        ("line\n@a", Word("mention", "a", 5)),
        ("me@example.org", None),
        ("@a.py and", None),
    ],
)
def test_the_word_before_the_cursor_that_can_be_completed(before: str, found: Word | None) -> None:
    assert word(before) == found


def test_a_path_is_written_as_the_service_reads_it() -> None:
    assert mention("my notes#1.md", directory=False) == "@my\\ notes\\#1.md "
    assert mention("src", directory=True) == "@src/"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/tmp/a.png", "/tmp/a.png"),
        (" '/tmp/my pictures/a.JPG'\n", "/tmp/my pictures/a.JPG"),
        ('"/tmp/a.webp"', "/tmp/a.webp"),
        ("/tmp/my\\ a.gif", "/tmp/my a.gif"),
        ("file:///tmp/my%20a.png", "/tmp/my a.png"),
        ("~/a.png", "~/a.png"),
        ("./a.png", "./a.png"),
        ("a.png", None),
        ("/tmp/a.txt", None),
        ("look at /tmp/a.png", None),
        ("/tmp/a.png\n/tmp/b.png", None),
        ("", None),
        ("/" + "a" * MAX_PATH_CHARS + ".png", None),
    ],
)
def test_a_pasted_path_of_an_image_is_told_from_a_text(text: str, path: str | None) -> None:
    assert pasted_image(text) == path


def test_what_was_sent_comes_back_and_in_the_end_the_draft() -> None:
    recall = Recall()
    for text in ("one", "two", "two", " "):
        recall.sent(text)
    assert [recall.earlier("draft"), recall.earlier("two"), recall.earlier("one")] == [
        "two",
        "one",
        None,
    ]
    assert [recall.later(), recall.later(), recall.later()] == ["two", "draft", None]


def test_nothing_was_sent_yet() -> None:
    recall = Recall()
    assert (recall.earlier("draft"), recall.later()) == (None, None)


def test_what_was_sent_in_the_session_before_comes_back_too() -> None:
    recall = Recall()
    recall.sent("elsewhere")
    recall.begins_with(["one", "two"])
    assert [recall.earlier(""), recall.earlier(""), recall.earlier("")] == ["two", "one", None]
