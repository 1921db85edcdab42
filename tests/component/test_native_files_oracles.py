"""The file tools on random files: patches held against `git diff`, and every change against what is kept of it."""

import random
import re
import stat
import subprocess
from pathlib import Path

import pytest

from tests.support.desk import Desk

LINES = ["a", "b", "", "  x", "def f():", "}", "    return", "x = 1", "é", "\tq"]
NAMES = ["f", "sub/g", "sp ace", "é", 'q"x', "tab\t", "-d", "x/y/z"]


def lines(rng: random.Random) -> list[str]:
    return [rng.choice(LINES) + rng.choice(["", "1", "2", "3"]) for _ in range(rng.randint(2, 30))]


def changed(rng: random.Random, old: list[str]) -> list[str]:
    new = [*old]
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(new)) if new else 0
        match rng.choice("+-!") if new else "+":
            case "+":
                new.insert(at, rng.choice(LINES) + "new")
            case "-":
                del new[at]
            case "!":
                new[at] += "!"
    return new


def put(path: Path, text: list[str], ending: str, *, is_closed: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((ending.join(text) + (ending if is_closed and text else "")).encode())


def contents(root: Path) -> dict[str, bytes]:
    return {
        str(one.relative_to(root)): one.read_bytes() for one in root.rglob("*") if one.is_file()
    }


def difference(root: Path, rng: random.Random) -> str:
    """The diff of the folders `a` and `b`, as if they were one folder before and after."""
    how = [f"-U{rng.choice([1, 3, 8])}", rng.choice(["-M", "--no-renames"])]
    command = ["git", "-c", "core.autocrlf=false", "diff", "--no-index", *how, "a", "b"]
    said = subprocess.run(command, cwd=root, capture_output=True, check=False).stdout.decode()
    said = re.sub(r'(?m)^(rename (?:from|to) "?)[ab]/', r"\1", said)
    said = re.sub(r'(?m)^((?:---|\+\+\+|diff --git) "?[ab])/[ab]/', r"\1/", said)
    return re.sub(r'(?m)^(diff --git .* "?[ab])/[ab]/', r"\1/", said)


@pytest.mark.parametrize("seed", range(40))
def test_a_diff_of_git_makes_of_the_files_what_they_were_after_it(
    tmp_path: Path, seed: int
) -> None:
    rng, root = random.Random(seed), tmp_path.resolve()
    for folder in ("a", "b"):
        (root / folder).mkdir()
    for name in rng.sample(NAMES, 3):
        old, ending, is_closed = lines(rng), rng.choice(["\n", "\r\n"]), rng.random() < 0.8
        new = changed(rng, old)
        kind = rng.choice(["add", "delete", "move", "update", "update", "update"])
        if kind != "add":
            put(root / "a" / name, old, ending, is_closed=is_closed)
        if kind != "delete":
            after = f"{name}moved" if kind == "move" else name
            put(root / "b" / after, new, ending, is_closed=rng.random() < 0.8)
    diff = difference(root, rng)
    desk = Desk(root / "a")
    before, wanted = contents(root / "a"), contents(root / "b")
    outcome = desk.patch(diff)
    # a place that could be another is refused, and then nothing is changed
    assert contents(root / "a") == (before if outcome.is_error else wanted), outcome.output
    assert not outcome.is_error or "fits" in outcome.output


def states(root: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(one.relative_to(root)): (one.read_bytes(), stat.S_IMODE(one.stat().st_mode))
        for one in root.rglob("*")
        if one.is_file()
    }


@pytest.mark.parametrize("seed", range(20))
def test_what_is_kept_takes_every_change_back(tmp_path: Path, seed: int) -> None:
    rng, root = random.Random(seed), tmp_path.resolve() / "project"
    root.mkdir()
    desk = Desk(root)
    for name in "abc":
        path = root / name
        path.write_bytes(b"".join(rng.choice([b"x\n", b"y\r\n", b"z\n"]) for _ in range(4)))
        path.chmod(rng.choice([0o600, 0o755, 0o644]))
    first = states(root)
    for _ in range(12):
        names = [*states(root)] or ["a"]
        name, before = rng.choice(names), states(root)
        match rng.choice(["write", "edit", "patch", "patch"]):
            case "write":
                desk.read(name)
                outcome = desk.write(name, "".join(rng.choices(["x\n", "y\n"], k=3)))
            case "edit":
                outcome = desk.edit(name, rng.choice("xyz"), "new", replace_all=True)
            case _:
                outcome = desk.patch(random_patch(rng, names))
        assert not outcome.is_error or states(root) == before
    kept = desk.kept()
    for image in reversed(kept.kept()):
        content = kept.content(image)
        if content is None or image.mode is None:
            image.where.unlink()
        else:
            image.where.write_bytes(content)
            image.where.chmod(image.mode)
    assert states(root) == first
    assert not [one for one in desk.names() if ".lembas-" in one]


def random_patch(rng: random.Random, names: list[str]) -> str:
    parts = []
    for name in rng.sample(names, min(len(names), rng.randint(1, 3))):
        new = f"folder{rng.randint(0, 3)}/{rng.randint(0, 9)}"
        parts.append(
            rng.choice(
                [
                    f"*** Delete File: {name}",
                    f"*** Add File: {new}\n+x\n+y",
                    f"*** Update File: {name}\n*** Move to: {new}",
                    f"*** Update File: {name}\n-x\n+y",
                ]
            )
        )
    return "\n".join(["*** Begin Patch", *parts, "*** End Patch"])
