"""The processes this hub started or adopted: from a spawn number to a pid to an end."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from structlog.typing import FilteringBoundLogger

from lembasd.hub.core import effects, inputs
from lembasd.hub.counts import Counts
from lembasd.hub.processes import ConnectedProcess
from lembasd.protocol.spawn import EXITS_MEANT, Assignment

#: how long the last messages of an ended process may take to be read; then its connection is aborted
END_FLUSH_S: Final = 1.0


class Starter(Protocol):
    """What starts processes (hub/spawn). It tells `Children` what comes of it."""

    def start(self, assignment: Assignment) -> None:
        """Start one; what comes of it is told to `process_started`, `process_failed`, `process_ended`."""

    def watch(self, pid: int, channel: str = "") -> None:
        """Tell of the end of a process that another hub started."""


class Feed(Protocol):
    """What this needs of the hub."""

    log: FilteringBoundLogger
    counts: Counts
    processes: dict[str, ConnectedProcess]
    on_change: Callable[[], None]

    def feed(self, what: inputs.Input) -> None: ...

    def call_later(self, delay_s: float, what: Callable[[], None]) -> None: ...


class _Begun:
    """A process that was asked for. `pid` comes with `process_started`."""

    def __init__(self, channel: str) -> None:
        self.channel = channel
        self.pid: int | None = None
        self.abandoned = False


class Children:
    """Processes by spawn number and pid. It is the handler of the starter's callbacks."""

    def __init__(self, hub: Feed, first_spawn: int) -> None:
        self._hub = hub
        self._next_spawn = first_spawn
        self._begun: dict[int, _Begun] = {}
        self._channel_of_pid: dict[int, str] = {}
        #: processes that ended while their connection was still to be read to its end
        self._ended: dict[str, int | None] = {}
        self.starter: Starter | None = None
        #: what is started from now on logs at this level
        self.log_level = "info"
        #: called when a spawn number's pid is known
        self.on_pid_known: Callable[[int], None] = _nobody

    def start(self, asked: effects.Start) -> None:
        self._next_spawn += 1
        self._begun[self._next_spawn] = _Begun(asked.channel)
        if self.starter is None:
            self.process_failed(self._next_spawn, "nothing here starts processes")
            return
        self.starter.start(
            Assignment(
                spawn=self._next_spawn,
                role=asked.role,
                channel=asked.channel,
                new=asked.new,
                link=asked.link,
                log_level=self.log_level,
                ended_for=asked.ended_for,
            )
        )

    def kill(self, channel: str) -> None:
        """Kill what was started for the channel and is not wanted any more, now or when its pid is known."""
        for begun in self._begun.values():
            if begun.channel == channel:
                begun.abandoned = True
                if begun.pid is not None:
                    _kill(begun.pid)

    def end(self, channel: str) -> None:
        """Kill the connected process of the channel: it counts as one that crashed."""
        process = self._hub.processes.get(channel)
        if process is not None:
            _kill(process.pid)

    # ── what is known ───────────────────────────────────────────────────────────────────────────

    def started_pid(self, channel: str) -> int | None:
        """The pid of the process that this hub started or adopted last for the channel and that has not ended."""
        found = reversed(self._channel_of_pid.items())
        return next((pid for pid, name in found if name == channel), None)

    def is_starting(self, spawn: int, channel: str) -> bool:
        """Whether this process was asked for and its pid is not known yet."""
        begun = self._begun.get(spawn)
        return begun is not None and begun.channel == channel and begun.pid is None

    def pids(self) -> dict[int, str]:
        """The channels of all processes by their pid."""
        return dict(self._channel_of_pid)

    def worker_pids(self) -> set[int]:
        return {pid for pid, channel in self._channel_of_pid.items() if channel.startswith("ses_")}

    def take_over(self, processes: dict[int, str]) -> None:
        """These run for these channels, started by the version that was here before; some have yet to find this one."""
        for pid, channel in processes.items():
            self.joined(pid, channel)

    # ── what happens ────────────────────────────────────────────────────────────────────────────

    def joined(self, pid: int, channel: str) -> None:
        """A process of this pid is connected for the channel; one that another hub started is watched."""
        if pid not in self._channel_of_pid:
            self._channel_of_pid[pid] = channel
            if self.starter is not None:
                self.starter.watch(pid, channel)

    def connection_lost(self, channel: str) -> None:
        """Everything that the channel's process said has been read."""
        if channel in self._ended:
            self._end(channel, self._ended.pop(channel))

    def process_started(self, spawn: int, pid: int) -> None:
        """The starter: the process of this spawn number has this pid."""
        begun = self._begun.get(spawn)
        if begun is None:
            return
        begun.pid = pid
        self._hub.counts.processes_started += 1
        self._channel_of_pid[pid] = begun.channel
        if begun.abandoned:
            _kill(pid)
        else:
            self.on_pid_known(spawn)

    def process_failed(self, spawn: int, reason: str) -> None:
        """The starter: it could not be started."""
        begun = self._begun.pop(spawn, None)
        if begun is not None:
            self._hub.counts.processes_failed += 1
            self._hub.log.error("process_not_started", channel=begun.channel, error=reason)
            self._hub.feed(inputs.StartFailed(begun.channel, reason))

    def process_ended(self, pid: int, status: int | None) -> None:
        """The starter: a process is gone; `status` is waitpid's."""
        channel = self._channel_of_pid.pop(pid, None)
        if channel is None:
            return
        abandoned = False
        for spawn, begun in list(self._begun.items()):
            if begun.pid == pid:
                abandoned = begun.abandoned
                del self._begun[spawn]
        code = None if status is None else os.waitstatus_to_exitcode(status)
        if code is None or code in EXITS_MEANT or abandoned:
            self._hub.log.info("process_ended", channel=channel, process_pid=pid, code=code)
        else:
            self._hub.counts.processes_crashed += 1
            self._hub.log.warning("process_crashed", channel=channel, process_pid=pid, code=code)
        process = self._hub.processes.get(channel)
        if process is not None and process.pid == pid:
            # what it said last is still in the socket: its end is told after that was read
            self._ended[channel] = code
            peer = process.peer
            self._hub.call_later(END_FLUSH_S, lambda: peer.abort("its process ended"))
        elif not abandoned and not self._is_replaced(channel):
            self._end(channel, code)

    def _is_replaced(self, channel: str) -> bool:
        """Whether another process was asked for meanwhile: the end of the one before, which never joined, is not its end."""
        return any(begun.channel == channel for begun in self._begun.values())

    def _end(self, channel: str, code: int | None) -> None:
        self._hub.feed(inputs.ProcessEnded(channel, code))
        self._hub.on_change()


def _nobody(spawn: int) -> None:
    """Until somebody wants to know."""


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):  # it ended meanwhile
        os.kill(pid, signal.SIGKILL)
