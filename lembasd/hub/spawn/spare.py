"""Starting processes the portable way: a spare that was started ahead becomes what is asked for."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec
from structlog.typing import FilteringBoundLogger

from lembasd.device.paths import Paths
from lembasd.hub.spawn.api import KINDS, HelperStatus, Kind, SpawnerHandler, kind_of
from lembasd.hub.spawn.connection import Connection
from lembasd.hub.spawn.launch import Command, Launched, launch
from lembasd.hub.spawn.orphans import Orphans
from lembasd.hub.spawn.upkeep import Upkeep
from lembasd.hub.spawn.watch import PollingWatcher
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.spawn import FORK, READY, Assignment, Ready
from lembasd.protocol.takeover import Helper, Takeover

_ready: Final = msgspec.json.Decoder(Ready)


class _Spare:
    """A process that waits for its assignment, or has it."""

    def __init__(self, launched: Launched, connection: Connection) -> None:
        self.launched = launched
        self.connection = connection
        self.ready = False
        #: which version it loaded, once it is ready
        self.version = ""
        self.assignment: Assignment | None = None


class SpareSpawner:
    """The way of platforms where a fork is not safe. One spare of each kind is kept; a used one is replaced."""

    def __init__(
        self,
        paths: Paths,
        command: Command,
        log: FilteringBoundLogger,
        takeover: Takeover | None = None,
    ) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self.on_loop: Callable[[Kind, bool], None] = lambda _kind, _loops: None
        self._paths = paths
        self._command = command
        self._log = log
        self._launched = [launch(paths, command, kind, spare=True) for kind in KINDS]
        self._spares: dict[Kind, _Spare] = {}
        #: pid: what was started here and is not reaped yet, used or not
        self._running: dict[int, _Spare] = {}
        self._adopted: dict[int, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        #: spares of earlier versions in this process: they are gone in a moment, and are reaped
        self._earlier = {one.pid: one for one in takeover.helpers} if takeover else {}
        self._guests: set[int] = set()

    def begin(self, handler: SpawnerHandler) -> None:
        self._handler = handler
        self._loop = asyncio.get_running_loop()
        self._watcher = PollingWatcher(self._adopted_ended)
        self._orphans = Orphans()
        self._upkeep = Upkeep(self._start_spare, self.on_loop)
        for pid in self._earlier:
            self._watcher.watch(pid)
        for kind in KINDS:
            self._upkeep.wanted(kind)

    # ── spares ──────────────────────────────────────────────────────────────────────────────────

    def _start_spare(self, kind: Kind) -> None:
        if kind in self._spares:
            return
        try:
            self._spares[kind] = self._make(kind)
        except OSError as error:
            self._log.error("spare_not_started", kind=kind, error=str(error))
            self._upkeep.ended(kind)

    def _make(self, kind: Kind) -> _Spare:
        """Raises OSError."""
        launched = next((one for one in self._launched if one.kind == kind), None)
        if launched is not None:
            self._launched.remove(launched)
        else:
            launched = launch(self._paths, self._command, kind, spare=True)
        connection = Connection(lambda frame: self._frame(spare, frame), lambda: self._lost(spare))
        spare = self._running[launched.pid] = _Spare(launched, connection)
        self._run(connection.open(launched.control))
        return spare

    def _frame(self, spare: _Spare, frame: Envelope) -> None:
        if frame.kind == READY:
            spare.ready = True
            spare.version = _ready.decode(frame.payload or b"{}").build
            self.on_change()

    def _lost(self, spare: _Spare) -> None:
        """The process closed its control socket, which it does at its end alone."""
        if not self._closed:
            self._run(self._reap(spare))

    async def _reap(self, spare: _Spare) -> None:
        process = spare.launched.process
        if spare.assignment is None:
            with suppress(ProcessLookupError):
                process.kill()  # a spare that nobody can give anything to
        code = await asyncio.to_thread(process.wait)
        status = code << 8 if code >= 0 else -code
        assignment = spare.assignment
        if assignment is not None:
            ended = partial(self._end, process.pid, status)
            self._orphans.after(assignment.channel, process.pid, ended)
            return
        del self._running[process.pid]
        kind = spare.launched.kind
        if self._spares.get(kind) is spare:
            del self._spares[kind]
            if not self._upkeep.stopping:
                self._log.error("spare_ended", kind=kind, code=code)
                self._upkeep.ended(kind)
        self.on_change()

    def _end(self, pid: int, status: int | None) -> None:
        if self._running.pop(pid, None) is not None:
            self._handler.process_ended(pid, status)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ── processes ───────────────────────────────────────────────────────────────────────────────

    def start(self, assignment: Assignment) -> None:
        if self._upkeep.stopping:
            self._fail(assignment, "nothing is started any more now")
            return
        kind = kind_of(assignment.role)
        try:
            spare = self._spares.pop(kind, None) or self._make(kind)
        except OSError as error:
            self._fail(assignment, f"a process could not be started: {error}")
            return
        spare.assignment = assignment
        spare.connection.send(FORK, assignment)
        self._handler.process_started(assignment.spawn, spare.launched.pid)
        # in a turn of its own: the next one is for later, this one for now
        self._loop.call_soon(self._replace, kind)

    def _replace(self, kind: Kind) -> None:
        if not self._upkeep.stopping:
            self._start_spare(kind)

    def _fail(self, assignment: Assignment, reason: str) -> None:
        self._loop.call_soon(self._handler.process_failed, assignment.spawn, reason)

    def watch(self, pid: int, channel: str = "") -> None:
        if pid not in self._running and pid not in self._adopted:
            self._adopted[pid] = channel
            self._watcher.watch(pid)

    def _adopted_ended(self, pid: int, status: int | None) -> None:
        if self._earlier.pop(pid, None) is not None:
            self.on_change()
            return
        channel = self._adopted.pop(pid, "")
        self._orphans.after(channel, pid, lambda: self._handler.process_ended(pid, status))

    def reap_strangers(self, known: set[int]) -> None:
        live = {one.assignment.channel for one in self._running.values() if one.assignment}
        ours = known | set(self._running) | self._watcher.pids | self._guests
        self._orphans.reap_strangers(ours, live | set(self._adopted.values()))

    # ── helpers as a whole ──────────────────────────────────────────────────────────────────────

    def helpers(self) -> list[HelperStatus]:
        return [
            HelperStatus(kind, spare.launched.pid, spare.ready, spare=True, version=spare.version)
            for kind, spare in self._spares.items()
        ] + [
            HelperStatus(
                one.kind, one.pid, ready=True, spare=True, version=one.version, earlier=True
            )
            for one in self._earlier.values()
        ]

    def helper_pids(self) -> list[int]:
        return [
            *(pid for pid, one in self._running.items() if one.assignment is None),
            *self._earlier,
        ]

    @property
    def settled(self) -> bool:
        return True  # a spare's pid is known before it is asked for anything

    @property
    def persons(self) -> bool:
        return False  # the marker alone tells whose orphan is whose on this path

    def left(self) -> list[Helper]:
        own = [
            Helper(pid, one.launched.kind, one.version)
            for pid, one in self._running.items()
            if one.assignment is None
        ]
        return [*own, *self._earlier.values()]

    def guest(self, pid: int) -> None:
        self._guests.add(pid)

    def guest_ended(self, pid: int) -> None:
        self._guests.discard(pid)

    def release(self) -> None:
        self._upkeep.stop()
        for spare in self._spares.values():
            spare.connection.finish()

    def close(self) -> None:
        self._closed = True
        self._upkeep.close()
        self._watcher.close()
        self._orphans.close()
        for spare in self._running.values():
            spare.connection.close()
            if spare.launched.process.returncode is None:
                spare.launched.process.returncode = 0  # its next parent reaps it
