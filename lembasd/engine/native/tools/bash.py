"""`bash`: a command in a session of its own, whose whole tree ends with the call.

The worker is a subreaper: what the command left behind, however it detached itself, has become the worker's child by
the time the command has ended, and is ended too.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from lembasd.device import environment, process_tree
from lembasd.engine.native.kept import Kept, without_trees
from lembasd.engine.native.tools.outcome import Outcome
from lembasd.harness.loader import LOOP
from lembasd.protocol.limits import MIB

#: of the output; of more, the middle is dropped as it comes
MAX_OUTPUT_BYTES: Final = 2 * MIB
#: output that is already in the pipe when the command has ended is read for at most this long
DRAIN_S: Final = 1.0
_READ_BYTES: Final = 65_536


class Commands:
    """Runs the commands of one session, one at a time."""

    def __init__(self, session_id: str, epoch: int, root: Path, kept: Kept) -> None:
        self._session_id = session_id
        self._epoch = epoch
        self._root = root
        self._kept = kept
        self._running: asyncio.subprocess.Process | None = None

    async def run(self, args: dict[str, Any], started: Callable[[], None]) -> Outcome:
        """Run args["command"]; `started` is called once it runs. Cancelling ends the whole tree first."""
        longest = LOOP.bash.max_timeout
        timeout_s = min(longest, int(args.get("timeout") or LOOP.bash.default_timeout))
        # a real pipe: uvloop's own is a socket, and a socket cannot be opened as /dev/stdout
        read_end, write_end = os.pipe()
        starting = asyncio.ensure_future(self._start(args["command"], write_end))
        try:
            process = await asyncio.shield(starting)
        except (OSError, ValueError) as error:
            os.close(read_end)
            return Outcome(f"the command cannot be started: {error}", is_error=True)
        except asyncio.CancelledError:
            # cancelled as it was started: it must not run on, unknown to anybody
            os.close(read_end)
            with suppress(OSError, ValueError):
                await self._end(await starting)
            raise
        finally:
            os.close(write_end)
        self._running = process
        started()
        output = _Output()
        reading = asyncio.ensure_future(_collect(read_end, output))
        timed_out = False
        try:
            async with asyncio.timeout(timeout_s):
                await process.wait()
        except TimeoutError:
            timed_out = True
        finally:
            left = await asyncio.shield(self._end(process))
            self._running = None
            await _drain(reading)
        return _outcome(process, output, left, timeout_s if timed_out else None)

    async def _start(self, command: str, output: int) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            "bash",
            "-c",
            command,
            cwd=self._root,
            env=environment.for_tools(os.environ, self._session_id, self._epoch),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            restore_signals=True,
        )

    async def _end(self, process: asyncio.subprocess.Process) -> int:
        """End what is left of the command; how many processes it had left behind."""
        ended_itself = process.returncode is not None
        roots = [] if ended_itself else [process.pid]
        async with self._kept.still() as kept:
            # where there are no subreapers, what kept its environment is found by it
            roots += await asyncio.to_thread(self._marked, kept)
            report = await process_tree.end_tree(
                roots, watched={process.pid, *kept}, known={process.pid, *kept}
            )
        await process.wait()
        left = [pid for pid in report.ended if pid != process.pid]
        return len(left) if ended_itself else 0

    def _marked(self, kept: frozenset[int]) -> list[int]:
        marked = process_tree.by_marker(self._session_id, self._epoch)
        return without_trees([one.pid for one in marked], kept)

    async def aclose(self) -> None:
        """End the command that runs."""
        if self._running is not None:
            await self._end(self._running)


class _Output:
    """Head and tail of what was said, bounded."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self.dropped = 0

    def add(self, data: bytes) -> None:
        half = MAX_OUTPUT_BYTES // 2
        room = half - len(self._head)
        self._head += data[:room] if room > 0 else b""
        self._tail += data[max(0, room) :]
        over = len(self._tail) - half
        if over > 0:
            self.dropped += over
            del self._tail[:over]

    def text(self) -> str:
        head, tail = bytes(self._head), bytes(self._tail)
        if self.dropped:
            middle = f"\n[{self.dropped} bytes left out]\n".encode()
            return (head + middle + tail).decode(errors="replace")
        return (head + tail).decode(errors="replace")


async def _collect(read_end: int, output: _Output) -> None:
    """Read the pipe to its end, and close it."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", buffering=0)
    )
    try:
        while data := await reader.read(_READ_BYTES):
            output.add(data)
    finally:
        transport.close()


async def _drain(reading: asyncio.Future[None]) -> None:
    """Let the last output in; a process that could not be ended may hold the pipe open."""
    await asyncio.wait({reading}, timeout=DRAIN_S)
    reading.cancel()


def _outcome(
    process: asyncio.subprocess.Process, output: _Output, left: int, timed_out_s: int | None
) -> Outcome:
    text = output.text()
    notes: list[str] = []
    code = process.returncode
    if timed_out_s is not None:
        notes.append(f"[ended after {timed_out_s} s; give a longer timeout, or a shorter command]")
    elif code is not None and code < 0:
        notes.append(f"[ended by signal {-code}]")
    elif code:
        notes.append(f"[exit status {code}]")
    if left:
        notes.append(f"[{left} processes it had left in the background were ended with it]")
    if not text and not notes:
        return Outcome("[no output, exit status 0]")
    if text and notes and not text.endswith("\n"):
        text += "\n"
    return Outcome(text + "\n".join(notes), is_error=bool(code) or timed_out_s is not None)
