"""The searches of one session: ripgrep, or our own program in its place; bounded, and ended with their call."""

import asyncio
import os
import sys
import sysconfig
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from lembasd.device import environment
from lembasd.device.held_path import open_directory
from lembasd.engine.native.tools.outcome import Unusable, why
from lembasd.engine.native.tools.search_program import Request
from lembasd.protocol.limits import MIB
from lembasd.store.apart import run_apart

#: a search that takes longer is ended, and what it found so far is shown
SEARCH_S: Final = 30.0
#: of a search's output; of more, the search is ended
MAX_OUTPUT_BYTES: Final = 32 * MIB
#: of what a search says of itself; the rest is not read
MAX_COMPLAINT_BYTES: Final = 16 * 1024
#: searches at once; more wait
MAX_SEARCHES: Final = 4
_READ_BYTES: Final = 1 * MIB
_HAS_DESCRIPTOR_PATHS: Final = Path("/proc/self/fd").is_dir()
_PROGRAM: Final = "lembasd.engine.native.tools.search_program"


class Found(Struct, frozen=True):
    """What a search wrote. `stopped`: why it did not end by itself, "" when it did. `complaint`: why there was none."""

    data: bytes
    stopped: str = ""
    complaint: str = ""


class Searches:
    """Runs them. A process of a search starts no other."""

    def __init__(self, session_id: str, epoch: int) -> None:
        self._session_id = session_id
        self._epoch = epoch
        self._room = asyncio.Semaphore(MAX_SEARCHES)
        self._running: set[Process] = set()

    async def run(self, folder: Path, request: Request) -> Found:
        """Search `folder`, which has no link in its path. Raises Unusable. Cancelling ends the process first."""
        async with self._room:
            try:
                handle = await run_apart(lambda: open_directory(folder))
            except OSError as error:
                raise Unusable(why(error, str(folder))) from error
            try:
                process = await self._started(folder, handle, request)
            finally:
                os.close(handle)
            return await self._read(process)

    async def aclose(self) -> None:
        """End those that run."""
        for process in [*self._running]:
            await _end(process)

    async def _started(self, folder: Path, handle: int, request: Request) -> Process:
        # by its descriptor where there is a way to: the folder that was opened, whatever has its name now
        where = f"/proc/self/fd/{handle}" if _HAS_DESCRIPTOR_PATHS else str(folder)
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *_command(request),
                cwd=where,
                env=environment.for_tools(os.environ, self._session_id, self._epoch),
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                limit=_READ_BYTES,
                start_new_session=True,
            )
        )
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # cancelled as it was started: it must not run on, unknown to anybody
            with suppress(OSError, ValueError):
                await _end(await starting)
            raise
        except (OSError, ValueError) as error:
            raise Unusable(f"the search cannot be started: {error}") from error

    async def _read(self, process: Process) -> Found:
        self._running.add(process)
        output = bytearray()
        stopped = ""
        assert process.stdout is not None  # noqa: S101 - asked for
        assert process.stderr is not None  # noqa: S101
        complaining = asyncio.ensure_future(_complaint(process.stderr))
        try:
            async with asyncio.timeout(SEARCH_S):
                while data := await process.stdout.read(_READ_BYTES):
                    output += data
                    if len(output) > MAX_OUTPUT_BYTES:
                        stopped = "there is too much of it"
                        break
        except TimeoutError:
            stopped = f"it took over {SEARCH_S:g} s"
        finally:
            await asyncio.shield(_end(process))
            self._running.discard(process)
        complaint = await complaining
        return Found(bytes(output), stopped, "" if output or stopped else complaint)


async def _complaint(stderr: asyncio.StreamReader) -> str:
    kept = bytearray()
    while data := await stderr.read(MAX_COMPLAINT_BYTES):
        kept += data[: MAX_COMPLAINT_BYTES - len(kept)]
    return kept.decode(errors="replace").strip()


async def _end(process: Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
    await process.wait()


@cache
def ripgrep() -> str | None:
    """The ripgrep that came with this package, None without one. Another's is not taken: who knows what that does."""
    if os.environ.get("LEMBASD_PORTABLE"):
        return None
    folders = [Path(sysconfig.get_path("scripts")), Path(sys.executable).parent]
    user = sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))
    found = (folder / "rg" for folder in [*folders, Path(user)])
    return next((str(one) for one in found if os.access(one, os.X_OK)), None)


def _command(request: Request) -> Sequence[str]:
    program = ripgrep()
    if program is None:
        # without what would change how the program is found, or what it loads
        return [sys.executable, "-P", "-E", "-m", _PROGRAM, msgspec.json.encode(request).decode()]
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
    return [*command, "--", request.pattern, request.file or "./"]
