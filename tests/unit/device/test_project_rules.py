"""A project's own permission rules, as they are now."""

import os
from pathlib import Path

import pytest

from lembasd.device.project_rules import FILE, ProjectRules
from lembasd.protocol.permission import Rule


def write(root: Path, text: str) -> Path:
    path = root / FILE
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    # another time than whatever was read before
    later = path.stat().st_mtime_ns + 1_000_000
    os.utime(path, ns=(later, later))
    return path


def test_a_project_without_the_file_has_no_rules(tmp_path: Path) -> None:
    rules = ProjectRules(tmp_path)
    assert rules.current() == []
    assert rules.problem is None


def test_the_rules_are_read_again_when_the_file_has_changed(tmp_path: Path) -> None:
    rules = ProjectRules(tmp_path)
    path = write(tmp_path, "permission:\n- allow: bash\n  command: make\nother: 1\n")
    assert rules.current() == [Rule("allow", "bash", command=("make",))]
    write(tmp_path, "permission: [{deny: read, path: .env}]\n")
    assert rules.current() == [Rule("deny", "read", path=".env")]
    assert rules.current() is rules.current()
    path.unlink()
    assert rules.current() == []
    assert rules.problem is None


@pytest.mark.parametrize("text", ["permission: 1", "permission: [1]", "permission: [{", "- a"])
def test_a_broken_file_keeps_its_last_good_rules_and_says_why(tmp_path: Path, text: str) -> None:
    rules = ProjectRules(tmp_path)
    write(tmp_path, "permission: [{deny: read}]\n")
    assert rules.current() == [Rule("deny", "read")]
    path = write(tmp_path, text)
    assert rules.current() == [Rule("deny", "read")]
    assert rules.problem is not None
    assert str(path) in rules.problem
    write(tmp_path, "")
    assert rules.current() == []
    assert rules.problem is None
