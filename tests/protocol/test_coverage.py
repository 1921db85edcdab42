"""The list of the link's lines, the marks on the tests and the page about both say the same."""

from tests.protocol import page


def test_every_line_has_a_test_or_says_why_it_is_missing() -> None:
    assert page.problems(page.lines(), page.marks()) == []


def test_the_page_is_the_one_that_the_marks_make() -> None:
    fresh = page.page(page.lines(), page.marks())
    assert page.PAGE.read_text() == fresh, "run `python -m tests.protocol.page`"


def test_what_does_not_fit_is_said() -> None:
    listed = {"a": {"held": "", "unheld": "", "missing": "jobs", "both": "jobs"}}
    marked = {"held": ["t"], "both": ["t"], "other": ["t::x"]}
    assert page.problems(listed, marked) == [
        "'other' is no line of lines.json; t::x names it",
        "'unheld' has no test; mark one, or say in lines.json why it is missing",
        "'both' has a test and is said to be missing (jobs); take that away",
    ]
