"""What the file tools cost: the loop's longest stall while a file is read, and searches over ripgrep alone."""

import asyncio
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

from benchmarks.measure import Figure, median
from lembasd.engine.native.searches import Searches, ripgrep
from lembasd.engine.native.tools.files import Files, Target, Use
from lembasd.engine.native.tools.glob import glob
from lembasd.engine.native.tools.grep import grep
from lembasd.engine.native.tools.outcome import Outcome
from lembasd.engine.native.tools.read import read
from lembasd.engine.native.tools.text_file import MAX_TEXT_BYTES
from lembasd.store.apart import run_apart

#: of the tree that is searched
FOLDERS: Final = 400
FILES_OF_ONE: Final = 50
REPEATS: Final = 21
READS: Final = 20
#: how often the loop's turns are looked at
_TICK_S: Final = 0.0005


def _use(root: Path, path: Path) -> Use:
    files = Files(tuple, root / "session")
    return Use(files, "call", {"path": Target(path, path.name)})


# ── the loop ────────────────────────────────────────────────────────────────────────────────────


class _Ticks:
    """How late the loop comes to a timer of its own, at worst, as far as this process was busy meanwhile.

    A machine with other work lets the loop wait too; that is not what is measured.
    """

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._due = self._spent = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._due, self._spent = loop.time() + _TICK_S, time.process_time()
        self._timer = loop.call_later(_TICK_S, self._tick)

    def _tick(self) -> None:
        late = asyncio.get_running_loop().time() - self._due
        busy = time.process_time() - self._spent
        self.longest_s = max(self.longest_s, min(late, busy))
        self.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


async def _stall(work: Callable[[], Awaitable[object]]) -> float:
    """The loop's longest stall meanwhile, in milliseconds."""
    ticks = _Ticks()
    ticks.start()
    await work()
    ticks.stop()
    return ticks.longest_s * 1e3


async def _reading(root: Path, name: str, content: bytes) -> Figure:
    path = root / f"{name}.txt"
    path.write_bytes(content)
    use = _use(root, path)
    work = {"offset": 50_000}
    stalls = [await _stall(lambda: run_apart(lambda: read(use, work))) for _ in range(READS)]
    idle = [await _stall(lambda: asyncio.sleep(0.05)) for _ in range(READS)]
    basis = (
        f"median of {READS} reads, {max(stalls):.1f} at worst; "
        f"without any work {median(idle):.1f}, {max(idle):.1f} at worst"
    )
    what = f"loop's stall, reading 10 MB ({name})"
    return Figure(what, median(stalls), "ms", 5, 2, higher=False, basis=basis)


# ── searches ────────────────────────────────────────────────────────────────────────────────────


def _tree(root: Path) -> None:
    """A repository of 20,000 files."""
    rng = Random(1)
    words = [f"word{number}" for number in range(500)]
    words += ["import os", "def handle", "class Thing", "return value"]
    for folder in range(FOLDERS):
        path = root / f"package{folder // 10}" / f"module{folder % 10}"
        path.mkdir(parents=True)
        for number in range(FILES_OF_ONE):
            suffix = rng.choice(["py", "ts", "md", "txt", "json"])
            lines = [" ".join(rng.choice(words) for _ in range(8)) for _ in range(40)]
            (path / f"file{number}.{suffix}").write_text("\n".join(lines) + "\n")
    (root / ".gitignore").write_text("*.json\n/package3/\n")
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)


def _alone(root: Path, arguments: Sequence[str]) -> float:
    """Seconds that ripgrep takes, its output read by nobody but us."""
    begun = time.perf_counter()
    command = [ripgrep() or "rg", "--no-config", "--hidden", "--glob=!.git", *arguments]
    subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=False)
    return time.perf_counter() - begun


async def _ratio(
    name: str, root: Path, alone: Sequence[str], ours: Callable[[], Awaitable[Outcome]]
) -> Figure:
    pairs: list[tuple[float, float]] = []
    for _ in range(REPEATS):
        plain = _alone(root, alone)
        begun = time.perf_counter()
        outcome = await ours()
        pairs.append((time.perf_counter() - begun, plain))
        assert not outcome.is_error, outcome.output
    own, plain = median([one for one, _ in pairs]), median([one for _, one in pairs])
    # of each pair, for both were made under the same load
    ratio = median([one / other for one, other in pairs])
    basis = f"{own * 1e3:.0f} over {plain * 1e3:.0f} ms, {REPEATS} pairs, 20,000 files"
    return Figure(f"{name} over rg alone", ratio, "", 1.2, 1.1, higher=False, basis=basis)


async def _searching(root: Path) -> list[Figure]:
    searches = Searches("ses_0", 1)
    use = _use(root.parent, root)

    def found(
        tool: Callable[..., Awaitable[Outcome]], **args: object
    ) -> Callable[[], Awaitable[Outcome]]:
        return lambda: tool(searches, use, args)

    return [
        await _ratio("glob **/*.py", root, ["--files"], found(glob, pattern="**/*.py")),
        await _ratio(
            "grep, few lines",
            root,
            ["--line-number", r"word77\b.*import os", "./"],
            found(grep, pattern=r"word77\b.*import os"),
        ),
        await _ratio(
            "grep, 9,500 lines",
            root,
            ["--line-number", "class Thing", "./"],
            found(grep, pattern="class Thing"),
        ),
    ]


async def measure() -> list[Figure]:
    """The loop's stalls and the searches' cost."""
    line = "def total(price, count):  # grüße\n"
    text = (line * (MAX_TEXT_BYTES // len(line.encode()) - 1)).encode()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()  # noqa: ASYNC240 - before anything is measured
        figures = [
            await _reading(root, "UTF-8", text),
            await _reading(root, "Latin 1", text.decode().encode("latin-1")),
        ]
        await asyncio.to_thread(_tree, root / "tree")
        return figures + await _searching(root / "tree")
