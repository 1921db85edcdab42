"""docs/operations.md says what the code does."""

import re
from pathlib import Path
from typing import Final

from tests.support.log_events import events

_PAGE: Final = Path(__file__).parents[2] / "docs" / "operations.md"
_ROW: Final = re.compile(r"^\| `(\w+)` \| (debug|info|warning|error) \| (.*) \| (\S.*) \|$", re.M)


def test_the_page_lists_every_event_with_its_level_and_fields() -> None:
    page = {
        name: (level, re.findall(r"`(\w+)`", fields))
        for name, level, fields, _means in _ROW.findall(_PAGE.read_text(encoding="utf-8"))
    }
    code = {name: (*sorted(one.levels), sorted(one.fields)) for name, one in events().items()}
    assert page == code


def test_events_are_snake_case_and_errors_and_sessions_have_the_promised_names() -> None:
    for name, one in events().items():
        assert re.fullmatch(r"[a-z]+(_[a-z]+)+", name)
        assert not one.fields & {"exception", "message", "session", "turn", "terminal"}, name
