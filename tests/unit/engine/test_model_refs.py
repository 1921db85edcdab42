"""Which model a name means."""

from typing import Any

import pytest

from lembasd.engine.native.core.model_refs import is_list, resolve

LISTED: Any = {
    "data": [
        {"id": "deepseek/flash"},
        {"id": "plain"},
        {"id": "a/twin"},
        {"id": "b/twin"},
        {"id": 5},
        "odd",
    ]
}


@pytest.mark.parametrize(
    ("ref", "served"),
    [
        ("plain", "plain"),
        ("deepseek/flash", "deepseek/flash"),
        ("moria/plain", "plain"),
        ("moria/deepseek/flash", "deepseek/flash"),
        ("moria/flash", "deepseek/flash"),
        ("moria/twin", None),
        ("moria/", None),
        ("flash", None),
        ("gondor/plain", None),
        ("", None),
    ],
)
def test_a_model_has_its_served_name_and_those_of_earlier_versions(
    ref: str, served: str | None
) -> None:
    found = resolve(LISTED, ref, "moria")
    assert (None if found is None else found.id) == served


def test_without_a_connection_there_is_no_prefix() -> None:
    assert resolve(LISTED, "moria/plain", None) is None


@pytest.mark.parametrize(("said", "is_one"), [(LISTED, True), (None, False), ({"data": 5}, False)])
def test_a_list_is_what_has_entries(said: Any, is_one: bool) -> None:
    assert is_list(said) is is_one
