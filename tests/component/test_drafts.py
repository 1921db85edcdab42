"""What was being typed, kept on the disk."""

import os
import stat
import time
from pathlib import Path

import pytest

from lembasd.device.paths import Paths
from lembasd.tui.drafts import KEPT_S, MAX_DRAFT_BYTES, Drafts


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(config=tmp_path / "c", state=tmp_path / "s", run=tmp_path / "r")


def kept(paths: Paths) -> list[Path]:
    return sorted((paths.state / "drafts").iterdir())


def test_each_session_and_each_directory_has_its_own(paths: Paths) -> None:
    drafts = Drafts(paths)
    drafts.save("ses_1", "/p", "of the session")
    drafts.save("", "/p", "of the directory\nin two lines")
    assert drafts.load("ses_1", "/q") == "of the session"
    assert drafts.load("", "/p") == "of the directory\nin two lines"
    assert drafts.load("", "/q") == ""
    assert {stat.S_IMODE(one.stat().st_mode) for one in kept(paths)} == {0o600}


def test_an_empty_draft_is_forgotten_and_so_is_one_that_is_too_long(paths: Paths) -> None:
    drafts = Drafts(paths)
    for text in (" \n", "x" * (MAX_DRAFT_BYTES + 1)):
        drafts.save("ses_1", "/p", "something")
        drafts.save("ses_1", "/p", text)
        assert kept(paths) == []


def test_a_draft_that_others_can_read_is_not_used(paths: Paths) -> None:
    drafts = Drafts(paths)
    drafts.save("ses_1", "/p", "something")
    kept(paths)[0].chmod(0o644)
    assert drafts.load("ses_1", "/p") == ""


def test_half_a_character_is_kept_as_far_as_it_can_be(paths: Paths) -> None:
    drafts = Drafts(paths)
    drafts.save("ses_1", "/p", "a\ud83d")
    assert drafts.load("ses_1", "/p") == "a?"


def test_a_disk_that_takes_nothing_ends_nothing(paths: Paths) -> None:
    paths.state.mkdir()
    (paths.state / "drafts").write_text("in the way")
    drafts = Drafts(paths)
    drafts.save("ses_1", "/p", "something")
    drafts.sweep()
    assert drafts.load("ses_1", "/p") == ""


def test_what_nobody_came_back_to_is_taken_away(paths: Paths) -> None:
    drafts = Drafts(paths)
    drafts.save("ses_1", "/p", "old")
    drafts.save("ses_2", "/p", "new")
    long_ago = time.time() - KEPT_S - 60
    os.utime(paths.state / "drafts" / "ses_1", (long_ago, long_ago))
    drafts.sweep()
    assert [one.name for one in kept(paths)] == ["ses_2"]
