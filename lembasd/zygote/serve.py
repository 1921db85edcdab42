"""The zygote's loop: forks what the hub asks for, reaps it, ends what a dead worker left behind."""

import os
import select
import signal
import socket
from contextlib import suppress
from typing import Final

from lembasd import __version__
from lembasd.device import process_tree
from lembasd.device.cgroups import Groups
from lembasd.device.lock import Membership
from lembasd.device.paths import Paths
from lembasd.protocol.spawn import ENDED, FORKED, READY, Assignment, Ended, Forked, Ready
from lembasd.zygote.child import Run, fork, reset_signals
from lembasd.zygote.entries import Kind
from lembasd.zygote.warm import ready
from lembasd.zygote.wire import Control

#: how long an orphan that has ended may stay a zombie
STRANGERS_MS: Final = 10_000


class Zygote:
    """One zygote. It outlives its hub until its last child is gone, for somebody must reap them.

    `run` is what a child does. A zygote is a subreaper. A worker zygote ends, at a child's end, what became its own
    child by that: the tools of the dead worker, whatever they did to get away. A PTY zygote ends nothing: what became
    its child a person left running (tmux, nohup); it reaps it when it ends.
    """

    def __init__(
        self,
        control: socket.socket,
        kind: Kind,
        run: Run,
        paths: Paths,
        membership: Membership,
        groups: Groups | None = None,
    ) -> None:
        self._control = Control(control)
        self._hub_is_there = True
        self._kind = kind
        self._run = run
        self._paths = paths
        self._membership = membership
        self._groups = groups
        self._poll = select.poll()
        #: pidfd of each child: its pid
        self._children: dict[int, int] = {}

    def serve(self) -> int:
        """Serve until the hub is gone and no child is left; the exit code."""
        reset_signals()
        self._control.send(READY, Ready(__version__))
        ready(self._kind, spare=False)
        control = self._control.fileno()
        self._poll.register(control, select.POLLIN)
        while self._hub_is_there or self._children:
            happened = self._poll.poll(STRANGERS_MS)
            for handle, _events in happened:
                if handle in self._children:
                    self._child_ended(handle)
                elif handle == control and self._hub_is_there:
                    self._hub_spoke()
            if [handle for handle, _events in happened] != [control]:
                self._reap_strangers()  # a child's end, or the time: not while starts follow each other
        if self._groups is not None:
            self._groups.close()
        return 0

    def _reap_strangers(self) -> None:
        """Reap what was not forked here and has ended. Never waits."""
        for pid in process_tree.strangers(set(self._children.values())):
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)

    def _hub_spoke(self) -> None:
        assignments = self._control.receive()
        if assignments is None:
            # the hub is gone, or wants no more; what ends is still told as long as somebody listens
            self._hub_is_there = False
            self._poll.unregister(self._control.fileno())
            return
        for assignment in assignments:
            self._fork(assignment)

    def _fork(self, assignment: Assignment) -> None:
        try:
            pid = fork(self._run, assignment, self._let_go)
        except OSError as error:
            self._control.send(FORKED, Forked(assignment.spawn, 0, str(error)))
            return
        try:
            handle = os.pidfd_open(pid)
        except OSError as error:  # out of descriptors: a child whose end nobody would see is none
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            self._control.send(FORKED, Forked(assignment.spawn, 0, str(error)))
            return
        self._children[handle] = pid
        self._poll.register(handle, select.POLLIN)
        self._control.send(FORKED, Forked(assignment.spawn, pid))

    def _let_go(self) -> None:
        """In the child: close what is the zygote's, take an own share of the members lock."""
        Membership.join(self._paths)
        self._membership.leave()
        self._control.close()
        for handle in self._children:
            os.close(handle)

    def _child_ended(self, handle: int) -> None:
        pid = self._children.pop(handle)
        self._poll.unregister(handle)
        os.close(handle)
        try:
            _, status = os.waitpid(pid, 0)
        except ChildProcessError:
            known = None
        else:
            known = status
        if self._kind == "worker":
            # before its end is told: the session may open again at once, and must not meet its old tools
            if self._groups is not None:
                self._groups.end_worker(pid)
            process_tree.end_tree_blocking([], known=set(self._children.values()))
        self._control.send(ENDED, Ended(pid, known))
