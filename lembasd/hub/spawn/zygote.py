"""Starting processes by warm zygotes, one for workers and one for PTYs."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from structlog.typing import FilteringBoundLogger

from lembasd.device import cgroups, process_tree
from lembasd.device.paths import Paths
from lembasd.hub.spawn.api import KINDS, HelperStatus, Kind, SpawnerHandler, kind_of
from lembasd.hub.spawn.connection import Connection
from lembasd.hub.spawn.launch import Command, Launched, launch
from lembasd.hub.spawn.orphans import LivePids, Orphans
from lembasd.hub.spawn.upkeep import Upkeep
from lembasd.hub.spawn.watch import PidfdWatcher
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.spawn import ENDED, FORK, FORKED, READY, Assignment, Ended, Forked, Ready
from lembasd.protocol.takeover import Helper, Takeover

#: starts that wait for a zygote to come back; one more fails at once
MAX_WAITING: Final = 256
#: how often the hub looks through the children it was given as a subreaper
STRANGERS_S: Final = 30.0

_forked: Final = msgspec.json.Decoder(Forked)
_ended: Final = msgspec.json.Decoder(Ended)
_ready: Final = msgspec.json.Decoder(Ready)


class _Helper:
    """A zygote that runs, and its children."""

    def __init__(self, launched: Launched, connection: Connection) -> None:
        self.launched = launched
        self.connection = connection
        self.ready = False
        #: which version it loaded, once it is ready
        self.version = ""
        #: by spawn number: forks not answered yet
        self.asked: dict[int, Assignment] = {}
        self.children: set[int] = set()


class ZygoteSpawner:
    """The Linux way. Made before the loop, so that the zygotes load while the hub does."""

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
        self._launched = [launch(paths, command, kind, spare=False) for kind in KINDS]
        self._helpers: dict[Kind, _Helper] = {}
        #: zygotes that serve no more and are not reaped yet
        self._ending: dict[int, Launched] = {}
        self._waiting: list[Assignment] = []
        #: by the pid of a zygote that serves no more: what it was asked for and did not tell of
        self._untold: dict[int, list[Assignment]] = {}
        #: spawn numbers that a second zygote was asked for; a third is not
        self._again: set[int] = set()
        #: pid: channel, of everything that runs
        self._channels: dict[int, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        #: a PTY zygote has ended: what persons started in its terminals may be among our children from then on
        self._has_persons = takeover is not None and takeover.persons
        #: zygotes of earlier versions in this process: each goes when its last child has ended, and is reaped
        self._earlier = {one.pid: one for one in takeover.helpers} if takeover else {}
        self._guests: set[int] = set()

    def begin(self, handler: SpawnerHandler) -> None:
        self._handler = handler
        self._loop = asyncio.get_running_loop()
        self._watcher = PidfdWatcher(self._watched_ended)
        self._orphans = Orphans(self._own_children, cgroups.find(self._paths))
        self._upkeep = Upkeep(self._start_zygote, self.on_loop)
        self._timer = self._loop.call_later(STRANGERS_S, self._look_at_strangers)
        for pid in self._earlier:
            self._watcher.watch(pid)
        for kind in KINDS:
            self._upkeep.wanted(kind)

    # ── zygotes ─────────────────────────────────────────────────────────────────────────────────

    def _start_zygote(self, kind: Kind) -> None:
        launched = next((one for one in self._launched if one.kind == kind), None)
        if launched is not None:
            self._launched.remove(launched)
        else:
            try:
                launched = launch(self._paths, self._command, kind, spare=False)
            except OSError as error:
                self._log.error("zygote_not_started", kind=kind, error=str(error))
                self._upkeep.ended(kind)
                return
        connection = Connection(
            lambda frame: self._frame(helper, frame), lambda: self._zygote_lost(helper)
        )
        helper = self._helpers[kind] = _Helper(launched, connection)
        self._ending[launched.pid] = launched
        self._watcher.watch(launched.pid)
        task = self._loop.create_task(connection.open(launched.control))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        waiting, self._waiting = self._waiting, []
        for assignment in waiting:
            self.start(assignment)

    def _frame(self, helper: _Helper, frame: Envelope) -> None:
        match frame.kind:
            case kind if kind == READY:
                helper.ready = True
                helper.version = _ready.decode(frame.payload or b"{}").build
                self._log.info("zygote_ready", kind=helper.launched.kind)
                self.on_change()
            case kind if kind == FORKED:
                self._was_forked(helper, _forked.decode(frame.payload))
            case kind if kind == ENDED:
                ended = _ended.decode(frame.payload)
                helper.children.discard(ended.pid)
                self._end(ended.pid, ended.status)
            case _:
                pass  # of a later version

    def _was_forked(self, helper: _Helper, forked: Forked) -> None:
        asked = helper.asked.pop(forked.spawn, None)
        self._again.discard(forked.spawn)
        if forked.pid == 0:
            self._handler.process_failed(
                forked.spawn, f"a process could not be forked: {forked.reason}"
            )
            return
        helper.children.add(forked.pid)
        self._channels[forked.pid] = asked.channel if asked is not None else ""
        self._handler.process_started(forked.spawn, forked.pid)

    def _zygote_lost(self, helper: _Helper) -> None:
        """The zygote is gone. Its children are ours now, for the hub is a subreaper."""
        if self._closed:
            return
        kind = helper.launched.kind
        if self._helpers.get(kind) is helper:
            del self._helpers[kind]
        pid = helper.launched.pid
        self._untold[pid] = list(helper.asked.values())
        if pid not in self._ending:
            self._ask_again(helper.launched)
        self._has_persons = self._has_persons or kind == "pty"
        for child in helper.children:
            self._watcher.watch(child)
        if not self._upkeep.stopping:
            self._log.error("zygote_ended", kind=kind, zygote_pid=helper.launched.pid)
            helper.launched.process.kill()  # it may have closed its socket and live on
            self._upkeep.ended(kind)
        self.on_change()

    def _ask_again(self, ended: Launched) -> None:
        """The zygote is dead: have the next one fork what this one did not tell of, if it forked it at all.

        A child that it did fork is ours by now, does nothing yet without us, and is killed: nothing is to run twice.
        """
        asked = self._untold.pop(ended.pid, [])
        if not asked:
            return
        command = b"".join(os.fsencode(word) + b"\0" for word in ended.command)
        for pid in process_tree.children(os.getpid()):
            if pid not in self._ours() and pid not in self._channels and _command(pid) == command:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for assignment in asked:
            if assignment.spawn in self._again or self._upkeep.stopping:
                self._again.discard(assignment.spawn)
                reason = "the process that starts others ended; try again"
                self._handler.process_failed(assignment.spawn, reason)
            else:
                self._again.add(assignment.spawn)
                self.start(assignment)

    # ── processes ───────────────────────────────────────────────────────────────────────────────

    def start(self, assignment: Assignment) -> None:
        helper = self._helpers.get(kind_of(assignment.role))
        if helper is not None and not self._upkeep.stopping:
            helper.asked[assignment.spawn] = assignment
            helper.connection.send(FORK, assignment)
        elif self._upkeep.stopping or len(self._waiting) >= MAX_WAITING:
            self._loop.call_soon(
                self._handler.process_failed, assignment.spawn, "nothing is started any more now"
            )
        else:
            self._waiting.append(assignment)

    def watch(self, pid: int, channel: str = "") -> None:
        if pid not in self._channels:
            self._channels[pid] = channel
            self._watcher.watch(pid)

    def _watched_ended(self, pid: int, status: int | None) -> None:
        launched = self._ending.pop(pid, None)
        if launched is not None:
            launched.process.returncode = status if status is not None else 0
            self._ask_again(launched)
            return
        earlier = self._earlier.pop(pid, None)
        if earlier is not None:
            # what persons left running in its terminals has become our own
            left = set(process_tree.strangers(self._ours())) - set(process_tree.dead_children())
            self._has_persons = self._has_persons or (earlier.kind == "pty" and bool(left))
            self.on_change()
            return
        self._orphans.after(self._channels.get(pid, ""), pid, lambda: self._end(pid, status))

    def _end(self, pid: int, status: int | None) -> None:
        if self._channels.pop(pid, None) is not None:
            self._handler.process_ended(pid, status)

    def _ours(self) -> set[int]:
        launched = {one.pid for one in self._launched}
        return self._watcher.pids | set(self._ending) | launched | self._guests

    def _own_children(self) -> LivePids | None:
        return None if self._has_persons else LivePids(self._ours)

    def reap_strangers(self, known: set[int]) -> None:
        ours = known | self._ours()
        self._orphans.reap_strangers(ours, set(self._channels.values()))

    def _look_at_strangers(self) -> None:
        self.reap_strangers(set())
        self._timer = self._loop.call_later(STRANGERS_S, self._look_at_strangers)

    # ── helpers as a whole ──────────────────────────────────────────────────────────────────────

    def helpers(self) -> list[HelperStatus]:
        return [
            HelperStatus(
                kind, helper.launched.pid, helper.ready, spare=False, version=helper.version
            )
            for kind, helper in self._helpers.items()
        ] + [
            HelperStatus(
                one.kind, one.pid, ready=True, spare=False, version=one.version, earlier=True
            )
            for one in self._earlier.values()
        ]

    def helper_pids(self) -> list[int]:
        return [*self._ending, *self._earlier]

    @property
    def settled(self) -> bool:
        return not self._untold and not any(one.asked for one in self._helpers.values())

    @property
    def persons(self) -> bool:
        return self._has_persons

    def left(self) -> list[Helper]:
        versions = {one.launched.pid: one.version for one in self._helpers.values()}
        own = [
            Helper(pid, launched.kind, versions.get(pid, ""))
            for pid, launched in self._ending.items()
        ]
        return [*own, *self._earlier.values()]

    def guest(self, pid: int) -> None:
        self._guests.add(pid)

    def guest_ended(self, pid: int) -> None:
        self._guests.discard(pid)

    def release(self) -> None:
        self._upkeep.stop()
        for assignment in self._waiting:
            self._handler.process_failed(assignment.spawn, "nothing is started any more now")
        self._waiting.clear()
        for helper in self._helpers.values():
            helper.connection.finish()

    def close(self) -> None:
        self._closed = True
        self._timer.cancel()
        self._upkeep.close()
        self._watcher.close()
        self._orphans.close()
        for helper in self._helpers.values():
            helper.connection.close()
        for launched in self._ending.values():
            launched.process.returncode = 0  # its next parent reaps it


def _command(pid: int) -> bytes:
    """The process' command line, each word ended by a NUL; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
