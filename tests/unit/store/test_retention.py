"""Removing what is kept no longer, on a real disk: nothing that is open, nothing by halves."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import msgspec
import pytest

from lembasd.device.paths import Paths
from lembasd.protocol.retention import DAY_S, Retention
from lembasd.store import attachments, images, retention, turns
from lembasd.store.core.retention import Drop
from lembasd.store.deletes import Deletes
from lembasd.store.journal import DAMAGED, JOURNAL, Journal
from lembasd.store.pre_images import PreImages, pre_image
from lembasd.store.records import Created
from lembasd.store.retention import Report

NOW: Final = 1_800_000_000.0
#: nothing is kept but what is open
NOTHING: Final = Retention(attachments_s=0, undo_s=0, damaged_s=0, logs_s=0)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = Paths(config=tmp_path / "c", state=tmp_path / "s", run=tmp_path / "r")
    found.make()
    return found


def name(number: int) -> str:
    return f"ses_{number:026d}"


def store(paths: Paths, number: int = 0, days: float = 100.0, files: int = 1) -> Journal:
    """A session with everything a session can have, not changed for so many days."""
    session = name(number)
    journal = Journal.create(paths, session)
    journal.append(Created(session_id=session, root="/", mode="edit", model="m"))
    attachments.write(paths, session, "a.png", b"attached", NOW)
    images.keep(paths, session, "image/png", b"shown")
    undo = PreImages(paths.session(session))
    for one in range(files):
        content = b"what it was %d" % one
        undo.keep([(pre_image(f"c{one}", Path(f"/p/{one}"), content, 0o644, b"now"), content)])
    (paths.session(session) / DAMAGED).write_bytes(b"damaged")
    turns.path_of(paths, session).write_text("[]")
    at = NOW - days * DAY_S
    for file in (JOURNAL, DAMAGED):
        os.utime(paths.session(session) / file, (at, at))
    return journal


def names(directory: Path) -> list[str]:
    return sorted(one.name for one in directory.iterdir())


def test_each_part_goes_and_the_rest_stays_as_it_is(paths: Paths) -> None:
    store(paths).close()
    directory = paths.session(name(0))
    before = (directory / JOURNAL).read_bytes()
    report = retention.apply(paths, NOTHING, now=NOW)
    assert {(drop.session_id, drop.part) for drop in report.drops} == {
        (name(0), part) for part in ("attachments", "undo", "damaged")
    }
    assert names(directory) == [JOURNAL, "lock"]
    assert ((directory / JOURNAL).read_bytes(), names(paths.attachments)) == (before, [])
    assert turns.path_of(paths, name(0)).exists()
    sizes = sum(one.stat().st_size for one in [*directory.iterdir(), *paths.turns.iterdir()])
    assert (report.kept, report.over) == ([], False)
    assert abs(report.left_bytes - sizes) < 10  # the lock's file has another pid in it
    # and it can be worked in again
    Journal.open(paths, name(0)).close()
    undo = PreImages(directory)
    assert undo.kept() == []
    undo.keep([(pre_image("c", Path("/p"), b"x", 0o644, b"y"), b"x")])
    assert len(PreImages(directory).kept()) == 1


def test_a_session_of_its_age_goes_whole_and_the_instance_is_to_hear_of_it(paths: Paths) -> None:
    deletes = Deletes(paths)
    store(paths, 0, days=100).close()
    store(paths, 1, days=1).close()
    report = retention.apply(paths, Retention(sessions_s=90 * DAY_S), now=NOW)
    assert [(drop.session_id, drop.part) for drop in report.drops] == [(name(0), "session")]
    assert names(paths.sessions) == [name(1)]
    assert [one for one in paths.state.rglob("*") if name(0) in one.name] == [
        paths.outbox / "deleted" / name(0)
    ]
    assert (deletes.changed(), deletes.kept(), deletes.changed()) == (True, [name(0)], False)


def test_nothing_of_a_session_that_is_open_goes_when_it_was_opened_meanwhile_either(
    paths: Paths,
) -> None:
    journal = store(paths)
    before = {one: one.stat().st_size for one in paths.state.rglob("*") if one.is_file()}
    everything = Retention(sessions_s=0, attachments_s=0, undo_s=0, damaged_s=0)
    assert retention.apply(paths, everything, now=NOW).drops == []
    # as one that was closed when it was looked at
    drop = Drop(name(0), "session", 1)
    assert not retention.perform(paths, drop)
    assert not retention.perform(paths, Drop(name(0), "undo", 1))
    journal.close()
    after = {one: one.stat().st_size for one in paths.state.rglob("*") if one.is_file()}
    assert after == {
        **before,
        paths.state / "retention.json": after[paths.state / "retention.json"],
    }
    assert retention.perform(paths, drop)
    # somebody else has deleted it
    assert retention.perform(paths, drop)


def test_a_dry_run_says_the_same_and_does_nothing(paths: Paths) -> None:
    store(paths).close()
    (paths.log / "lembasd.jsonl.2").write_bytes(b"old lines")
    os.utime(paths.log / "lembasd.jsonl.2", (0, 0))
    before = sorted(paths.state.rglob("*"))
    said = retention.apply(paths, NOTHING, now=NOW, dry=True)
    assert sorted(paths.state.rglob("*")) == before
    done = retention.apply(paths, NOTHING, now=NOW)
    assert said == done
    assert done.freed_bytes == sum(drop.size for drop in done.drops) + len(b"old lines")


def test_of_the_log_the_old_parts_go_and_never_the_file_of_now(paths: Paths) -> None:
    for file in ("lembasd.jsonl", "lembasd.jsonl.1", "lembasd.jsonl.4", "crash.log", "crash.log.1"):
        (paths.log / file).write_bytes(b"12345")
        os.utime(paths.log / file, (0, 0))
    os.utime(paths.log / "lembasd.jsonl.1", (NOW, NOW))
    (paths.log / "notes.1").touch()
    report = retention.apply(paths, Retention(), now=NOW)
    assert report == Report(logs_bytes=10)
    assert names(paths.log) == ["crash.log", "lembasd.jsonl", "lembasd.jsonl.1", "notes.1"]


def test_a_clock_that_jumped_ahead_takes_nothing_the_first_time(paths: Paths) -> None:
    store(paths, days=1).close()
    retention.apply(paths, Retention(), now=NOW)
    later = NOW + 400 * DAY_S
    kept = Retention(sessions_s=90 * DAY_S)
    assert retention.is_due(paths, DAY_S, later)
    assert retention.apply(paths, kept, now=later).drops == []
    assert not retention.is_due(paths, DAY_S, later + 1)
    assert len(retention.apply(paths, kept, now=later + DAY_S).drops) == 1


def test_what_a_death_left_unfinished_goes_and_what_is_somebodys_stays(paths: Paths) -> None:
    store(paths, days=1).close()
    directory = paths.session(name(0))
    left = [
        directory / ".gone-pre_images",
        paths.attachments / f".gone-{name(0)}",
        directory / ".pre_images.jsonl-abcd_123",
        paths.turns / f".{name(0)}.json.4711",
    ]
    mine = [paths.attachments / "notes", directory / ".notes", paths.turns / ".gitignore"]
    for one in [*left, *mine]:
        one.write_bytes(b"")
        os.utime(one, (0, 0))
    writes_now = directory / ".pre_images.jsonl-abcd_124"
    writes_now.write_bytes(b"")
    os.utime(writes_now, (NOW, NOW))
    assert retention.apply(paths, Retention(), now=NOW).drops == []
    assert [one.exists() for one in [*left, *mine, writes_now]] == [False] * 4 + [True] * 4


def test_links_are_removed_and_not_followed(paths: Paths, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").write_bytes(b"x" * 1000)
    store(paths).close()
    for one in (paths.attachments / name(0), paths.session(name(0)) / "images"):
        for file in one.iterdir():
            file.unlink()
        one.rmdir()
        one.symlink_to(outside)
    report = retention.apply(paths, NOTHING, now=NOW)
    assert sum(drop.size for drop in report.drops) < 1000
    assert names(outside) == ["mine"]
    assert names(paths.attachments) == []


_APPLY: Final = """
import sys
from pathlib import Path
from lembasd.device.paths import Paths
from lembasd.protocol.retention import Retention
from lembasd.store import retention
base = Path(sys.argv[1])
paths = Paths(config=base / "c", state=base / "s", run=base / "r")
kept = Retention(sessions_s=eval(sys.argv[2]), attachments_s=0, undo_s=0, damaged_s=0)
retention.apply(paths, kept, now=float(sys.argv[3]))
"""


@pytest.mark.parametrize("part", ["pre_images", "session"])
def test_killed_in_the_middle_it_leaves_nothing_half_and_goes_on_the_next_time(
    paths: Paths, tmp_path: Path, part: str
) -> None:
    for number in range(8):
        store(paths, number, files=6).close()
    sessions_s = None if part == "pre_images" else 0.0
    words = [sys.executable, "-c", _APPLY, str(tmp_path), str(sessions_s), str(NOW)]
    with subprocess.Popen(words) as child:
        watched = paths.session(name(2))
        while (watched / "pre_images.jsonl").exists() and child.poll() is None:
            time.sleep(0)
        child.send_signal(signal.SIGKILL)
    gone = [number for number in range(8) if not paths.session(name(number)).exists()]
    for number in {*range(8)} - {*gone}:
        journal = Journal.open(paths, name(number))
        assert len(journal.records) == 1
        journal.close()
        undo = PreImages(paths.session(name(number)))
        assert [undo.content(one) is not None for one in undo.kept()] in ([], [True] * 6)
    # a session that is gone is one of which the instance hears, and the other way round
    assert Deletes(paths).kept() == [name(number) for number in gone]
    kept = Retention(sessions_s=sessions_s, attachments_s=0, undo_s=0, damaged_s=0)
    retention.apply(paths, kept, now=NOW)
    left = {one.name for one in paths.state.rglob("*") if one.is_file()}
    if part == "session":
        assert names(paths.sessions) == []
        assert left == {"retention.json", *(name(number) for number in range(8))}
    else:
        assert left == {"retention.json", JOURNAL, "lock", *(f"{name(n)}.json" for n in range(8))}


def test_a_disk_that_refuses_is_reported_and_harms_nothing(paths: Paths) -> None:
    store(paths).close()
    (paths.outbox / "deleted" / name(0)).mkdir(parents=True)  # in the place of a file
    kept = Retention(sessions_s=0)
    report = retention.apply(paths, kept, now=NOW)
    assert (report.drops, len(report.kept)) == ([], 1)
    Journal.open(paths, name(0)).close()
    assert msgspec.json.decode((paths.state / "retention.json").read_bytes()) == {"at": NOW}
