"""The utility worker's search and directories, on real directories, its hub played by the test."""

import asyncio
import os
import stat
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lembasd.device import process_tree
from lembasd.device.paths import Paths
from lembasd.engine.native.searches import ripgrep
from lembasd.protocol import envelope as kinds
from lembasd.protocol.control import Remote, Settings
from lembasd.protocol.errors import RequestRefused
from lembasd.protocol.spawn import Assignment
from lembasd.store import recent_files
from lembasd.store.journal import Journal
from lembasd.store.records import Created, TitleSet
from lembasd.worker import directories, file_search
from lembasd.worker.core.file_requests import Asked
from lembasd.worker.file_search import FileSearch
from lembasd.worker.lanes import MAX_FOLDERS, MAX_WAITING, Lanes
from lembasd.worker.utility import Utility
from tests.support.fake_hub import FakeHub

SESSION = "ses_" + "0" * 26
LINK = 3
LOCAL = 4


@pytest.fixture
def paths(short_tmp: Path) -> Paths:
    found = Paths(config=short_tmp / "c", state=short_tmp / "s", run=short_tmp / "r")
    found.make()
    return found


@pytest.fixture
def project(short_tmp: Path) -> Path:
    root = short_tmp.resolve() / "p"
    (root / "src" / "deep").mkdir(parents=True)
    for name in ("README.md", "src/hub.py", "src/deep/hub_link.py"):
        (root / name).write_text("")
    return root


@pytest.fixture(params=["ripgrep", "our own"])
def program(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What lists the files."""
    if request.param == "our own":
        monkeypatch.setenv("LEMBASD_PORTABLE", "1")
    ripgrep.cache_clear()
    yield
    ripgrep.cache_clear()


def allowing(*roots: Path, **remote: Any) -> Settings:
    block = {"enabled": True, "require_trust": False, "roots": [str(root) for root in roots]}
    return Settings(remote=Remote(**{**block, **remote}))


def repository(project: Path) -> None:
    subprocess.run(["git", "init", "-q", str(project)], check=True)


def touch(folder: Path, *names: bytes) -> None:
    for name in names:
        (folder / os.fsdecode(name)).write_text("")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def asking(
    paths: Paths, settings: Settings, *, answer_s: float = 10.0, list_s: float = 8.0
) -> AsyncIterator[tuple[FakeHub, Clock]]:
    """A utility worker whose hub has a client of the link and one of this machine."""
    clock, lanes = Clock(), Lanes(answer_s)
    async with FakeHub(paths.socket, settings) as hub:
        files = FileSearch(paths, lanes, list_s, clock)
        worker = Utility(Assignment(spawn=1, role="utility"), paths, 60.0, lanes, files)
        task = asyncio.create_task(worker.run())
        await hub.until(lambda: hub.peer)
        hub.attach(LINK, protocol=3)
        hub.attach(LOCAL, local=True)
        try:
            yield hub, clock
        finally:
            worker.stop("the test is over")
            await task


async def search(hub: FakeHub, query: str, client: int = LINK, **where: Any) -> Any:
    return await hub.ask(client, "_lembas/files/search", {"query": query, **where})


async def paths_of(hub: FakeHub, query: str, **where: Any) -> list[str]:
    found = await search(hub, query, **where)
    return [one["path"] for one in found["files"]]


# ── searching ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("program")
async def test_files_are_found_below_a_directory(paths: Paths, project: Path) -> None:
    async with asking(paths, allowing(project)) as (hub, _):
        assert await search(hub, "hub", cwd=str(project)) == {
            "root": str(project),
            "files": [
                {"path": "src/hub.py", "kind": "file"},
                {"path": "src/deep/hub_link.py", "kind": "file"},
            ],
        }
        found = await search(hub, "deep", cwd=str(project), limit=1)
        assert found["files"] == [{"path": "src/deep", "kind": "dir"}]
        below = await search(hub, "hub", cwd=str(project / "src" / "deep"))
        assert below["files"] == [{"path": "hub_link.py", "kind": "file"}]


@pytest.mark.usefixtures("program")
async def test_what_git_ignores_is_left_out_and_hidden_files_are_not(
    paths: Paths, project: Path
) -> None:
    repository(project)
    (project / ".gitignore").write_text("built/\n*.o\n!keep.o\n")
    (project / "built").mkdir()
    for name in ("built/x.py", "x.o", "keep.o", ".x.py", "src/x.o"):
        (project / name).write_text("")
    (project / "x-link.py").symlink_to(project / "README.md")
    async with asking(paths, allowing(project)) as (hub, _):
        assert await paths_of(hub, "x", cwd=str(project)) == [".x.py"]
        assert await paths_of(hub, "p.o", cwd=str(project)) == ["keep.o"]
        # the rules of the folders above hold too, in a repository
        assert await paths_of(hub, "x", cwd=str(project / "src")) == []
        assert await paths_of(hub, "objects", cwd=str(project)) == []


@pytest.mark.usefixtures("program")
async def test_odd_names_break_nothing(paths: Paths, project: Path) -> None:
    names = [b"odd\nname", b"odd \xff", b"odd \\ #1-2", "odd \u00e4\U0001f600".encode(), b"-odd"]
    touch(project, *names)
    async with asking(paths, allowing(project)) as (hub, _):
        assert sorted(await paths_of(hub, "odd", cwd=str(project))) == [
            "-odd",
            "odd\nname",
            "odd \\ #1-2",
            "odd \u00e4\U0001f600",
        ]


async def test_a_session_is_searched_below_its_directory(paths: Paths, project: Path) -> None:
    journal = Journal.create(paths, SESSION)
    journal.append(Created(session_id=SESSION, root=str(project), mode="edit", model="m"))
    journal.append(TitleSet(title="x"))
    async with asking(paths, allowing(project)) as (hub, _):
        assert await paths_of(hub, "readme", sessionId=SESSION) == ["README.md"]
        for unknown in ("ses_" + "1" * 26, "../../etc"):
            refused = {"code": -32602, "message": "unknown session"}
            assert await search(hub, "x", sessionId=unknown) == refused
        both = await search(hub, "x", sessionId=SESSION, cwd=str(project))
        assert both["message"].endswith("name one of them")
    journal.close()


async def test_a_journal_without_a_beginning_or_that_cannot_be_read_is_no_session(
    paths: Paths, project: Path
) -> None:
    directory = paths.session(SESSION)
    directory.mkdir(parents=True)
    (directory / "journal.jsonl").write_text("damaged\n")
    async with asking(paths, allowing(project)) as (hub, _):
        assert (await search(hub, "x", sessionId=SESSION))["code"] == -32602
        (directory / "journal.jsonl").unlink()
        (directory / "journal.jsonl").mkdir()
        assert (await search(hub, "x", sessionId=SESSION))["code"] == -32603


async def test_the_limits_hold_as_they_are_when_it_is_asked(paths: Paths, project: Path) -> None:
    async with asking(paths, allowing(project)) as (hub, _):
        assert await paths_of(hub, "readme", cwd=str(project)) == ["README.md"]
        for settings, reason in (
            (allowing(project / "src"), "folder"),
            (allowing(project, require_trust=True), "trust"),
            (allowing(project, enabled=False), "remote_off"),
            (allowing(), "folder"),
        ):
            hub.control(kinds.SETTINGS, settings)
            refused = await search(hub, "readme", cwd=str(project))
            assert (refused["code"], refused["data"]) == (-32602, {"reason": reason})
            # a person at this machine is not bound
            assert (await search(hub, "readme", LOCAL, cwd=str(project)))["files"]
        for cwd in ("relative", str(project / "gone"), str(project / "README.md")):
            refused = await search(hub, "x", LOCAL, cwd=cwd)
            assert (refused["code"], refused["data"]) == (-32602, {"reason": "folder"})


async def test_a_client_that_is_not_known_is_bound_by_the_limits(
    paths: Paths, project: Path
) -> None:
    async with asking(paths, allowing()) as (hub, _):
        assert (await search(hub, "x", LOCAL + 7, cwd=str(project)))["code"] == -32602
        assert (await search(hub, "x", 99, cwd=str(project)))["code"] == -32602


async def test_a_list_is_kept_for_a_short_time(paths: Paths, project: Path) -> None:
    async with asking(paths, allowing(project)) as (hub, clock):
        assert await paths_of(hub, "new", cwd=str(project)) == []
        (project / "new.py").write_text("")
        clock.now = file_search.FRESH_S
        assert await paths_of(hub, "new", cwd=str(project)) == []
        clock.now += 0.1
        assert await paths_of(hub, "new", cwd=str(project)) == ["new.py"]


async def test_a_list_that_nobody_needs_is_dropped(paths: Paths, project: Path) -> None:
    lanes, clock = Lanes(), Clock()
    files = FileSearch(paths, lanes, clock=clock)
    asked = Asked("", str(project), "hub", 20)
    await files.answer(asked, allowing(project), local=False)
    assert files.kept_bytes > 0
    clock.now = file_search.KEPT_S
    files.drop_old()
    assert files.kept_bytes > 0
    clock.now += 0.1
    files.drop_old()
    assert files.kept_bytes == 0


async def test_so_many_lists_are_kept(paths: Paths, project: Path) -> None:
    lanes, clock = Lanes(), Clock()
    files = FileSearch(paths, lanes, clock=clock)
    for number in range(file_search.MAX_KEPT + 2):
        folder = project / str(number)
        folder.mkdir()
        (folder / "a").write_text("")
        clock.now += 0.01
        asked = Asked("", str(folder), "a", 20)
        await files.answer(asked, allowing(project), local=False)
    assert files.kept_bytes == file_search.MAX_KEPT * 2 * len("\0a\0")


async def test_the_files_that_were_used_come_first(paths: Paths, project: Path) -> None:
    recent_files.note(paths, str(project), ["src/deep/hub_link.py", "gone.py"], 0.0)
    async with asking(paths, allowing(project)) as (hub, _):
        assert await paths_of(hub, "", cwd=str(project)) == ["src/deep/hub_link.py"]
        assert await paths_of(hub, "hub", cwd=str(project), limit=1) == ["src/hub.py"]
        recent_files.note(paths, str(project), ["src/deep/"], 1e12)
        assert await paths_of(hub, "", cwd=str(project)) == ["src/deep", "src/deep/hub_link.py"]


async def test_our_own_files_are_not_found(paths: Paths, short_tmp: Path) -> None:
    touch(paths.config, b"secret.json")
    touch(short_tmp, b"secret.txt")
    root = paths.state.resolve().parent
    async with asking(paths, allowing(root)) as (hub, _):
        assert await paths_of(hub, "secret", cwd=str(root)) == ["secret.txt"]


# ── disks that hang ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(ripgrep() is None, reason="our own program does not wait for a pipe")
async def test_a_listing_that_hangs_is_ended_and_said_to(paths: Paths, project: Path) -> None:
    hanging = project / "hanging"
    (hanging / ".git").mkdir(parents=True)
    os.mkfifo(hanging / ".gitignore")  # ripgrep waits for somebody to write into it
    async with asking(paths, allowing(project), list_s=0.5) as (hub, _):
        waiting = hub.request(LINK, "_lembas/files/search", {"query": "x", "cwd": str(hanging)})
        assert await paths_of(hub, "readme", cwd=str(project / "src")) == []
        assert await hub.answer(waiting) == {
            "code": -32603,
            "message": f"{hanging} did not list its files within 0.5 s; see to its disk, then try again",
            "data": {"reason": "no_answer", "retryable": True},
        }


@pytest.mark.skipif(ripgrep() is None, reason="our own program does not wait for a pipe")
async def test_what_still_lists_ends_with_the_worker(paths: Paths, project: Path) -> None:
    (project / ".git").mkdir()
    os.mkfifo(project / ".gitignore")
    before = set(process_tree.children(os.getpid()))
    async with asking(paths, allowing(project)) as (hub, _):
        hub.request(LINK, "_lembas/files/search", {"query": "x", "cwd": str(project)})
        listing = await asyncio.to_thread(changed, before)
    assert await asyncio.to_thread(changed, listing) == before


def changed(before: set[int]) -> set[int]:
    """Wait until this process has other children than these; those that it has then."""
    end = time.monotonic() + 10
    while (now := set(process_tree.children(os.getpid()))) == before:
        assert time.monotonic() < end
    return now


class Hanging:
    """Calls that a test lets go."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self._loop = asyncio.get_running_loop()
        self.begun = asyncio.Event()

    def __call__(self) -> str:
        self._loop.call_soon_threadsafe(self.begun.set)
        os.read(self._read, 1)
        return "done"

    def let_go(self, count: int) -> None:
        os.write(self._write, b"x" * count)

    def close(self) -> None:
        os.close(self._write)
        os.close(self._read)


@pytest.fixture
async def hanging() -> AsyncIterator[Hanging]:
    made = Hanging()
    yield made
    made.close()


async def refused(lanes: Lanes, folder: str, call: Any) -> str:
    with pytest.raises(Exception, match="does not answer") as caught:
        await lanes.run(folder, call)
    return str(caught.value)


async def test_a_call_that_hangs_is_answered_for_and_keeps_its_lane_until_it_ends(
    hanging: Hanging,
) -> None:
    lanes = Lanes(0.05)
    assert (
        await refused(lanes, "/a", hanging) == "/a does not answer; see to its disk, then try again"
    )
    # at once, with no call of its own
    await refused(lanes, "/a", lambda: pytest.fail("it was called"))
    assert await lanes.run("/b", lambda: "b") == "b"
    hanging.let_go(1)
    async with asyncio.timeout(10):
        while await tried(lanes, "/a") != "a":
            pass


async def tried(lanes: Lanes, folder: str) -> str:
    try:
        return await lanes.run(folder, lambda: "a")
    except Exception as error:  # noqa: BLE001 - the lane is not free yet
        await asyncio.sleep(0)
        return str(error)


async def test_calls_of_one_folder_come_one_after_another(hanging: Hanging) -> None:
    lanes = Lanes(10.0)
    order: list[str] = []
    first = asyncio.create_task(lanes.run("/a", hanging))
    await hanging.begun.wait()
    second = asyncio.create_task(lanes.run("/a", lambda: order.append("second")))
    assert await lanes.run("/b", lambda: "b") == "b"
    assert order == []
    hanging.let_go(1)
    assert await first == "done"
    await second
    assert order == ["second"]


async def test_so_many_folders_may_hang_and_one_more_waits(hanging: Hanging) -> None:
    lanes = Lanes(0.05)
    for number in range(MAX_FOLDERS):
        await refused(lanes, f"/{number}", hanging)
    with pytest.raises(RequestRefused, match="too many requests wait for /more"):
        await lanes.run("/more", lambda: "never")
    hanging.let_go(MAX_FOLDERS)
    async with asyncio.timeout(10):
        while await tried(lanes, "/more") != "a":
            pass


async def test_so_many_requests_may_wait_for_one_folder(hanging: Hanging) -> None:
    lanes = Lanes(10.0)
    order: list[int] = []
    calls: list[Callable[[], object]] = [hanging]
    calls += [partial(order.append, number) for number in range(1, MAX_WAITING)]
    asked = [asyncio.create_task(lanes.run("/a", call)) for call in calls]
    await hanging.begun.wait()
    with pytest.raises(RequestRefused) as caught:
        await lanes.run("/a", lambda: "never")
    assert caught.value.data == {"reason": "busy", "retryable": True}
    hanging.let_go(1)
    await asyncio.gather(*asked)
    assert order == list(range(1, MAX_WAITING))
    assert await lanes.run("/a", lambda: "again") == "again"


async def test_who_waits_may_be_cancelled(hanging: Hanging) -> None:
    lanes = Lanes(10.0)
    first = asyncio.create_task(lanes.run("/a", hanging))
    await hanging.begun.wait()
    waiting = asyncio.create_task(lanes.run("/a", lambda: pytest.fail("it was called")))
    others = [asyncio.create_task(lanes.run(f"/{n}", hanging)) for n in range(MAX_FOLDERS)]
    await asyncio.sleep(0)
    for one in (waiting, others[-1]):
        one.cancel()
        with pytest.raises(asyncio.CancelledError):
            await one
    hanging.let_go(MAX_FOLDERS + 1)
    assert await asyncio.gather(first, *others[:-1]) == ["done"] * MAX_FOLDERS
    assert await lanes.run("/a", lambda: "a") == "a"


async def test_a_call_that_fails_is_raised(hanging: Hanging) -> None:
    with pytest.raises(ZeroDivisionError):
        await Lanes().run("/a", lambda: 1 // 0)


# ── directories ─────────────────────────────────────────────────────────────────────────────────


async def test_without_a_path_the_places_are_given(paths: Paths, project: Path) -> None:
    settings = Settings(
        remote=Remote(enabled=True, roots=[str(project), str(project / "src")]),
        trusted=[str(project / "src"), "/elsewhere", str(project / "gone")],
    )
    async with asking(paths, settings) as (hub, _):
        answer = await hub.ask(LINK, "_lembas/directories", {})
        assert answer["path"] == ""
        assert [(one["name"], one["accepted"]) for one in answer["places"]] == [
            ("p", False),
            ("src", True),
            ("gone", False),
        ]
        hub.control(kinds.SETTINGS, allowing(project, enabled=False))
        assert await hub.ask(LINK, "_lembas/directories", {}) == {"path": "", "places": []}
        off = await hub.ask(LINK, "_lembas/directories", {"path": str(project)})
        assert (off["code"], off["data"]) == (-32602, {"reason": "remote_off"})
        hub.control(kinds.SETTINGS, allowing())
        none = await hub.ask(LINK, "_lembas/directories", {"path": str(project)})
        assert (none["code"], none["data"]) == (-32602, {"reason": "folder"})


def test_a_directory_is_listed_with_those_in_it(project: Path, tmp_path: Path) -> None:
    for name in (".hidden", "B", "a"):
        (project / name).mkdir()
    (project / "out").symlink_to(tmp_path)
    (project / "in").symlink_to(project / "src")
    (project / "loop").symlink_to(project / "loop")
    (project / os.fsdecode(b"\xff")).mkdir()
    seen = directories.listing(str(project), allowing(project))
    assert [(one.name, one.accepted) for one in seen.entries] == [
        ("a", True),
        ("B", True),
        ("in", True),
        ("out", False),
        ("src", True),
        (".hidden", True),
    ]
    assert (seen.parent, seen.accepted, seen.error) == (None, True, msgspec.UNSET)
    assert directories.listing(f"{project}/src/deep/..", allowing(project)).parent == str(project)


def test_what_session_new_would_say_is_said(project: Path) -> None:
    settings = Settings(
        remote=Remote(enabled=True, roots=[str(project)]), trusted=[str(project / "src")]
    )
    seen = directories.listing(str(project), settings)
    assert isinstance(seen.reason, str)
    assert "`lembas trust add" in seen.reason
    assert [one.accepted for one in seen.entries] == [True]


@pytest.mark.parametrize("path", ["relative", "/", "{project}/..", "{project}/out", "/a\0b"])
def test_what_is_outside_is_refused(project: Path, path: str) -> None:
    (project / "out").symlink_to("/")
    with pytest.raises(RequestRefused) as caught:
        directories.listing(path.format(project=project), allowing(project))
    assert (caught.value.code, caught.value.data) == (-32602, {"reason": "folder"})


@pytest.mark.parametrize("name", ["gone", "README.md"])
def test_what_is_no_directory_is_answered_with_an_error(project: Path, name: str) -> None:
    seen = directories.listing(str(project / name), allowing(project))
    assert (seen.accepted, seen.entries) == (False, [])
    assert isinstance(seen.error, str)


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_a_directory_that_may_not_be_read_is_answered_with_an_error(project: Path) -> None:
    (project / "src").chmod(0)
    seen = directories.listing(str(project / "src"), allowing(project))
    (project / "src").chmod(stat.S_IRWXU)
    assert (seen.accepted, seen.entries) == (False, [])
    assert isinstance(seen.error, str)


def test_of_too_many_directories_it_is_said_how_many_are_left_out(project: Path) -> None:
    for number in range(directories.MAX_ENTRIES + 3):
        (project / "src" / f"d{number:05}").mkdir()
    seen = directories.listing(str(project / "src"), allowing(project))
    assert len(seen.entries) == directories.MAX_ENTRIES
    assert seen.error == "4 more directories are left out; name the one you mean"


@pytest.mark.parametrize("root", ["/", "{project}"])
def test_the_root_of_the_disk_has_a_name_and_no_parent(project: Path, root: str) -> None:
    seen = directories.places(allowing(Path(root.format(project=project))))
    assert [one.name for one in seen.places] == ["/" if root == "/" else "p"]
    assert directories.listing(root.format(project=project), allowing(Path("/"))).parent in (
        None,
        str(project.parent),
    )
