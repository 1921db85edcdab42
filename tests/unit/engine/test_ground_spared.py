"""What a session was sent lies among the service's own, and is the session's to use."""

import pytest
from msgspec.structs import replace

from lembasd.engine.native.core.ground import ground

STATE = "/home/ann/.local/state/lembas"
OWN = f"{STATE}/attachments/ses_1"
GROUND = replace(ground("/home/ann/p", "/home/ann", [STATE], {}), spared=OWN)


@pytest.mark.parametrize("path", [f"{OWN}/a.md", f"{OWN}/*.md", f"{OWN}/d/x"])
def test_what_is_in_it_has_no_protection(path: str) -> None:
    assert GROUND.access(path) is None


@pytest.mark.parametrize(
    "path", [OWN, f"{OWN}x/a", f"{STATE}/attachments/ses_2/a", f"{STATE}/*/ses_1/a"]
)
def test_all_around_it_is_protected(path: str) -> None:
    kept = GROUND.access(path)
    assert kept is not None
    assert kept.access == "none"
