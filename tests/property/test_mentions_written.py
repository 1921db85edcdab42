"""A path that is written as a picker writes it is read as it was."""

from hypothesis import given
from hypothesis import strategies as st

from lembasd.engine.native.core.mentions import Mention, mentions

_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40)


def written(path: str) -> str:
    """With a backslash before every mark, which is more than is needed and always read."""
    return "".join(
        f"\\{char}" if char.isspace() or not (char.isalnum() or char == "_") else char
        for char in path
    )


@given(_NAMES, st.none() | st.tuples(st.integers(1, 10**8), st.integers(1, 10**8)))
def test_a_written_path_is_the_one_that_is_read(path: str, lines: tuple[int, int] | None) -> None:
    text = f"see @{written(path)}" + ("" if lines is None else f"#{lines[0]}-{lines[1]}")
    expected = Mention(path) if lines is None else Mention(path, min(lines), max(lines))
    assert [readings[0] for readings in mentions(f"{text} then")] == [expected]


@given(st.text(max_size=200))
def test_any_text_is_read_and_every_reading_is_a_beginning_of_the_first(text: str) -> None:
    for readings in mentions(text):
        assert 1 <= len(readings) <= 5
        for one in readings:
            assert one.first is None or one.first >= 1
            assert one.last is None or (one.first is not None and one.first <= one.last)
