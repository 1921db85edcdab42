"""The searches of one session: ripgrep, or our own program in its place; bounded, and ended with their call.

A process is started and read in a thread: to fork a whole worker costs more than many a search takes.
"""

import asyncio
import fcntl
import os
import select
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from lembasd.device import environment
from lembasd.device.held_path import held
from lembasd.engine.native.tools.outcome import Unusable, why
from lembasd.engine.native.tools.search_program import Request
from lembasd.protocol.limits import MIB
from lembasd.store.apart import run_apart

T = TypeVar("T")

#: a search that takes longer is ended, and what it found so far is shown
SEARCH_S: Final = 30.0
#: of a search's output; of more, the search is ended
MAX_OUTPUT_BYTES: Final = 32 * MIB
#: of what a search says of itself; the rest is not kept
MAX_COMPLAINT_BYTES: Final = 16 * 1024
#: searches at once; more wait
MAX_SEARCHES: Final = 4
#: how long a search that was ended may take to be gone; it then hangs in the kernel, and its thread waits for it alone
GONE_S: Final = 2.0
#: our own program ends by itself then: whoever started it was killed
_LEFT_ALONE_S: Final = 2 * int(SEARCH_S)
_READ_BYTES: Final = 1 * MIB
_HAS_DESCRIPTOR_PATHS: Final = Path("/proc/self/fd").is_dir()
PROGRAM: Final = "lembasd.engine.native.tools.search_program"


class Bounds(Struct, frozen=True):
    """Of one search."""

    seconds: float = SEARCH_S
    output_bytes: int = MAX_OUTPUT_BYTES


BOUNDS: Final = Bounds()


class Found(Struct, frozen=True):
    """What a search wrote. `stopped`: why it did not end by itself, "" when it did. `complaint`: why there was none."""

    data: bytes
    stopped: str = ""
    complaint: str = ""


class Search:
    """One search, in a thread; `end` may come from another one, at any time."""

    def __init__(self, variables: dict[str, str], bounds: Bounds = BOUNDS) -> None:
        self._variables = variables
        self._bounds = bounds
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = False
        self._lock = threading.Lock()

    def run(self, folder: Path, request: Request) -> Found:
        """Search `folder`, which has no link in its path. Blocks; raises Unusable."""
        return self.output(folder, _command(request), {})

    def output(self, folder: Path, command: Sequence[str], variables: dict[str, str]) -> Found:
        """What a command writes that looks at `folder`, with these variables too. Blocks; raises Unusable."""
        try:
            with held(folder) as handle:
                process = self._started(folder, handle, command, variables)
        except (OSError, ValueError) as error:
            reason = why(error, str(folder)) if isinstance(error, OSError) else str(error)
            raise Unusable(f"the search cannot be started: {reason}") from error
        try:
            return _read(process, self._bounds)
        finally:
            with self._lock:
                self._kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()

    def end(self) -> None:
        """End its process; one that has not started never will."""
        with self._lock:
            self._is_over = True
            self._kill()

    def _kill(self) -> None:
        # not reaped yet, so its number is nobody else's: only `output` waits for it, after this
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()

    def _started(
        self, folder: Path, handle: int, command: Sequence[str], variables: dict[str, str]
    ) -> "subprocess.Popen[bytes]":
        # by its descriptor where there is a way to: the folder that was opened, whatever has its name now
        where = f"/proc/self/fd/{handle}" if _HAS_DESCRIPTOR_PATHS else str(folder)
        program = held_ripgrep() if command[0] == ripgrep() else None
        with self._lock:
            if self._is_over:
                raise Unusable("the search was cancelled")
            self._process = subprocess.Popen(
                command,
                executable=None if program is None else f"/proc/self/fd/{program}",
                pass_fds=() if program is None else (program,),
                cwd=where,
                env={**self._variables, **variables},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        return self._process


class Searches:
    """Runs them. A process of a search starts no other."""

    def __init__(self, session_id: str, epoch: int, bounds: Bounds = BOUNDS) -> None:
        self._session_id = session_id
        self._epoch = epoch
        self._bounds = bounds
        self._room = asyncio.Semaphore(MAX_SEARCHES)
        self._running: set[Search] = set()

    async def run(self, work: Callable[[Search], T]) -> T:
        """What `work` gives or raises, in a thread, with a search to use. Cancelling ends the search first."""
        async with self._room:
            variables = environment.for_tools(os.environ, self._session_id, self._epoch)
            search = Search(variables, self._bounds)
            self._running.add(search)
            task = asyncio.ensure_future(run_apart(lambda: work(search)))
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                search.end()
                await asyncio.wait({task}, timeout=GONE_S)
                task.cancel()
                raise
            finally:
                self._running.discard(search)

    async def aclose(self) -> None:
        """End those that run."""
        for search in self._running:
            search.end()


def _read(process: "subprocess.Popen[bytes]", bounds: Bounds) -> Found:
    """All that it writes, within the bounds."""
    kept = {pipe.fileno(): bytearray() for pipe in (process.stdout, process.stderr) if pipe}
    out, err = kept
    if sys.platform == "linux":
        with suppress(OSError):  # more than this user may have
            fcntl.fcntl(out, fcntl.F_SETPIPE_SZ, _READ_BYTES)
    poll = select.poll()
    for pipe in kept:
        poll.register(pipe, select.POLLIN)
    until = time.monotonic() + bounds.seconds
    stopped, waiting = "", set(kept)
    while waiting and not stopped:
        left_s = until - time.monotonic()
        ready = poll.poll(max(0.0, left_s) * 1000)
        if not ready:
            stopped = f"it took over {bounds.seconds:g} s"
        for pipe, _ in ready:
            data = os.read(pipe, _READ_BYTES)
            if not data:
                poll.unregister(pipe)
                waiting.discard(pipe)
            kept[pipe] += data
        del kept[err][MAX_COMPLAINT_BYTES:]
        if len(kept[out]) > bounds.output_bytes:
            stopped = "there is too much of it"
    found = bytes(kept[out])
    complaint = kept[err].decode(errors="replace").strip()
    return Found(found, stopped, "" if found or stopped else complaint)


@cache
def ripgrep() -> str | None:
    """The ripgrep that came with this package, None without one. Another's is not taken: who knows what that does."""
    if os.environ.get("LEMBASD_PORTABLE"):
        return None
    folders = [Path(sysconfig.get_path("scripts")), Path(sys.executable).parent]
    user = sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))
    found = (folder / "rg" for folder in [*folders, Path(user)])
    return next((str(one) for one in found if os.access(one, os.X_OK)), None)


@cache
def held_ripgrep() -> int | None:
    """A descriptor of it, by which it is there as long as this process is, whatever is installed meanwhile.

    None where a program cannot be started by its descriptor.
    """
    program = ripgrep()
    if program is None or not _HAS_DESCRIPTOR_PATHS:
        return None
    try:
        return os.open(program, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None  # gone since


def _command(request: Request) -> Sequence[str]:
    program = ripgrep()
    if program is None:
        # without what would change how the program is found, or what it loads
        asked = msgspec.json.encode(request).decode()
        return [sys.executable, "-P", "-E", "-m", PROGRAM, asked, str(_LEFT_ALONE_S)]
    command = [
        program,
        "--no-config",
        "--no-messages",
        "--hidden",
        "--null",
        "--color=never",
        # git's rules alone, so that git can be asked
        "--no-ignore-dot",
        "--glob=!.git",
    ]
    if request.names:
        # a type does not bring back what is ignored, as a glob would
        command += [f"--type-add=wanted:{name}" for name in request.names]
        command.append("--type=wanted")
    if request.pattern is None:
        return [*command, "--files", "--", "./"]
    command += [
        "--line-number",
        "--no-heading",
        "--with-filename",
        "--no-context-separator",
        "--crlf",
        "--engine=auto",
        # the whole line where it is shown whole, and then as much as is shown of one
        "--max-columns=4000",
        "--max-columns-preview",
        f"--context={request.context}",
    ]
    if request.ignore_case:
        command.append("--ignore-case")
    if request.literal:
        command.append("--fixed-strings")
    if request.file is not None:
        command.append("--text")  # the caller looked whether it is one
    return [*command, "--", request.pattern, request.file or "./"]
