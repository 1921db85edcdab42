"""The master side of a terminal in the loop: what the shell writes, what is typed, and its end."""

import asyncio
import errno
import os
import signal
import struct
import sys
import termios
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from fcntl import ioctl
from typing import Final

import psutil

from lembasd.protocol.limits import KIB, MIB
from lembasd.pty.late_jobs import late_jobs
from lembasd.pty.shell import Started, set_size

#: read in one round of the loop, before others have their turn
_READ_BYTES: Final = 64 * KIB
#: a read that gives less has given all there was
_ECHO_BYTES: Final = 1 * KIB
#: keystrokes that wait for a program that does not read; what is typed beyond it is dropped, as at a real terminal
MAX_INPUT_BYTES: Final = 16 * MIB
#: after the shell's end, how long its terminal must be silent when something in the background still has it open
QUIET_S: Final = 0.1
#: the longest wait for that silence
LAST_OUTPUT_S: Final = 2.0
#: between SIGHUP and SIGKILL
KILL_S: Final = 3.0
#: between SIGHUP and the next, for a shell that is still there: bash forgets one that comes just before its prompt, and waits
#: for the end of its terminal, which is ours to keep until the last output is read
AGAIN_S: Final = 0.5
#: how often it is looked whether what was told to end has
LOOK_S: Final = 0.02


#: what stands for a key that was taken from the terminal
_NO_KEY: Final = (b"\0", b"\xff")


class Master:
    """One running shell. `on_output` gets every byte, `on_end` comes once after the last of them with waitpid's status."""

    def __init__(
        self,
        started: Started,
        on_output: Callable[[bytes], None],
        on_end: Callable[[int | None], None],
    ) -> None:
        self._master = started.master
        self._process = started.process
        self._on_output = on_output
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._input: deque[bytes] = deque()
        self._input_bytes = 0
        self._reading = False
        #: what is read goes here first
        self._room = memoryview(bytearray(_READ_BYTES))
        self._paused = False
        self._output_ended = False
        self._shell_ended = False
        self._status: int | None = None
        #: the process groups that were told to end; the end is told when they have, or were killed
        self._hung_up: set[int] = set()
        self._hung_up_at = 0.0
        self._killed = False
        self._timers: list[asyncio.TimerHandle] = []
        self._quiet: asyncio.TimerHandle | None = None
        self._told = False
        self._pidfd: int | None = None
        self._reaping: asyncio.Task[None] | None = None
        self._watch_shell()
        self._read_on()

    @property
    def shell_pid(self) -> int:
        return self._process.pid

    # ── output ──────────────────────────────────────────────────────────────────────────────────

    def pause(self) -> None:
        self._paused = True
        self._stop_reading()

    def resume(self) -> None:
        self._paused = False
        self._read_on()

    def _read_on(self) -> None:
        if not self._reading and not self._paused and not self._output_ended:
            self._reading = True
            self._loop.add_reader(self._master, self._readable)
            self._wait_quiet()

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._master)

    def _readable(self) -> None:
        """Read what is there: the kernel gives a few kilobytes at a time, and each round of the loop costs as much."""
        count, ended = 0, False
        while count < _READ_BYTES:
            try:
                got = os.readv(self._master, [self._room[count:]])
            except BlockingIOError:
                break
            except OSError as error:
                if (
                    error.errno != errno.EIO
                ):  # EIO: every slave side is closed and everything is read
                    raise
                got = 0
            ended = not got
            count += got
            if got < _ECHO_BYTES:
                break  # a person's echo: no look for more
        if count:
            self._wait_quiet()
            self._on_output(bytes(self._room[:count]))
        if ended:
            self._end_output()

    def _end_output(self) -> None:
        self._output_ended = True
        self._stop_reading()
        self._tell()

    # ── the shell's end ─────────────────────────────────────────────────────────────────────────

    def _watch_shell(self) -> None:
        if sys.platform == "linux":
            self._pidfd = os.pidfd_open(self._process.pid)
            self._loop.add_reader(self._pidfd, self._shell_gone)
        else:
            self._reaping = self._loop.create_task(self._wait_shell())

    async def _wait_shell(self) -> None:
        await asyncio.to_thread(self._process.wait)
        self._shell_gone()

    def _shell_gone(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        code = self._process.wait()
        self._status = code << 8 if code >= 0 else -code
        self._shell_ended = True
        self._timers.append(self._loop.call_later(LAST_OUTPUT_S, self._output_timeout))
        self._wait_quiet()
        self._tell()

    def _wait_quiet(self) -> None:
        """Once the shell is gone, no end of output comes while a background job has the terminal: silence must do."""
        if self._quiet is not None:
            self._quiet.cancel()
            self._quiet = None
        if self._shell_ended and self._reading:
            self._quiet = self._loop.call_later(QUIET_S, self._end_output)

    def _output_timeout(self) -> None:
        if self._paused and not self._hung_up:  # a slow viewer has not taken it yet: it comes first
            self._timers.append(self._loop.call_later(LAST_OUTPUT_S, self._output_timeout))
        elif not self._output_ended:
            self._end_output()

    def _tell(self) -> None:
        if not self._output_ended or not self._shell_ended or self._told:
            return
        if self._hung_up and not self._killed and self._any_is_left():
            self._timers.append(self._loop.call_later(LOOK_S, self._tell))
        else:
            self._told = True
            self._on_end(self._status)

    # ── input ───────────────────────────────────────────────────────────────────────────────────

    def write(self, data: bytes) -> None:
        """Type; what the program does not read yet waits, up to MAX_INPUT_BYTES."""
        if self._told or self._input_bytes + len(data) > MAX_INPUT_BYTES:
            return
        self._wake()
        if not data:
            return
        self._input.append(data)
        self._input_bytes += len(data)
        if len(self._input) == 1:
            self._write_on()

    def _wake(self) -> None:
        """Have a shell go on that is stopped (`suspend`, or `exec` of what Ctrl-Z stops): nobody else would."""
        if self._shell_ended:
            return
        with suppress(ChildProcessError, ProcessLookupError):
            if os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOHANG):
                os.killpg(_group_of(self._process.pid), signal.SIGCONT)

    def _write_on(self) -> None:
        while self._input:
            data = self._input[0]
            try:
                written = os.write(self._master, data)
            except BlockingIOError:
                self._loop.add_writer(self._master, self._write_on)
                return
            except OSError:  # the slave side is closed: nobody reads any more
                self._input.clear()
                break
            self._input_bytes -= written
            if written < len(data):
                self._input[0] = data[written:]
            else:
                self._input.popleft()
        if not self._input:
            self._input_bytes = 0
        self._loop.remove_writer(self._master)

    def drop_input(self) -> None:
        """Forget what waits for a program that does not read, so that the key that interrupts it is not behind it.

        What the kernel holds of it goes too, as it does when the key is heard: it is full, and would not hear it.
        """
        if not self._input:
            return
        self._input.clear()
        self._input_bytes = 0
        self._loop.remove_writer(self._master)
        with suppress(OSError, termios.error):  # nobody has it open any more
            _flush(self._master)

    def resize(self, cols: int, rows: int) -> None:
        if not self._told:
            set_size(self._master, cols, rows)

    def interrupts(self, typed: bytes) -> bool:
        """Whether these keys interrupt what is in the foreground, and the terminal drops what it has not shown for it."""
        try:
            modes = termios.tcgetattr(self._master)
        except termios.error:  # nobody has it open any more
            return False
        local, key = modes[3], modes[6][termios.VINTR]
        heard = bool(local & termios.ISIG and not local & termios.NOFLSH)
        return heard and key not in _NO_KEY and key in typed

    # ── ending ──────────────────────────────────────────────────────────────────────────────────

    def hang_up(self) -> None:
        """SIGHUP to the shell and to what is in the foreground; SIGKILL to what of them is left after KILL_S."""
        # none where the shell has no job control
        self._hung_up = self._groups() or {self._process.pid}
        self._hung_up_at = self._loop.time()
        self._signal(signal.SIGHUP, self._hung_up)
        self._signal(signal.SIGCONT, self._hung_up)
        self._timers.append(self._loop.call_later(AGAIN_S, self._hang_up_shell))
        self._timers.append(self._loop.call_later(KILL_S, self._kill))

    def _hang_up_shell(self) -> None:
        self._process.send_signal(signal.SIGHUP)  # does nothing once it was reaped

    def _kill(self) -> None:
        self._killed = True
        # what has come to the foreground since, from a trap of the shell's, as well
        self._hung_up |= self._groups()
        self._signal(signal.SIGKILL, self._hung_up)
        self._tell()

    def _any_is_left(self) -> bool:
        """Whether what was told to end still runs; the shell is gone, so jobs that it was about to run are told now."""
        late = late_jobs(self._loop.time() - self._hung_up_at) - self._hung_up
        self._hung_up |= late
        self._signal(signal.SIGHUP, late)
        self._signal(signal.SIGCONT, late)
        return bool(late) or _any_runs(self._hung_up)

    def _groups(self) -> set[int]:
        """The groups of the shell and of what is in the foreground, but never this process' own."""
        own = set() if self._shell_ended else {_group_of(self._process.pid)}
        return ({self._foreground()} | own) - {os.getpgrp(), 0}

    def _signal(self, number: signal.Signals, groups: set[int]) -> None:
        for group in groups:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)
        # one without job control is in this process' group; does nothing once it was reaped
        self._process.send_signal(number)

    def _foreground(self) -> int:
        try:
            packed = ioctl(self._master, termios.TIOCGPGRP, b"\0\0\0\0")
        except OSError:
            return 0
        group: int = struct.unpack("i", packed)[0]
        return group

    def close(self) -> None:
        """Let go of the terminal; what is left in it is hung up by the kernel."""
        self._stop_reading()
        self._loop.remove_writer(self._master)
        for timer in [*self._timers, *filter(None, [self._quiet])]:
            timer.cancel()
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        self._told = True
        os.close(self._master)


def _flush(master: int) -> None:
    """Drop what was typed and not read: on its way to the terminal, and in its line editor. Raises OSError, termios.error."""
    termios.tcflush(master, termios.TCOFLUSH)
    # this process leads the terminal's session, but is never in the foreground of it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        slave = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
        try:
            termios.tcflush(slave, termios.TCIFLUSH)
        finally:
            os.close(slave)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


def _any_runs(groups: set[int]) -> bool:
    """Whether a process of these groups is left that is no zombie (one that its next parent has not reaped yet)."""
    for pid in psutil.pids():
        if _group_of(pid) in groups:
            with suppress(psutil.Error):
                if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                    return True
    return False


def exit_code(status: int | None) -> int | None:
    """`_lembas/terminal/exit`'s code: the exit status, 128 + n for signal n, None for unknown."""
    if status is None:
        return None
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def ignore_keys() -> None:
    """Keep what is typed as a signal (Ctrl-C, Ctrl-Z) from this process, which leads the terminal's session.

    With handlers, not SIG_IGN, which the shell would inherit.
    """
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTOU, signal.SIGTTIN):
        signal.signal(number, _nothing)


def _nothing(_number: int, _frame: object) -> None:
    pass
