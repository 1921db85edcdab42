"""What a model wrote as arguments, read, respelled or known to be cut off."""

from typing import Any

import pytest

from lembasd.engine.native.core.call_arguments import MAX_ARGUMENTS_CHARS, Arguments, read


@pytest.mark.parametrize("text", ["", "  ", "null", "{}"])
def test_nothing_is_a_call_without_arguments(text: str) -> None:
    assert read(text) == Arguments(({},))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": "x\ny\tz"}', {"a": "x\ny\tz"}),
        ('{"a": "\\d+ and C:\\path"}', {"a": "\\d+ and C:\\path"}),
        ('{"a": "\\u12 is no escape"}', {"a": "\\u12 is no escape"}),
        ('{"a": [1, 2,], "b": 3,\n}', {"a": [1, 2], "b": 3}),
        ('{"a": ",}"}', {"a": ",}"}),
        ('{"a": "\\d,]",}', {"a": "\\d,]"}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ('{"a": 1} {"a": 1}', {"a": 1}),
        ('{"a": "\\n of one", "b": "\\d of another"}', {"a": "\n of one", "b": "\\d of another"}),
    ],
)
def test_spelling_that_json_does_not_allow_is_mended(text: str, value: dict[str, Any]) -> None:
    assert read(text).values == (value,)


def test_different_objects_in_a_row_are_calls_of_their_own() -> None:
    assert read('{"a": 1}{"a": 2}{"a": 1}').values == ({"a": 1}, {"a": 2})


@pytest.mark.parametrize(
    "text",
    [
        '{"command": "rm -rf /home/me/pro',
        '{"a": 1',
        '{"a": "b", ',
        '{"a": [1, {"b": 2}',
        '{"a": "b\\',
        '{"a": "b\\"',
        '{"a":' * 100_000,
    ],
)
def test_what_is_cut_off_is_never_completed(text: str) -> None:
    assert read(text) == Arguments(problem="cut")


@pytest.mark.parametrize(
    "text",
    [
        "prose",
        "[1]",
        "7",
        "{'a': 1}",
        '{"a": 1} and so on',
        '{"a": 1}}',
        '{"a": "C:\\proj\\new"}',
        "{}" * 40 + "x",
        "x" * (MAX_ARGUMENTS_CHARS + 1),
        # half a character
        r'{"path": "\ud83d"}',
        r'{"path": "a", "\ude00": {"a": ["b"]}}',
    ],
)
def test_what_needs_a_guess_is_wrong(text: str) -> None:
    assert read(text) == Arguments(problem="wrong")
