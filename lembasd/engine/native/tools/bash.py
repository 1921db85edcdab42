"""`bash`: a command in a session of its own, whose whole tree ends with the call.

The worker is a subreaper: what the command left behind, however it detached itself, has become the worker's child by
the time the command has ended, and is ended too.
"""

import asyncio
import os
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

from msgspec import Struct

from lembasd.device import environment, process_tree
from lembasd.device.process_tree import EndReport
from lembasd.device.reaper import Reaper
from lembasd.engine.native import child
from lembasd.engine.native.core.live_output import LiveOutput
from lembasd.engine.native.kept import Kept, without_trees
from lembasd.engine.native.login_environment import LoginEnvironment
from lembasd.engine.native.tools.outcome import Outcome
from lembasd.harness.loader import LOOP

#: output that is already in the pipe when the command has ended is read for at most this long
DRAIN_S: Final = 1.0
#: how long a killed bash may take to be gone; one that hangs in the kernel (a dead disk) is left there, and told of
REAP_S: Final = 1.0
#: taken in at a time: of the slowest output, all escapes, it holds the loop for some milliseconds
_READ_BYTES: Final = 4096

Started = Callable[[], None]
Show = Callable[[str], None]


class EndTree(Protocol):
    """`process_tree.end_tree`."""

    async def __call__(
        self, roots: Iterable[int], *, watched: Collection[int], known: Collection[int] | None
    ) -> EndReport: ...


class Commands:
    """Runs the commands of one session, one at a time, in the environment that `login` gives."""

    def __init__(
        self,
        session_id: str,
        epoch: int,
        root: Path,
        login: LoginEnvironment,
        kept: Kept,
        end_tree: EndTree = process_tree.end_tree,
    ) -> None:
        self._session_id = session_id
        self._epoch = epoch
        self._root = root
        self._login = login
        self._kept = kept
        self._end_tree = end_tree
        self._running: asyncio.subprocess.Process | None = None
        self._reaper = Reaper()
        #: this process' children from before the command: an engine's own, or what cannot be ended; no orphans of it
        self._others: Collection[int] = ()

    async def run(self, args: dict[str, Any], started: Started, show: Show) -> Outcome:
        """Run args["command"]. Cancelling ends the whole tree first.

        `started` is called once it runs; `show` a few times a second, with the last lines that it has said.
        """
        with self._reaper.watching():
            return await self._run(args, started, show)

    async def _run(self, args: dict[str, Any], started: Started, show: Show) -> Outcome:
        longest = LOOP.bash.max_timeout
        timeout_s = min(longest, int(args.get("timeout") or LOOP.bash.default_timeout))
        variables = await self._login.current()
        read_end, write_end = os.pipe()
        self._others = process_tree.children(os.getpid())
        try:
            starting = self._start(args["command"], variables, write_end)
            process = await child.started(starting, self._end)
        except (OSError, ValueError) as error:
            os.close(read_end)
            return Outcome(f"the command cannot be started: {error}", is_error=True)
        except asyncio.CancelledError:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        self._running = process
        started()
        output = LiveOutput()
        reading = asyncio.ensure_future(_collect(read_end, output, show))
        timed_out = False
        try:
            async with asyncio.timeout(timeout_s):
                await process.wait()
        except TimeoutError:
            timed_out = True
        finally:
            end = await asyncio.shield(self._end(process))
            self._running = None
            await _drain(reading)
        return _outcome(process, output.finish(), end, timeout_s if timed_out else None)

    async def _start(
        self, command: str, variables: dict[str, str], output: int
    ) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            "bash",
            "-c",
            command,
            cwd=self._root,
            env=environment.for_tools(variables, self._session_id, self._epoch),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            restore_signals=True,
        )

    async def _end(self, process: asyncio.subprocess.Process) -> "_End":
        """End what is left of the command."""
        ended_itself = process.returncode is not None
        roots = [] if ended_itself else [process.pid]
        async with self._kept.still() as kept:
            spared = kept.union(self._others)
            # where there are no subreapers, what kept its environment is found by it
            roots += await asyncio.to_thread(self._marked, spared)
            report = await self._end_tree(
                roots, watched={process.pid, *kept}, known={process.pid, *spared}
            )
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), REAP_S)
        background = [pid for pid in report.ended if pid != process.pid]
        return _End(len(background) if ended_itself else 0, report.left)

    def _marked(self, spared: frozenset[int]) -> list[int]:
        marked = process_tree.by_marker(self._session_id, self._epoch)
        return without_trees([one.pid for one in marked], spared)

    async def aclose(self) -> None:
        """End the command that runs."""
        if self._running is not None:
            await self._end(self._running)
        self._reaper.close()


class _End(Struct, frozen=True):
    """What was ended after a command that had ended itself, and the pids of what cannot be ended."""

    background: int
    left: list[int]


async def _collect(read_end: int, output: LiveOutput, show: Show) -> None:
    """Read the pipe to its end, showing the last lines now and then, and close it."""
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal timer
        timer = None
        lines = output.look(loop.time())
        if lines is not None:
            show(lines)

    try:
        async with child.reading(read_end) as reader:
            while data := await reader.read(_READ_BYTES):
                output.feed(data)
                if timer is None:
                    timer = loop.call_at(output.next_look(loop.time()), look)
                # a reader that has more gives it at once: the loop is others' too
                await asyncio.sleep(0)
    finally:
        if timer is not None:
            timer.cancel()


async def _drain(reading: asyncio.Future[None]) -> None:
    """Let the last output in; a process that could not be ended may hold the pipe open."""
    await asyncio.wait({reading}, timeout=DRAIN_S)
    reading.cancel()


def _outcome(
    process: asyncio.subprocess.Process, text: str, end: _End, timed_out_s: int | None
) -> Outcome:
    notes: list[str] = []
    code = process.returncode
    if timed_out_s is not None:
        notes.append(f"[ended after {timed_out_s} s; give a longer timeout, or a shorter command]")
    elif code is not None and code < 0:
        notes.append(f"[ended by signal {-code}]")
    elif code:
        notes.append(f"[exit status {code}]")
    if end.background:
        notes.append(
            f"[{end.background} processes it had left in the background were ended with it]"
        )
    if end.left:
        pids = ", ".join(map(str, end.left))
        notes.append(f"[these processes of it cannot be ended and go on: {pids}]")
    if not text and not notes:
        return Outcome("[no output, exit status 0]")
    if text and notes and not text.endswith("\n"):
        text += "\n"
    return Outcome(text + "\n".join(notes), is_error=bool(code) or timed_out_s is not None)
