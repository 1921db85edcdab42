"""Every record that is read when the service starts or a session opens, with every kind of damage: none stops anything.

A record that is ours alone is put aside and said in the log; a person's own file stays where it is, and is said to be broken.
"""

import base64
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import structlog
from structlog.testing import capture_logs

from lembasd.device import credentials, logging, trust
from lembasd.device.credentials import Credentials
from lembasd.device.damaged import MAX_RECORD_BYTES, clear_the_way, read_record, set_aside
from lembasd.device.lock import HubLock, hub_pid, write_pid
from lembasd.device.log_file import LogFile
from lembasd.device.paths import Paths
from lembasd.device.project_rules import ProjectRules
from lembasd.device.settings import SettingsSource
from lembasd.hub.spawn.launch import launch
from lembasd.protocol.control import Account
from lembasd.store import (
    deletes,
    images,
    listing,
    model_lists,
    recent_files,
    servers,
    sessions,
    turns,
)
from lembasd.store.core.ledger import Answer, Ledger, Turn
from lembasd.store.journal import JournalDamaged, find_result, read
from lembasd.store.pre_images import PreImages, pre_image
from lembasd.store.records import TitleSet
from lembasd.worker import opening
from lembasd.worker.core.requests import NewSession

SESSION: Final = "ses_" + "0" * 26
ACCOUNT: Final = Account(base_url="https://x.org", token="t")
NOW: Final = time.time()


# ── kinds of damage ─────────────────────────────────────────────────────────────────────────────


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    path.chmod(0o600)


def _directory(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir(parents=True)
    (path / "something").write_bytes(b"in it")


def _pipe(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def _unreadable(path: Path) -> None:
    _write(path, b"[]")
    path.chmod(0)


DAMAGES: Final[dict[str, Callable[[Path], None]]] = {
    "empty": lambda path: _write(path, b""),
    "garbage": lambda path: _write(path, b"\x89\xff\xfegarbage{"),
    "cut off": lambda path: _write(path, b'[{"turn_id": "t1", "at": 1'),
    "zeros": lambda path: _write(path, bytes(4096)),
    "other types": lambda path: _write(path, b'{"a": {"b": "c"}, "files": 3, "at": []}\n'),
    "nested": lambda path: _write(path, b'{"a":' + b"[" * 100_000),
    "directory": _directory,
    "pipe": _pipe,
    "unreadable": _unreadable,
}
#: as root reads anything
damages = pytest.mark.parametrize(
    "damage", [name for name in DAMAGES if name != "unreadable" or os.getuid() != 0]
)


# ── records that are ours ───────────────────────────────────────────────────────────────────────


def _turns(paths: Paths) -> object:
    path = turns.path_of(paths, SESSION)
    found = sorted(turns.load(path).turns)
    done = Turn("t1", 1.0, "done", Answer(stop_reason="end_turn"), 2.0)
    turns.save(path, Ledger({"t1": done}))
    return found, sorted(turns.load(path).turns)


def _servers(paths: Paths) -> object:
    found = servers.known(paths, "https://x.org", "m", NOW)
    servers.remember(paths, "https://x.org", "m", ["no_tools"], NOW)
    return found, servers.known(paths, "https://x.org", "m", NOW)


def _models(paths: Paths) -> object:
    found = model_lists.kept(paths, ACCOUNT, NOW)
    model_lists.keep(paths, ACCOUNT, b"[1]", NOW)
    return found, model_lists.kept(paths, ACCOUNT, NOW)


def _recent(paths: Paths) -> object:
    found = recent_files.weights(paths, "/p", NOW)
    recent_files.note(paths, "/p", ["a"], NOW)
    return found, list(recent_files.weights(paths, "/p", NOW))


def _recent_path(paths: Paths) -> Path:
    recent_files.note(paths, "/p", ["a"], NOW)
    (path,) = (paths.state / "recent").glob("*.json")
    return path


def _pre_images(paths: Paths) -> object:
    kept = PreImages(paths.session(SESSION))
    found = kept.kept()
    image = pre_image("c1", Path("/p/a"), b"before", 0o644, b"after")
    kept.keep([(image, b"before")])
    again = PreImages(paths.session(SESSION))
    return found, [again.content(one) for one in again.kept()]


#: by name: where it is, and what reading it gives, then what it gives once something was kept in it again
Record = tuple[Callable[[Paths], Path], Callable[[Paths], object], object]
RECORDS: Final[dict[str, Record]] = {
    "turns": (lambda paths: turns.path_of(paths, SESSION), _turns, ([], ["t1"])),
    "servers": (lambda paths: paths.state / "servers.json", _servers, ([], ["no_tools"])),
    "models": (lambda paths: paths.state / "models.json", _models, (None, b"[1]")),
    "recent": (_recent_path, _recent, ({}, ["a"])),
    "pre-images": (
        lambda paths: paths.session(SESSION) / "pre_images.jsonl",
        _pre_images,
        ([], [b"before"]),
    ),
}
#: a list of lines: those that cannot be read are left out, the rest stays in its place
LINES: Final = {"pre-images"}


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = Paths(config=tmp_path / "c", state=tmp_path / "s", run=tmp_path / "r")
    found.make()
    return found


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    """What is logged."""
    with capture_logs() as caught:
        structlog.configure()
        yield caught
    structlog.reset_defaults()


def _same(kept: Path, before: os.stat_result) -> bool:
    now = kept.lstat()
    return (now.st_ino, now.st_mode, now.st_size) == (before.st_ino, before.st_mode, before.st_size)


@damages
@pytest.mark.parametrize("name", RECORDS)
def test_a_record_of_ours_is_put_aside_and_begun_anew(
    name: str, damage: str, paths: Paths, lines: list[Any]
) -> None:
    place, use, expected = RECORDS[name]
    path = place(paths)
    DAMAGES[damage](path)
    before = path.lstat()
    assert use(paths) == expected
    if name in LINES and damage not in ("directory", "pipe"):
        assert path.is_file()
        return
    kept = path.with_name(f"{path.name}.damaged")
    assert _same(kept, before)
    (said,) = lines
    assert (said["event"], said["path"], said["kept"]) == ("record_damaged", str(path), str(kept))


@pytest.mark.parametrize("damage", ["directory", "pipe"])
@pytest.mark.parametrize(
    ("lock", "use", "expected"),
    [
        (".servers.json.lock", _servers, ([], ["no_tools"])),
        ("recent/.lock", _recent, ({}, ["a"])),
    ],
)
def test_a_lock_that_is_no_file_is_put_aside(
    lock: str,
    use: Callable[[Paths], object],
    expected: object,
    damage: str,
    paths: Paths,
    lines: list[Any],
) -> None:
    DAMAGES[damage](paths.state / lock)
    assert use(paths) == expected
    assert [line["event"] for line in lines] == ["record_damaged"]


def test_of_two_damaged_ones_the_newer_is_kept(paths: Paths, lines: list[Any]) -> None:
    path = paths.state / "models.json"
    for damage in ("directory", "garbage", "directory", "directory", "zeros"):
        DAMAGES[damage](path)
        assert model_lists.kept(paths, ACCOUNT, NOW) is None
    assert path.with_name("models.json.damaged").read_bytes() == bytes(4096)
    assert len(lines) == 5


def test_what_cannot_be_put_aside_is_said_all_the_same(paths: Paths, lines: list[Any]) -> None:
    assert read_record(paths.state / "none" / "x.json", bytes) is None
    assert lines == []
    path = paths.state / "x.json"
    with path.open("wb") as file:
        file.truncate(MAX_RECORD_BYTES + 1)

    def gone(_content: bytes) -> bytes:
        raise AssertionError

    assert read_record(path, gone) is None
    assert "over 64 MiB" in lines[0]["error"]
    (paths.state / "a-file").touch()
    assert clear_the_way(paths.state / "a-file" / "below") is False
    assert set_aside(paths.state / "gone", "it is gone") is False
    assert lines[1]["kept"] is None


@damages
def test_deletes_that_wait_are_told_whatever_lies_among_them(
    damage: str, paths: Paths, lines: list[Any]
) -> None:
    directory = paths.outbox / "deleted"
    DAMAGES[damage](directory / SESSION)
    kept = deletes.Deletes(paths)
    assert kept.kept() == [SESSION]
    kept.forget(SESSION)
    assert kept.kept() == []


@pytest.mark.parametrize("damage", ["garbage", "pipe"])
@pytest.mark.parametrize("name", ["outbox", "outbox/deleted"])
def test_what_lies_in_the_place_of_the_deletes_stops_no_deletion(
    name: str, damage: str, paths: Paths, lines: list[Any]
) -> None:
    DAMAGES[damage](paths.state / name)
    kept = deletes.Deletes(paths)
    assert kept.kept() == []
    deletes.keep(paths, SESSION)
    assert kept.kept() == [SESSION]
    assert [line["event"] for line in lines] == ["record_damaged"]


# ── a session's own files ───────────────────────────────────────────────────────────────────────


@pytest.fixture
def session(paths: Paths) -> Path:
    """The directory of a session with a title."""
    new = NewSession(cwd="/p", mode="manual", model="m", effort="default")
    store = opening.make(paths, SESSION, new, Path("/p"), given=False)
    store.journal.append(TitleSet(title="kept"))
    store.journal.close()
    return paths.session(SESSION)


@damages
@pytest.mark.parametrize("name", ["lock", "journal.damaged", "pre_images.jsonl", "images"])
def test_what_lies_beside_a_journal_keeps_no_session_from_opening(
    name: str, damage: str, paths: Paths, session: Path, lines: list[Any]
) -> None:
    with (session / "journal.jsonl").open("ab") as file:
        file.write(b"no record\n")
    DAMAGES[damage](session / name)
    store = opening.take_up(paths, SESSION)
    assert (store.title, store.journal.damaged) == ("kept", 1)
    assert sessions.probe(paths, SESSION).locked_by == os.getpid()
    assert images.load(paths, SESSION, "0" * 32) is None
    assert PreImages(session).kept() == []
    store.journal.close()
    store = opening.take_up(paths, SESSION)
    store.journal.close()
    assert store.title == "kept"


@damages
def test_a_turns_file_keeps_no_session_from_opening(
    damage: str, paths: Paths, session: Path, lines: list[Any]
) -> None:
    path = turns.path_of(paths, SESSION)
    DAMAGES[damage](path)
    store = opening.take_up(paths, SESSION)
    store.journal.close()
    assert (store.title, msgspec.json.decode(path.read_bytes())) == ("kept", [])


@damages
def test_damage_in_the_middle_of_a_journal_costs_its_lines_alone(
    damage: str, paths: Paths, session: Path, lines: list[Any]
) -> None:
    other = paths.state / "other"
    DAMAGES[damage](other)
    if not other.is_file():
        return
    bad = other.read_bytes().strip(b"\n") or b"\x00"
    with (session / "journal.jsonl").open("ab") as file:
        file.write(bad + b'\n{"type":"title","title":"last"}\n')
    store = opening.take_up(paths, SESSION)
    store.journal.close()
    assert (store.title, store.journal.damaged) == ("last", 1)
    (kept,) = (session / "journal.damaged").read_bytes().splitlines()
    assert base64.b64decode(msgspec.json.decode(kept)["line"]) == bad + b"\n"


@damages
def test_a_journal_that_is_none_is_refused_left_alone_and_hides_no_other_session(
    damage: str, paths: Paths, session: Path
) -> None:
    journal = session / "journal.jsonl"
    DAMAGES[damage](journal)
    before = journal.lstat()
    with pytest.raises((JournalDamaged, OSError)):
        opening.take_up(paths, SESSION)
    assert _same(journal, before)
    for look in (
        lambda: read(paths, SESSION),
        lambda: find_result(paths, SESSION, "r1"),
        lambda: listing.sessions(paths),
        lambda: sessions.probe(paths, SESSION),
    ):
        try:
            look()
        except OSError:
            assert damage in ("directory", "pipe", "unreadable")
    assert sessions.listed(paths) == [SESSION]


# ── files of the run and log directories ────────────────────────────────────────────────────────


@damages
def test_the_hubs_lock_is_taken_whatever_it_holds(damage: str, paths: Paths) -> None:
    if damage in ("directory", "pipe", "unreadable"):
        return  # put aside before: tests/process/test_damaged_service.py
    DAMAGES[damage](paths.hub_lock)
    assert hub_pid(paths) is None
    lock = HubLock.acquire(paths)
    assert paths.hub_lock.read_text() == f"{os.getpid()}\n"
    assert hub_pid(paths) == os.getpid()
    lock.release()


@damages
def test_a_log_goes_on_whatever_its_file_was(damage: str, paths: Paths) -> None:
    path = paths.log / "lembasd.jsonl"
    DAMAGES[damage](path)
    log = LogFile(paths.log)
    log.write(b"a line\n")
    log.close()
    assert path.read_bytes().endswith(b"a line\n")
    is_aside = damage in ("directory", "pipe", "unreadable")
    assert log.aside == (path.with_name("lembasd.jsonl.damaged") if is_aside else None)


def test_a_log_file_that_was_put_aside_is_the_first_line_of_the_next(paths: Paths) -> None:
    (paths.log / "lembasd.jsonl").mkdir()
    try:
        logging.configure("hub", paths).close()
    finally:
        structlog.reset_defaults()
    first = msgspec.json.decode((paths.log / "lembasd.jsonl").read_bytes())
    assert (first["event"], first["level"]) == ("record_damaged", "warning")
    assert first["kept"] == str(paths.log / "lembasd.jsonl.damaged")


def test_a_log_that_cannot_be_opened_is_begun_as_soon_as_it_can(paths: Paths) -> None:
    paths.log.rmdir()
    log = LogFile(paths.log, look_s=0.0)
    log.write(b"lost\n")
    paths.log.mkdir()
    log.write(b"kept\n")
    log.close()
    assert (paths.log / "lembasd.jsonl").read_bytes() == b"kept\n"


@damages
def test_a_helper_starts_whatever_the_crash_log_was(
    damage: str, paths: Paths, lines: list[Any]
) -> None:
    if damage == "unreadable":
        return  # it need not be read
    DAMAGES[damage](paths.log / "crash.log")
    launched = launch(paths, lambda *_: ["/bin/true"], "worker", spare=False)
    launched.control.close()
    assert launched.process.wait(20) == 0
    assert (paths.log / "crash.log").is_file()


def test_a_pid_that_cannot_be_written_leaves_no_earlier_one(paths: Paths) -> None:
    _write(paths.hub_lock, b"12345678\n")
    handle = os.open(paths.hub_lock, os.O_RDWR)
    write_pid(handle)
    assert paths.hub_lock.read_text() == f"{os.getpid()}\n"
    os.close(handle)
    handle = os.open(paths.hub_lock, os.O_RDONLY)
    write_pid(handle)
    os.close(handle)


# ── a person's own files ────────────────────────────────────────────────────────────────────────


@damages
@pytest.mark.parametrize("name", ["config.yaml", "credentials.json", "trust.json"])
def test_a_persons_own_file_stays_in_its_place_and_is_said_to_be_broken(
    name: str, damage: str, paths: Paths
) -> None:
    login = Credentials(server="https://x.org", token="t")
    credentials.store(paths.credentials_file, login)
    trust.add(paths.trust_file, paths.state)
    source = SettingsSource(paths)
    source.current()
    path = paths.config / name
    DAMAGES[damage](path)
    before = path.lstat()
    settings = source.current()
    if (name, damage) not in {
        ("config.yaml", "empty"),
        ("config.yaml", "other types"),
        ("config.yaml", "unreadable"),
    }:
        assert str(path) in (source.problem or "")
    assert (settings.account is None) == (name == "credentials.json")
    assert settings.trusted == [str(paths.state)]
    assert _same(path, before)


@damages
def test_a_projects_own_rules_that_cannot_be_read_are_a_problem_and_hang_nothing(
    damage: str, tmp_path: Path
) -> None:
    DAMAGES[damage](tmp_path / ".agent" / "config.yaml")
    rules = ProjectRules(tmp_path)
    assert rules.current() == []
    assert (rules.problem is None) == (damage in ("empty", "other types", "unreadable"))
