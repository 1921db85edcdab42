"""What was used lately below a directory."""

import os
from pathlib import Path

import pytest

from lembasd.device.paths import Paths
from lembasd.store import recent_files
from lembasd.store.core.frecency import HALF_LIFE_S, MAX_NAMES, Use, used


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = Paths(config=tmp_path / "c", state=tmp_path / "s", run=tmp_path / "r")
    found.make()
    return found


def test_each_use_counts_and_half_of_it_three_days_later() -> None:
    uses = used({}, ["a"], 0.0)
    uses = used(uses, ["a", "b"], HALF_LIFE_S)
    assert uses == {"a": Use(1.5, HALF_LIFE_S), "b": Use(1.0, HALF_LIFE_S)}
    assert uses["a"].now(2 * HALF_LIFE_S) == 0.75
    assert uses["a"].now(0.0) == 1.5  # a clock that went back


def test_of_too_many_names_those_used_least_are_forgotten() -> None:
    uses = used({}, ["often"], 0.0)
    uses = used(uses, ["often", *(str(number) for number in range(MAX_NAMES))], 1.0)
    assert len(uses) == MAX_NAMES
    assert next(iter(uses)) == "often"
    assert "99" not in uses


def test_uses_are_kept_for_each_root_and_merged(paths: Paths) -> None:
    recent_files.note(paths, "/p", ["a", "b"], 0.0)
    recent_files.note(paths, "/p", ["a"], 0.0)
    recent_files.note(paths, "/q", ["c"], 0.0)
    assert recent_files.weights(paths, "/p", 0.0) == {"a": 2.0, "b": 1.0}
    assert recent_files.weights(paths, "/q", HALF_LIFE_S) == {"c": 0.5}
    assert recent_files.weights(paths, "/r", 0.0) == {}
    kept = list((paths.state / "recent").glob("*.json"))
    assert {one.stat().st_mode & 0o777 for one in kept} == {0o600}


def test_a_file_that_cannot_be_read_is_begun_anew(paths: Paths) -> None:
    recent_files.note(paths, "/p", ["a"], 0.0)
    (kept,) = (paths.state / "recent").glob("*.json")
    kept.write_text("{")
    assert recent_files.weights(paths, "/p", 0.0) == {}
    kept.write_text('{"root":"/other","files":{"x":[1.0,0.0]}}')
    assert recent_files.weights(paths, "/p", 0.0) == {}
    recent_files.note(paths, "/p", ["b"], 0.0)
    assert recent_files.weights(paths, "/p", 0.0) == {"b": 1.0}


def test_of_too_many_roots_those_used_least_lately_are_forgotten(paths: Paths) -> None:
    assert recent_files.prune(paths) == 0
    for number in range(4):
        recent_files.note(paths, f"/{number}", ["a"], 0.0)
    for one in (paths.state / "recent").glob("*.json"):
        root = int(one.read_text()[10])
        os.utime(one, (root, root))
    assert recent_files.prune(paths, 2) == 2
    left = [number for number in range(4) if recent_files.weights(paths, f"/{number}", 0.0)]
    assert left == [2, 3]
