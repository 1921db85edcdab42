"""Ages and sizes as a person writes them."""

import pytest

from lembasd.protocol.amounts import read_age, read_size, say_age, say_size, write_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30d", 2_592_000), ("12h", 43_200), ("5 m", 300), ("2w", 1_209_600), ("1.5d", 129_600)],
)
def test_an_age_is_read(text: str, seconds: float) -> None:
    assert read_age(text) == seconds


def test_never_is_an_age() -> None:
    assert (read_age("never"), say_age(None)) == (None, "never")


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "0d", "30 years", "999999999d", "1e3d"])
def test_what_is_no_age_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="an age, as 30d, 12h or never"):
        read_age(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [("10GB", 10**10), ("500 mb", 5 * 10**8), ("1.5kB", 1500), ("7 B", 7), ("2TB", 2 * 10**12)],
)
def test_a_size_is_read(text: str, count: int) -> None:
    assert read_size(text) == count


@pytest.mark.parametrize("text", ["", "10", "GB", "-1GB", "10 GiB", "ten MB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a size, as 10GB or 500MB"):
        read_size(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2_592_000, "30d"), (43_200, "12h"), (129_600, "36h"), (300, "5m"), (90, "1.5m")],
)
def test_an_age_is_said_as_it_is_read(seconds: float, text: str) -> None:
    assert (say_age(seconds), read_age(text)) == (text, seconds)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1500, "1.5 kB"),
        (123_456, "123 kB"),
        (999_999, "1000 kB"),
        (10**10, "10 GB"),
        (5 * 10**15, "5000 TB"),
    ],
)
def test_a_size_is_said_for_a_person(count: int, text: str) -> None:
    assert say_size(count) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0B"), (1_234_567, "1234567B"), (1_500_000, "1.5MB"), (10**10, "10GB"), (10**12, "1TB")],
)
def test_a_size_is_written_as_it_is_read(count: int, text: str) -> None:
    assert (write_size(count), read_size(text)) == (text, count)
