"""What the file tools do while the ground moves: full disks, swapped folders, files that somebody else writes to."""

import ctypes
import os
import resource
import stat
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lembasd.device import held_path
from lembasd.engine.native.tools.commit import Change, Step, commit
from lembasd.engine.native.tools.outcome import Unusable
from lembasd.engine.native.tools.text_file import load
from lembasd.store.pre_images import PreImages, pre_image
from tests.support.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    root = tmp_path.resolve() / "project"
    root.mkdir()
    return Desk(root)


@pytest.fixture(params=["openat2", "walk"])
def opening(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the kernel's call, and name by name as where there is none."""
    if request.param == "walk":
        monkeypatch.setenv("LEMBASD_PORTABLE", "1")
    return str(request.param)


# ── links ───────────────────────────────────────────────────────────────────────────────────────


def test_a_directory_is_opened_only_by_a_path_without_links(desk: Desk, opening: str) -> None:
    (desk.root / "a" / "b").mkdir(parents=True)
    (desk.root / "link").symlink_to("a")
    (desk.root / "file").touch()
    with held_path.held(desk.root / "a" / "b") as handle:
        identity = os.fstat(handle)
        assert os.path.samestat(identity, (desk.root / "a" / "b").stat())
        assert next(held_path.identities(handle)) == (identity.st_dev, identity.st_ino)
    with held_path.held(Path("/")) as handle:
        assert len([*held_path.identities(handle)]) == 1
    for path, error in (
        ("link", "Too many levels of symbolic links"),
        ("link/b", "Too many levels of symbolic links"),
        ("file", "Not a directory"),
        ("file/b", "Not a directory"),
        ("gone", "No such file or directory"),
    ):
        with pytest.raises(OSError, match=error):
            held_path.open_directory(desk.root / path)


def test_a_directory_that_is_made_is_made_through_no_link(desk: Desk, opening: str) -> None:
    outside = desk.root.parent / "outside"
    outside.mkdir()
    (desk.root / "link").symlink_to(outside)
    for path in ("link/x", "link/x/y"):
        with pytest.raises(OSError, match="symbolic"):
            held_path.make_directory(desk.root / path)
    assert list(outside.iterdir()) == []
    handle, made = held_path.make_directory(desk.root / "a" / "b")
    os.close(handle)
    assert made == [desk.root / "a", desk.root / "a" / "b"]


def test_what_was_made_for_a_directory_that_cannot_be_goes_again(desk: Desk, opening: str) -> None:
    with pytest.raises(OSError, match="too long"):
        held_path.make_directory(desk.root / "a" / "b" / ("x" * 300))
    assert desk.names() == []


@contextmanager
def swapped(folder: Path, link: Path) -> Iterator[None]:
    """Meanwhile each has the other's name, in turn and without a moment between."""
    stop = threading.Event()
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "renameat2"):
        pytest.skip("names cannot be exchanged here")

    def swap() -> None:
        while not stop.is_set():
            libc.renameat2(-100, bytes(folder), -100, bytes(link), 2)  # RENAME_EXCHANGE

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_folder_that_is_swapped_for_a_link_all_the_time_lets_nothing_out(
    desk: Desk, opening: str
) -> None:
    secret = desk.root.parent / "secret"
    secret.mkdir()
    (secret / "a.txt").write_text("hidden\n")
    free = desk.root / "free"
    free.mkdir()
    (free / "a.txt").write_text("open\n")
    said: set[str] = set()
    (desk.root / "link").symlink_to(secret)
    with swapped(free, desk.root / "link"):
        for number in range(300):
            said.add(desk.read("free/a.txt").output)
            desk.edit("free/a.txt", "hidden", "taken")
            desk.edit("free/a.txt", "open", "open ")
            desk.edit("free/a.txt", "open ", "open")
            desk.write(f"free/new{number}", "x")
            desk.patch(f"*** Begin Patch\n*** Add File: free/n/{number}\n+x\n*** End Patch")
            assert "hidden" not in desk.listing("free").output
    assert [(one.name, one.read_text()) for one in secret.iterdir()] == [("a.txt", "hidden\n")]
    assert not any("hidden" in one for one in said)
    assert any("open" in one for one in said)
    left = [one for one in desk.names() if ".lembas-" in one]
    assert left == []


# ── full disks ──────────────────────────────────────────────────────────────────────────────────


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("names", [1, 2])
def test_a_disk_that_is_full_loses_nothing(desk: Desk, names: int) -> None:
    path = desk.root / "a.txt"
    path.write_text("old\n" * 1000)
    if names == 2:
        (desk.root / "b.txt").hardlink_to(path)
    before = desk.names()
    desk.read("a.txt")
    with no_file_above(20_000):
        outcome = desk.write("a.txt", "new\n" * 10_000)
        assert outcome.output == "a.txt was not written: the disk is full"
        assert desk.write("c.txt", "new\n" * 10_000).is_error
    assert path.read_text() == "old\n" * 1000
    assert desk.names() == before
    assert not desk.write("a.txt", "new\n" * 10_000).is_error
    assert path.read_text() == "new\n" * 10_000


def test_what_cannot_be_kept_for_undo_is_not_changed(desk: Desk) -> None:
    path = desk.root / "a.txt"
    path.write_text("old\n" * 10_000)
    desk.read("a.txt")
    with no_file_above(20_000):
        outcome = desk.write("a.txt", "new\n")
    assert outcome.is_error
    assert outcome.output.startswith("nothing was changed: what is there now could not be kept")
    assert path.read_text() == "old\n" * 10_000
    assert desk.kept().kept() == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one mebibyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("nothing may be mounted here")
    yield folder.resolve()
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_patch_that_fills_the_disk_in_its_middle_changes_nothing(
    tmp_path: Path, small_disk: Path
) -> None:
    desk = Desk(small_disk / "project", session_dir=tmp_path / "session")
    desk.root.mkdir()
    (desk.root / "a").write_text("a\n" * 100_000)
    (desk.root / "b").write_text("b\n" * 100_000)
    (desk.root / "c").write_text("c\n")
    files = {one.name: one.read_bytes() for one in desk.root.iterdir()}
    big = "\n".join(["+x" * 50] * 7000)
    outcome = desk.patch(
        "*** Begin Patch\n*** Update File: c\n-c\n+d\n*** Delete File: a\n"
        f"*** Add File: new/big\n{big}\n*** End Patch"
    )
    assert outcome.output == "new/big was not written: the disk is full"
    assert {one.name: one.read_bytes() for one in desk.root.iterdir()} == files


# ── a change that fails after others were made ──────────────────────────────────────────────────


def change(path: Path, content: bytes | None, *, new: bool = False) -> Change:
    return Change(path, path.name, None if new else load(path, path.name), content)


def states(root: Path) -> dict[str, tuple[bytes, int, int]]:
    return {
        str(one.relative_to(root)): (
            one.read_bytes(),
            stat.S_IMODE(one.stat().st_mode),
            one.stat().st_nlink,
        )
        for one in root.rglob("*")
        if one.is_file()
    }


def test_changes_that_were_made_are_taken_back_when_a_later_one_fails(desk: Desk) -> None:
    root = desk.root
    for name in ("replaced", "linked", "deleted", "last"):
        (root / name).write_text(f"{name}\n")
    (root / "replaced").chmod(0o600)
    (root / "other name").hardlink_to(root / "linked")
    changes = [
        change(root / "replaced", b"1"),
        change(root / "linked", b"longer than before\n"),
        change(root / "deleted", None),
        change(root / "new" / "file", b"2", new=True),
        change(root / "last", b"3"),
    ]
    before = states(root)

    steps: list[Step] = []
    for one in changes:
        steps.append(Step(one))
        steps[-1].prepare()
    for step in steps[:-1]:
        step.make()
    (root / "last").write_text("somebody's\n")
    with pytest.raises(Unusable, match="last changed while it was being changed"):
        steps[-1].make()
    assert all([step.undo() for step in reversed(steps)])  # noqa: C419 - each is undone
    for step in steps:
        step.close()
    assert states(root) == {**before, "last": (b"somebody's\n", 0o644, 1)}
    assert not (root / "new").exists()


@pytest.mark.parametrize("name", ["there", "gone", "came", "folder"])
def test_a_file_that_became_another_is_not_touched(desk: Desk, name: str) -> None:
    root = desk.root
    (root / "first").write_text("first\n")
    path = root / name
    if name != "came":
        path.write_text("old\n")
    wanted = [change(root / "first", b"1"), change(path, b"2", new=name == "came")]
    match name:
        case "there" | "came":
            path.write_text("somebody's\n")
        case "gone":
            path.unlink()
        case "folder":
            path.unlink()
            path.mkdir()
    before = states(root)
    with pytest.raises(Unusable):
        commit(wanted)
    assert states(root) == before


def test_files_that_somebody_writes_to_meanwhile_are_never_half_ours(desk: Desk) -> None:
    path = desk.root / "a.txt"
    path.write_text("0\n")
    stop = threading.Event()
    theirs = 0

    def write() -> None:
        nonlocal theirs
        while not stop.is_set():
            theirs += 1
            other = desk.root / "theirs"
            other.write_text(f"theirs {theirs}\n" * 50)
            other.rename(path)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for number in range(200):
            desk.read("a.txt")
            desk.write("a.txt", f"ours {number}\n" * 50)
            lines = set(path.read_text().split("\n")) - {""}
            assert len(lines) == 1
    finally:
        stop.set()
        thread.join()
    assert [one for one in desk.names() if ".lembas-" in one] == []


def test_a_file_that_is_written_to_in_place_as_it_is_changed_keeps_what_was_written(
    desk: Desk,
) -> None:
    path = desk.root / "a.txt"
    path.write_text("one\n")
    before = load(path, "a.txt")
    with path.open("a") as file:  # an editor that has it open
        step = Step(Change(path, "a.txt", before, b"two\n"))
        step.prepare()
        file.write("theirs\n")
        file.flush()
        with pytest.raises(Unusable, match="changed while it was being changed"):
            step.make()
        assert step.undo()
        step.close()
    assert path.read_text() == "one\ntheirs\n"
    assert desk.names() == ["a.txt"]


# ── rights ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a file that nobody may change")
def test_a_file_that_the_system_holds_fast_is_said_to_be(desk: Desk) -> None:
    path = desk.root / "a.txt"
    path.write_text("old\n")
    if subprocess.run(["chattr", "+i", str(path)], capture_output=True, check=False).returncode:
        pytest.skip("this file system holds no file fast")
    try:
        outcome = desk.edit("a.txt", "old", "new")
        assert "may not be" in outcome.output
        assert desk.names() == ["a.txt"]
    finally:
        subprocess.run(["chattr", "-i", str(path)], check=True)
    assert path.read_text() == "old\n"


def test_a_disk_that_may_only_be_read_is_said_to_be(desk: Desk) -> None:
    outcome = desk.write("/proc/new", "x")
    assert outcome.is_error
    assert desk.write("/sys/kernel/new", "x").is_error


# ── what is kept ────────────────────────────────────────────────────────────────────────────────


def test_a_line_that_a_crash_cut_off_costs_that_line_alone(tmp_path: Path) -> None:
    images = [pre_image(f"c{n}", tmp_path / "f", f"{n}".encode(), 0o644, b"x") for n in range(3)]
    store = PreImages(tmp_path)
    store.keep([(images[0], b"0")])
    with (tmp_path / "pre_images.jsonl").open("ab") as file:
        file.write(b'{"call_id": "c1", "pa')
    PreImages(tmp_path).keep([(images[2], b"2")])
    later = PreImages(tmp_path)
    assert later.kept() == [images[0], images[2]]
    assert [later.content(one) for one in later.kept()] == [b"0", b"2"]
    (tmp_path / "pre_images" / str(images[0].content)).write_bytes(b"other")
    with pytest.raises(ValueError, match="damaged"):
        later.content(images[0])


def test_what_is_kept_is_private_and_bounded(tmp_path: Path) -> None:
    store = PreImages(tmp_path / "session", max_images=10, max_bytes=100)

    def keep(number: int, content: bytes) -> None:
        store.keep([(pre_image(f"c{number}", tmp_path / "f", content, 0o644, None), content)])

    for number in range(11):
        keep(number, b"same")
    assert [one.call_id for one in store.kept()] == [f"c{n}" for n in range(2, 11)]
    keep(11, b"x" * 97)
    assert [one.call_id for one in PreImages(tmp_path / "session").kept()] == ["c11"]
    contents = list((tmp_path / "session" / "pre_images").iterdir())
    assert [one.stat().st_mode & 0o777 for one in contents] == [0o600]
    assert (tmp_path / "session" / "pre_images.jsonl").stat().st_mode & 0o777 == 0o600
