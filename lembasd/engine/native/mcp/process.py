"""A server that is a process: started in a session of its own, spoken to over its pipes, ended with its whole tree.

The SDK has such a transport too. This one bounds a message, reads a chatty stderr to its end, and ends what the
server started as `bash` does.
"""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

from lembasd.device import process_tree
from lembasd.device.logging import logger
from lembasd.engine.native.kept import Kept
from lembasd.engine.native.mcp.sdk import Sdk
from lembasd.protocol.limits import MIB
from lembasd.protocol.mcp import McpServer

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

#: of one line; a server that sends a longer one is ended, for what it meant cannot be told any more
MAX_MESSAGE_BYTES: Final = 8 * MIB
#: of stderr, for the log at debug; the rest is read and dropped
MAX_LOGGED_LINES: Final = 200
MAX_LOGGED_BYTES: Final = 1000
#: each line that is no message is followed by this: a server that prints without end holds up nobody but itself
CHATTER_PAUSE_S: Final = 0.001
#: answers of ours that a server does not read; one that asks on all the same is ended
MAX_UNREAD: Final = 256
#: what a server may take to end once its stdin is closed, and then once it was told to
CLOSE_S: Final = 1.0
TERMINATE_S: Final = 1.0
#: what is left in its pipes when a server has ended is read for at most this long
DRAIN_S: Final = 0.5
_READ_BYTES: Final = 65_536


class ServerProcess:
    """One server's process."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, kept: Kept) -> None:
        self._process = process
        self._stdin = cast("asyncio.StreamWriter", process.stdin)
        self._stdout = cast("asyncio.StreamReader", process.stdout)
        self._stderr = cast("asyncio.StreamReader", process.stderr)
        self._kept = kept
        self._log = logger().bind(server=name)
        self._errors = asyncio.ensure_future(self._read_errors())
        #: why nothing more is read from it
        self.why = "it ended"
        #: its exit status, once `end` is done
        self.status: int | None = None

    @classmethod
    async def start(
        cls, server: McpServer, root: Path, environment: Mapping[str, str], kept: Kept
    ) -> "ServerProcess":
        """Start it in `root`, or where it says. Raises OSError, ValueError."""
        process = await kept.start(
            lambda: asyncio.create_subprocess_exec(
                server.command,
                *server.args,
                cwd=root / Path(server.cwd or ".").expanduser(),
                env=environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                restore_signals=True,
                limit=MAX_MESSAGE_BYTES,
            )
        )
        return cls(server.name, process, kept)

    @asynccontextmanager
    async def transport(self, sdk: Sdk, over: asyncio.Event) -> "AsyncGenerator[TransportStreams]":
        """The streams that the SDK reads and writes; `over` is set when the server says nothing more."""
        incoming, read = anyio.create_memory_object_stream[Any](0)
        write, outgoing = anyio.create_memory_object_stream[Any](0)
        async with anyio.create_task_group() as tasks, incoming, read, write, outgoing:
            tasks.start_soon(self._read, sdk, incoming, outgoing, over)
            tasks.start_soon(self._write, outgoing)
            tasks.start_soon(_release, outgoing, over)
            yield read, write
            tasks.cancel_scope.cancel()

    async def _read(self, sdk: Sdk, incoming: Any, outgoing: Any, over: asyncio.Event) -> None:
        adapter = sdk.types.jsonrpc_message_adapter
        try:
            while line := await self._stdout.readline():
                try:
                    message = adapter.validate_json(line, by_name=False)
                except ValueError:  # no message: many servers print to stdout
                    await asyncio.sleep(CHATTER_PAUSE_S)
                    continue
                await incoming.send(sdk.SessionMessage(message))
                if outgoing.statistics().tasks_waiting_send > MAX_UNREAD:
                    self.why = "it asks without reading the answers"
                    break
        except ValueError:
            self.why = f"it sent a message over {MAX_MESSAGE_BYTES // MIB} MiB"
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            pass  # nobody reads any more
        finally:
            incoming.close()
            over.set()

    async def _write(self, outgoing: Any) -> None:
        try:
            async for session_message in outgoing:
                text = session_message.message.model_dump_json(by_alias=True, exclude_unset=True)
                self._stdin.write(text.encode() + b"\n")
                await self._stdin.drain()
        except (anyio.ClosedResourceError, OSError):
            pass  # it is over: reading tells so

    async def _read_errors(self) -> None:
        """Read stderr to its end, so that its server never waits; the first lines go to the log at debug."""
        left = MAX_LOGGED_LINES
        while data := await self._stderr.read(_READ_BYTES):
            for line in data.splitlines() if left > 0 else ():
                left -= 1
                if left < 0:
                    break
                said = line[:MAX_LOGGED_BYTES].decode(errors="replace")
                self._log.debug("mcp_server_says", text=said)

    async def _read_rest(self) -> None:
        """Drop what it still says: a pipe that is not read to its end is never closed."""
        while await self._stdout.read(_READ_BYTES):
            pass

    async def end(self) -> None:
        """End it and everything below it: stdin closed, then SIGTERM, then the tree."""
        process = self._process
        self._stdin.close()
        rest = asyncio.ensure_future(self._read_rest())
        if not await self._ended_within(CLOSE_S):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            await self._ended_within(TERMINATE_S)
        roots = [process.pid] if process.returncode is None else []
        roots += await asyncio.to_thread(_orphans, process.pid)
        await process_tree.end_tree(roots, watched={process.pid})
        await self._ended_within(process_tree.GONE_S)
        # something that could not be ended may hold the pipe open
        await asyncio.wait({self._errors, rest}, timeout=DRAIN_S)
        self._errors.cancel()
        rest.cancel()
        self._kept.ended(process.pid)
        self.status = process.returncode

    async def _ended_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._process.wait()
        # waiting is also for the pipes, which what it left behind may hold open
        return self._process.returncode is not None


async def _release(outgoing: Any, over: asyncio.Event) -> None:
    """Let go of whoever waits to tell the server something: one that reads nothing would hold up its own end."""
    await over.wait()
    outgoing.close()


def _orphans(session: int) -> list[int]:
    """Own children of a server's session: what it had started, given to us as a subreaper when it ended."""
    found: list[int] = []
    for pid in process_tree.children(os.getpid()):
        with suppress(ProcessLookupError, PermissionError):
            if pid != session and os.getsid(pid) == session:
                found.append(pid)
    return found
