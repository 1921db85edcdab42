"""The utility worker: answers for sessions that nobody has open, from their journals, and about the device's directories.

It opens no session.
"""

import asyncio
import os
from functools import partial
from typing import Final

import msgspec

from lembasd import __version__
from lembasd.device.logging import logger
from lembasd.device.milestones import reached
from lembasd.device.paths import Paths
from lembasd.protocol import envelope as kinds
from lembasd.protocol import jsonrpc
from lembasd.protocol.control import Settings
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.errors import (
    EXIT_DONE,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    RequestRefused,
)
from lembasd.protocol.hello import Hello
from lembasd.protocol.ids import is_session_id
from lembasd.protocol.jsonrpc import Message
from lembasd.protocol.spawn import Assignment
from lembasd.store import deleting, recent_files, turns
from lembasd.store.apart import run_apart
from lembasd.worker import directories, listing, reading, removing, replies, tidying
from lembasd.worker.connection import Connection
from lembasd.worker.core import answers, file_requests, requests
from lembasd.worker.core.inputs import Waiter
from lembasd.worker.entry import enter
from lembasd.worker.file_search import FileSearch
from lembasd.worker.lanes import Lanes
from lembasd.worker.tasks import Tasks

#: with nothing to read for so long it ends; the hub starts another one when it needs it
IDLE_S: Final = 60.0

#: whose disk it is that hangs where the places are asked for
_THE_ROOTS: Final = "a folder that this device allows"

_settings: Final = msgspec.json.Decoder(Settings)


class Utility:
    """One utility worker. It ends with its hub, at STOP, or after it had nothing to do."""

    def __init__(
        self,
        assignment: Assignment,
        paths: Paths,
        idle_s: float = IDLE_S,
        lanes: Lanes | None = None,
        files: FileSearch | None = None,
    ) -> None:
        self._assignment = assignment
        self._paths = paths
        self._idle_s = idle_s
        self._connection = Connection(paths, self)
        loop = asyncio.get_running_loop()
        self._exit: asyncio.Future[int] = loop.create_future()
        self._timer = loop.call_later(idle_s, self._leave)
        self._tasks = Tasks()
        self._under_way = 0
        self._lanes = lanes or Lanes()
        self._files = files or FileSearch(paths, self._lanes)
        self._settings = Settings()
        self._log = logger()

    async def run(self) -> int:
        """Answer until there is nothing to do; the exit code."""
        async with self._tasks:
            self._tasks.spawn(self._connection.run())
            self._tasks.spawn(run_apart(partial(turns.prune, self._paths)))
            self._tasks.spawn(run_apart(partial(deleting.sweep, self._paths)))
            self._tasks.spawn(run_apart(partial(recent_files.prune, self._paths)))
            code = await self._exit
            self._files.close()
            await self._connection.finish(lambda: False)
        self._timer.cancel()
        reached("worker.ended", session_id="")
        return code

    def stop(self, reason: str) -> None:
        """End now."""
        if not self._exit.done():
            self._exit.set_result(EXIT_DONE)

    def _leave(self) -> None:
        """Ask to end, and again after the next idle time should the hub have work."""
        self._rest()
        if not self._under_way:
            self._connection.control(Envelope(kind=kinds.LEAVING))
            if not self._connection.joined:
                self.stop("no hub")

    def _rest(self) -> None:
        self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._idle_s, self._leave)

    # ── HubHandler ──────────────────────────────────────────────────────────────────────────────

    def hub_hello(self) -> Hello:
        return Hello(
            role="utility", build=__version__, pid=os.getpid(), spawn=self._assignment.spawn
        )

    def hub_joined(self) -> None:
        reached("worker.connected", session_id="")

    def hub_unspeakable(self) -> None:
        self.stop("the hub is of another version")

    def hub_message(self, message: Envelope) -> None:
        match message.kind:
            case kinds.RPC:
                self._rpc(message)
            case kinds.TIDY:
                self._tasks.spawn(self._tidy())
            case kinds.STOP | kinds.LEAVE:
                self.stop(message.kind)
            case kinds.SETTINGS:
                self._settings = _settings.decode(message.payload)
            case kinds.ATTACHED | kinds.DETACHED | kinds.UNKNOWN | kinds.PONG:
                pass
            case _:
                self._connection.answer_unknown(message)

    def hub_writable(self) -> None:
        pass

    def hub_lost(self, reason: str) -> None:
        self.stop(reason)

    def stop_was_meant(self) -> None:
        self.stop("lembasd was stopped")

    # ── what is kept no longer ──────────────────────────────────────────────────────────────────

    async def _tidy(self) -> None:
        self._under_way += 1
        try:
            report = await run_apart(partial(tidying.tidy, self._paths))
        except TimeoutError:
            return  # the disk hangs: the next time
        finally:
            self._under_way -= 1
        if report is not None:
            tidying.tell(report, self._log)
        reached("worker.tidied")

    # ── requests ────────────────────────────────────────────────────────────────────────────────

    def _rpc(self, frame: Envelope) -> None:
        try:
            message = jsonrpc.peek(frame.payload)
        except RequestRefused:
            return  # the hub looked at it before: it is no message of a client
        if message.is_request:
            self._rest()
            waiter = Waiter(frame.client, frame.request, message.id, frame.local)
            self._tasks.spawn(self._answer(waiter, message))

    async def _answer(self, waiter: Waiter, message: Message) -> None:
        session = message.session
        self._under_way += 1
        try:
            payload = await self._payload(message, local=waiter.local)
            self._connection.send(replies.answer(session, waiter, payload))
        except RequestRefused as refused:
            self._connection.send(replies.refusal(session, waiter, refused))
        except TimeoutError as error:
            why = RequestRefused(INTERNAL_ERROR, str(error), {"retryable": True})
            self._connection.send(replies.refusal(session, waiter, why))
        finally:
            self._under_way -= 1

    async def _payload(self, message: Message, *, local: bool) -> bytes:
        """The finished answer. Raises RequestRefused, TimeoutError."""
        self._files.drop_old()
        # the limits as they are when it is asked
        settings = self._settings
        match message.method:
            case "_lembas/files/search":
                asked = file_requests.read_search(message.params)
                if asked.session and not is_session_id(asked.session):
                    raise RequestRefused(INVALID_PARAMS, "unknown session")
                files = await self._files.answer(asked, settings, local=local)
                return jsonrpc.result(message.id, files)
            case "_lembas/commands":
                wanted = requests.read_commands(message.params)
                list_them = partial(listing.commands, self._paths, wanted, settings, local=local)
                folder = wanted.cwd or wanted.sessionId or ""
                commands = await self._lanes.run(folder, list_them)
                return jsonrpc.result(message.id, {"commands": commands})
            case "_lembas/directories":
                path = file_requests.read_directories(message.params)
                look = partial(directories.look, path, settings)
                found = await self._lanes.run(path or _THE_ROOTS, look)
                return jsonrpc.result(message.id, found)
            case _:
                return await run_apart(partial(self._read, message, local=local))

    def _read(self, message: Message, *, local: bool) -> bytes:
        """The finished answer. Blocks; raises RequestRefused."""
        if not is_session_id(message.session):
            raise RequestRefused(INVALID_PARAMS, "unknown session")
        match message.method:
            case "_lembas/session/status":
                return jsonrpc.result(message.id, reading.status(self._paths, message.session))
            case "_lembas/session/history":
                return reading.history_answer(self._paths, message.session, message.id)
            case "_lembas/session/delete":
                deleted = removing.delete(self._paths, message.session, self._settings, local=local)
                return jsonrpc.result(message.id, {"deleted": deleted})
            case "_lembas/steer":
                raise RequestRefused(INVALID_PARAMS, answers.NOTHING_RUNS)
            case method:
                raise RequestRefused(METHOD_NOT_FOUND, f"{method} needs the session to be open")


def main(assignment: Assignment) -> int:
    """Be the utility worker; its exit code."""
    return enter(assignment.log_level, lambda paths: Utility(assignment, paths))
