"""`glob`, `grep` and `list`: by ripgrep and by the program in its place, held against each other and against git."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from lembasd.engine.native.searches import PROGRAM, Bounds, Search, Searches, ripgrep
from lembasd.engine.native.tools.outcome import Outcome
from lembasd.engine.native.tools.search_program import Request
from lembasd.engine.native.tools.walk import sight_of, walk
from tests.support.desk import Desk

BOTH = ["ripgrep", "program"]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    root = tmp_path.resolve() / "project"
    root.mkdir()
    return Desk(root)


@pytest.fixture
def searches() -> Searches:
    return Searches("ses_0", 1)


@pytest.fixture(params=BOTH)
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """With ripgrep, and as where there is none."""
    ripgrep.cache_clear()
    if request.param == "program":
        monkeypatch.setenv("LEMBASD_PORTABLE", "1")
    elif ripgrep() is None:
        pytest.skip("there is no ripgrep for this machine")
    yield request.param
    ripgrep.cache_clear()


def put(root: Path, *names: str, content: str = "needle\n") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def git(root: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)


def test_ripgrep_comes_with_the_package() -> None:
    ripgrep.cache_clear()
    found = ripgrep()
    assert found is not None
    assert subprocess.run([found, "--version"], check=True, capture_output=True).stdout


# ── what git ignores ────────────────────────────────────────────────────────────────────────────


def oracle(root: Path, names: list[str]) -> list[str]:
    """Those that git does not ignore."""
    asked = b"\0".join(map(os.fsencode, names))
    command = ["git", "check-ignore", "--no-index", "-z", "--stdin"]
    said = subprocess.run(command, input=asked, cwd=root, capture_output=True, check=False).stdout
    ignored = {os.fsdecode(one) for one in said.split(b"\0")}
    return sorted(set(names) - ignored)


def listed(root: Path) -> list[str]:
    """Every file, without git's own."""
    return [
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink() and ".git" not in path.parts
    ]


def searched(root: Path) -> list[str]:
    """The files that a search looks at."""
    found = Search(dict(os.environ)).run(root, Request())
    return sorted(os.fsdecode(one)[2:] for one in found.data.split(b"\0") if one)


def walked(root: Path) -> list[str]:
    handle = os.open(root, os.O_RDONLY)
    try:
        return sorted(walk(handle, root, sight_of(root)))
    finally:
        os.close(handle)


RULES = {
    ".gitignore": "*.log\n/build/\n!keep.log\n# no.txt\n\\#hash\ndeep/**/x\n**/tmp\ntrail \\ \n*.[oa]\n",
    "sub/.gitignore": "!*.log\n/only\nqu?x\n",
    "sub/deeper/.gitignore": "*.log\r\n!/b.log\r\n",
    ".git/info/exclude": "/secret.txt\n",
}
FILES = [
    *("a.log", "keep.log", "build/x", "sub/build/x", "no.txt", "#hash", "deep/x", "deep/1/2/x"),
    *("tmp/a", "sub/tmp/b", "trail  ", "a.o", "a.a", "a.c", "sub/a.log", "sub/only", "sub/q/only"),
    *("sub/quux", "sub/deeper/a.log", "sub/deeper/b.log", "secret.txt", "sub/secret.txt"),
    *(
        ".hidden",
        ".github/a.yml",
        "-dash",
        "--files",
        "new\nline",
        "tab\t",
        "sp ace",
        'quo"te',
        "é",
    ),
]


def test_what_git_ignores_is_what_is_left_out(desk: Desk, either: str) -> None:
    git(desk.root)
    put(desk.root, *FILES)
    (desk.root / os.fsdecode(b"bad\xff")).touch()
    for name, text in RULES.items():
        put(desk.root, name, content=text)
    expected = oracle(desk.root, listed(desk.root))
    assert "keep.log" in expected
    assert "a.log" not in expected
    assert (searched(desk.root), walked(desk.root)) == (expected, expected)
    assert [f"sub/{one}" for one in searched(desk.root / "sub")] == [
        one for one in expected if one.startswith("sub/")
    ]


def test_the_persons_own_ignore_file_counts(desk: Desk, either: str) -> None:
    git(desk.root)
    put(desk.root, "a.swp", "a.bak", "a.c")
    home = Path(os.environ["HOME"])
    put(home, ".config/git/ignore", content="*.swp\n")
    assert (searched(desk.root), walked(desk.root)) == (["a.bak", "a.c"], ["a.bak", "a.c"])
    put(home, "own rules".replace(" ", "_"), content="*.bak\n")
    put(home, ".gitconfig", content='[core]\n\texcludesFile = "~/own_rules"\n')
    expected = oracle(desk.root, listed(desk.root))
    assert (
        (searched(desk.root), walked(desk.root)) == (expected, expected) == (["a.c", "a.swp"],) * 2
    )


def test_a_repository_in_another_and_a_worktree_have_rules_of_their_own(
    desk: Desk, either: str
) -> None:
    outer = desk.root
    git(outer)
    put(outer, ".gitignore", content="*.log\n")
    git(outer / "inner")
    put(outer, "inner/a.log", "inner/b.tmp", "a.log", "c")
    put(outer, "inner/.gitignore", content="*.tmp\n")
    assert (
        searched(outer) == walked(outer) == [".gitignore", "c", "inner/.gitignore", "inner/a.log"]
    )
    run = ["git", "-C", str(outer), "-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run([*run, "commit", "-q", "--allow-empty", "-m", "m"], check=True)
    subprocess.run([*run, "worktree", "add", "-q", str(outer.parent / "tree")], check=True)
    put(outer, ".git/info/exclude", content="out\n")
    put(outer.parent / "tree", "out", "in")
    assert searched(outer.parent / "tree") == walked(outer.parent / "tree") == ["in"]


def test_without_a_repository_nothing_is_ignored(desk: Desk, either: str) -> None:
    put(desk.root, "a.log", ".ignore", ".gitignore", content="*.log\n")
    assert searched(desk.root) == walked(desk.root) == [".gitignore", ".ignore", "a.log"]


@pytest.mark.parametrize("seed", range(8))
def test_the_walk_leaves_out_what_git_ignores_whatever_the_rules(desk: Desk, seed: int) -> None:
    # (ripgrep is not asked: it takes [!a] for a / too, which git does not)
    rng = random.Random(seed)
    pieces = [
        "a",
        "b",
        "c",
        ".",
        "*",
        "?",
        "[ab]",
        "[!a]",
        "[^b-c]",
        "\\a",
        "[a-c]",
        "[[:alpha:]]",
        "é",
    ]

    def name() -> str:
        return "".join(rng.choice("ab.cé") for _ in range(rng.randint(1, 3))).strip(".") or "a"

    def pattern() -> str:
        parts = []
        for _ in range(rng.randint(1, 3)):
            part = "".join(rng.choice(pieces) for _ in range(rng.randint(1, 3)))
            while "**" in part:
                part = part.replace("**", "*")
            parts.append("**" if rng.random() < 0.2 else part)
        start, end = (
            rng.choice(["", "", "!"]) + rng.choice(["", "", "/"]),
            rng.choice(["", "/", " "]),
        )
        return start + "/".join(parts) + end

    git(desk.root)
    for _ in range(60):
        path = desk.root.joinpath(*(name() for _ in range(rng.randint(1, 4))))
        if not any(one.is_file() for one in path.parents) and not path.exists():
            put(path.parent, path.name)
    folders = [desk.root, *(one for one in desk.root.rglob("*") if one.is_dir())]
    for folder in rng.sample([one for one in folders if ".git" not in one.parts], 3):
        put(folder, ".gitignore", content="\n".join(pattern() for _ in range(4)))
    put(desk.root, ".git/info/exclude", content=pattern())
    assert walked(desk.root) == oracle(desk.root, listed(desk.root))


# ── glob ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.py", ["a.py", "src/b.py", "src/x/c.py"]),
        ("**/*.py", ["a.py", "src/b.py", "src/x/c.py"]),
        ("/src", None),
        ("src/*.py", ["src/b.py"]),
        ("./src/*.py", ["src/b.py"]),
        ("src/**", ["src/b.py", "src/d.ts", "src/e.tsx", "src/x/c.py"]),
        ("src/", ["src/b.py", "src/d.ts", "src/e.tsx", "src/x/c.py"]),
        ("*.{ts,tsx}", ["src/d.ts", "src/e.tsx"]),
        ("**/{b,c}.*", ["src/b.py", "src/x/c.py"]),
        ("{src/x,.}/?.py", ["a.py", "src/x/c.py", "é.py"]),
        ("[ab].py", ["a.py", "src/b.py"]),
        ("?.py", ["a.py", "src/b.py", "src/x/c.py", "é.py"]),
        ("*é*", ["é.py"]),
        (".*", [".env"]),
        ("-*", ["-dash.md"]),
        ("*.log", []),
        ("nothing", []),
    ],
)
async def test_files_are_found_by_their_names(
    desk: Desk, searches: Searches, either: str, pattern: str, expected: list[str] | None
) -> None:
    git(desk.root)
    put(desk.root, "a.py", "src/b.py", "src/x/c.py", "src/d.ts", "src/e.tsx", ".env", "-dash.md")
    put(desk.root, "é.py", "a.log")
    put(desk.root, ".git/info/exclude", content="*.log\n")
    if expected is not None and pattern in ("*.py", "**/*.py"):
        expected = [*expected, "é.py"]
    outcome = await desk.glob(searches, pattern)
    if expected is None:
        assert outcome.is_error
        assert "absolute" in outcome.output
    else:
        assert outcome == Outcome("\n".join(expected) or "no files match")


@pytest.mark.parametrize("pattern", ["[a", "a\\", "{a,b}" * 9, ""])
async def test_what_is_no_glob_is_said_so(desk: Desk, searches: Searches, pattern: str) -> None:
    outcome = await desk.glob(searches, pattern)
    assert outcome.is_error
    assert "glob" in outcome.output


@pytest.fixture
def endless(desk: Desk) -> Iterator[None]:
    """Folders in folders, more than Python goes into."""
    subprocess.run(["mkdir", "-p", "d/" * 1500], cwd=desk.root, check=True)
    yield
    subprocess.run(["rm", "-rf", str(desk.root / "d")], check=True)


@pytest.mark.usefixtures("endless")
async def test_folders_in_folders_without_end_hide_nothing_beside_them(
    desk: Desk, searches: Searches, either: str
) -> None:
    put(desk.root, "a.txt", "z.txt")
    assert await desk.glob(searches, "*.txt") == Outcome("a.txt\nz.txt")


async def test_many_files_are_counted(desk: Desk, searches: Searches, either: str) -> None:
    put(desk.root, *(f"x/{number:04}.py" for number in range(450)))
    lines = (await desk.glob(searches, "*.py", path="x")).output.split("\n")
    assert (lines[0], lines[397], lines[398:]) == (
        "x/0000.py",
        "x/0397.py",
        ["[52 more; give a narrower pattern, or a path]"],
    )


async def test_names_that_are_no_text_are_spelled(
    desk: Desk, searches: Searches, either: str
) -> None:
    put(desk.root, "two\nlines", "esc\x1b[1m")
    (desk.root / os.fsdecode(b"bad\xff")).write_text("needle\n")
    spelled = ["bad\\xff", "esc\\x1b[1m", "two\\nlines"]
    assert (await desk.glob(searches, "*")).output.split("\n") == spelled
    assert (await desk.grep(searches, "needle", files_only=True)).output.split("\n") == [
        f"{one}: 1" for one in spelled
    ]


@pytest.mark.parametrize("path", ["gone", "a.txt", "pipe", "loop"])
async def test_a_folder_that_is_none_is_said_so(desk: Desk, searches: Searches, path: str) -> None:
    put(desk.root, "a.txt")
    os.mkfifo(desk.root / "pipe")
    (desk.root / "loop").symlink_to("loop")
    says = {
        "gone": "No such file or directory: gone",
        "a.txt": "a.txt is a file, not a directory",
        "pipe": "pipe is a pipe, not a file or a directory",
        "loop": "loop is a link, not a file or a directory",
    }
    assert await desk.glob(searches, "*", path=path) == Outcome(says[path], is_error=True)


# ── grep ────────────────────────────────────────────────────────────────────────────────────────


def text_files(root: Path) -> None:
    git(root)
    put(root, "a.py", content="def one():\n    return 1\n\n\ndef two():\n    return 2\n")
    put(root, "src/b.ts", content="function one() {}\r\nfunction ONE() {}\r\n")
    put(root, "a.log", content="one\n")
    put(root, ".git/info/exclude", content="*.log\n")
    (root / "u16.txt").write_bytes("one\n".encode("utf-16"))
    (root / "bom.txt").write_bytes(b"\xef\xbb\xbfone\n")
    (root / "latin.txt").write_bytes(b"one caf\xe9\n")
    (root / "bin").write_bytes(b"one\n\0")
    (root / "late").write_bytes(b"one\n" + b"x" * 100_000 + b"\0\none \0\n")


EVERYWHERE = """a.py
     1: def one():
bom.txt
     1: one
latin.txt
     1: one caf\\xe9
src/b.ts
     1: function one() {}
u16.txt
     1: one"""


@pytest.mark.parametrize(
    ("pattern", "args", "expected"),
    [
        (
            "one",
            {},
            EVERYWHERE,
        ),
        (
            "^one",
            {"glob": "*.txt"},
            "bom.txt\n     1: one\nlatin.txt\n     1: one caf\\xe9\nu16.txt\n     1: one",
        ),
        ("one", {"glob": "src/**"}, "src/b.ts\n     1: function one() {}"),
        (
            "ONE",
            {"path": "src", "ignore_case": True},
            "src/b.ts\n     1: function one() {}\n     2: function ONE() {}",
        ),
        ("one", {"path": "a.py"}, "a.py\n     1: def one():"),
        ("one", {"path": "a.log"}, "a.log\n     1: one"),
        ("one", {"path": "src/b.ts", "glob": "*.py"}, "src/b.ts\n     1: function one() {}"),
        ("one", {"path": "bin"}, "bin is a binary file"),
        ("one", {"path": "late"}, "late\n     1: one\n     3: one \\0"),
        ("{}$", {"literal": False, "path": "src"}, None),
        (
            r"\{\}$",
            {"path": "src"},
            "src/b.ts\n     1: function one() {}\n     2: function ONE() {}",
        ),
        (
            "{}",
            {"literal": True, "path": "src"},
            "src/b.ts\n     1: function one() {}\n     2: function ONE() {}",
        ),
        (r"return (?=2)", {}, "a.py\n     6:     return 2"),
        (r"(?<word>re)turn 1", {}, "a.py\n     2:     return 1"),
        (r"[[:digit:]]", {"path": "a.py"}, "a.py\n     2:     return 1\n     6:     return 2"),
        (r"\bdef\s\w+\(\)", {"files_only": True}, "a.py: 2"),
        (
            "return",
            {"path": "a.py", "context": 1},
            "a.py\n     1- def one():\n     2:     return 1\n     3- \n     5- def two():\n     6:     return 2",
        ),
        ("-", {}, "no matches"),
        ("--files", {}, "no matches"),
        ("needle", {}, "no matches"),
    ],
)
async def test_lines_are_found_by_what_stands_in_them(
    desk: Desk,
    searches: Searches,
    either: str,
    pattern: str,
    args: dict[str, object],
    expected: str | None,
) -> None:
    text_files(desk.root)
    outcome = await desk.grep(searches, pattern, **args)
    if expected is None:
        assert outcome.is_error or outcome.output.startswith("src/b.ts")
    else:
        assert outcome == Outcome(expected, is_error="binary" in expected)


@pytest.mark.parametrize("pattern", ["fo(", "[a", "*", r"(?=a)\1"])
async def test_what_is_no_expression_is_said_so(
    desk: Desk, searches: Searches, either: str, pattern: str
) -> None:
    put(desk.root, "a", content="fo(\n")
    outcome = await desk.grep(searches, pattern)
    assert outcome.is_error
    assert outcome.output.startswith("`pattern` is no expression that can be searched for (")
    assert outcome.output.endswith("; escape what is meant as it stands, or set literal")
    assert not (await desk.grep(searches, pattern, literal=True)).is_error


async def test_many_matches_and_long_lines_are_cut_and_counted(
    desk: Desk, searches: Searches, either: str
) -> None:
    put(desk.root, "a", content="needle\n" * 390)
    put(desk.root, "b", content="é" * 3000 + "needle\n" + "needle\n" * 9)
    put(desk.root, "c")
    lines = (await desk.grep(searches, "needle")).output.split("\n")
    assert lines[391:393] == ["b", f"     1: {'é' * 500} [line cut]"]
    assert lines[398:] == [
        "[5 more matches, in 2 files; narrow the pattern, or give a path or a glob]"
    ]


@pytest.mark.parametrize("pattern", ["", "a\nb"])
async def test_an_expression_is_for_one_line(desk: Desk, searches: Searches, pattern: str) -> None:
    assert (await desk.grep(searches, pattern)).is_error


async def test_nothing_protected_is_found(desk: Desk, searches: Searches, either: str) -> None:
    put(desk.root, "secret/key", "secret2/key", "open/a")
    desk = Desk(desk.root, (desk.root / "secret",))
    assert (await desk.glob(searches, "*")).output == "open/a\nsecret2/key"
    assert (
        await desk.grep(searches, "needle", files_only=True)
    ).output == "open/a: 1\nsecret2/key: 1"
    says = "secret is protected: no tool may touch it in any mode"
    assert (await desk.grep(searches, "needle", path="secret")).output == says


async def test_no_link_is_followed(desk: Desk, searches: Searches, either: str) -> None:
    put(desk.root.parent / "outside", "key")
    put(desk.root, "a")
    (desk.root / "link").symlink_to(desk.root.parent / "outside")
    (desk.root / "file").symlink_to(desk.root.parent / "outside" / "key")
    assert (await desk.glob(searches, "*")).output == "a"
    assert (await desk.grep(searches, "needle", files_only=True)).output == "a: 1"


async def test_the_persons_settings_of_ripgrep_change_nothing(
    desk: Desk, searches: Searches, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(desk.root.parent, "rc", content="--invert-match\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(desk.root.parent / "rc"))
    put(desk.root, "a", content="one\ntwo\n")
    assert (await desk.grep(searches, "one")).output == "a\n     1: one"


# ── bounds ──────────────────────────────────────────────────────────────────────────────────────


def running() -> list[psutil.Process]:
    return [one for one in psutil.Process().children() if one.status() != psutil.STATUS_ZOMBIE]


async def test_an_expression_that_runs_for_ever_ends_with_its_call(
    desk: Desk, searches: Searches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEMBASD_PORTABLE", "1")
    ripgrep.cache_clear()
    put(desk.root, "a", content="a" * 60 + "\n")
    task = asyncio.ensure_future(desk.grep(searches, "(a+)+b"))
    async with asyncio.timeout(20):
        while not any("search_program" in " ".join(one.cmdline()) for one in running()):
            await asyncio.to_thread(os.sched_yield)
        task.cancel()
        await asyncio.wait({task})
    assert task.cancelled()
    assert running() == []
    ripgrep.cache_clear()


async def test_an_expression_that_runs_for_ever_ends_after_its_time(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEMBASD_PORTABLE", "1")
    searches = Searches("ses_0", 1, Bounds(seconds=1.5))
    ripgrep.cache_clear()
    put(desk.root, "a", content="a" * 60 + "\n")
    assert await desk.grep(searches, "(a+)+b") == Outcome(
        "[the search was ended: it took over 1.5 s; narrow it]", is_error=True
    )
    assert running() == []
    ripgrep.cache_clear()


async def test_the_program_ends_by_itself_where_nobody_is_left_to_end_it(desk: Desk) -> None:
    put(desk.root, "a", content="a" * 60)
    request = Request(pattern="(a+)+b")
    command = [sys.executable, "-m", PROGRAM, msgspec.json.encode(request).decode(), "1"]
    process = await asyncio.create_subprocess_exec(*command, cwd=desk.root)
    assert await process.wait() == -signal.SIGALRM


async def test_closing_the_searches_ends_them(
    desk: Desk, searches: Searches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEMBASD_PORTABLE", "1")
    ripgrep.cache_clear()
    put(desk.root, "a", content="a" * 60 + "\n")
    task = asyncio.ensure_future(desk.grep(searches, "(a+)+b"))
    async with asyncio.timeout(20):
        while not running():
            await asyncio.to_thread(os.sched_yield)
        await searches.aclose()
        await task
    assert running() == []
    ripgrep.cache_clear()


async def test_a_search_that_finds_too_much_is_ended_and_shows_what_it_found(
    desk: Desk, either: str
) -> None:
    searches = Searches("ses_0", 1, Bounds(output_bytes=10_000))
    put(desk.root, *(f"{number}.txt" for number in range(400)), content="needle\n" * 50)
    found = await desk.grep(searches, "needle")
    assert found.output.endswith("\n[the search was ended: there is too much of it; narrow it]")
    assert ".txt\n     1: needle\n" in found.output
    assert not found.is_error
