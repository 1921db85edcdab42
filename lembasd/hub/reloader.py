"""`_hub/reload`: performs what `hub/core/reloading` decides. Checks the installed version, and leaves the process to it."""

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, Protocol, assert_never

import msgspec

from lembasd.device import milestones
from lembasd.device.paths import Paths
from lembasd.device.service_manager import Notifier
from lembasd.hub import takeover
from lembasd.hub.core import reloading
from lembasd.hub.core.reloading import Reloading, Speaker
from lembasd.hub.runner import Hub
from lembasd.hub.spawn.api import Spawner
from lembasd.protocol import jsonrpc
from lembasd.protocol.errors import INTERNAL_ERROR, says
from lembasd.protocol.limits import KIB
from lembasd.protocol.takeover import Build, Takeover

#: a version that has not said what it is by then does not start
CHECK_S: Final = 30.0
#: how long the last messages may take to leave
FLUSH_S: Final = 0.5
#: of what a check says; the rest is not read
MAX_SAID_BYTES: Final = 64 * KIB

_build: Final = msgspec.json.Decoder(Build)


class Doors(Protocol):
    """What is closed before another version takes over."""

    @property
    def has_parked(self) -> bool: ...

    async def flushed(self, within_s: float) -> None: ...


class Kept(msgspec.Struct, frozen=True):
    """The descriptors that stay open. `reloads`: how often this process was reloaded before."""

    listener: int
    lock: int
    members: int
    activated: bool
    reloads: int


class Reloader:
    """One hub's reloads. `close_link` ends the link, and says when it is gone."""

    def __init__(
        self,
        hub: Hub,
        paths: Paths,
        *,
        ours: Build,
        doors: Doors,
        spawner: Spawner,
        notifier: Notifier,
        close_link: Callable[[float], Coroutine[Any, Any, None]],
        words: list[str],
    ) -> None:
        self._hub = hub
        self._paths = paths
        self._ours = ours
        self._doors = doors
        self._spawner = spawner
        self._notifier = notifier
        self._close_link = close_link
        self._words = words
        self._machine = Reloading(ours)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._process: subprocess.Popen[bytes] | None = None
        #: the manager was told that another version takes over
        self._announced = False
        #: known once the hub listens; nothing can be left before
        self.kept: Kept | None = None

    def reload(self, client: int, message_id: bytes) -> None:
        """Have the installed version take over. The client is answered only when it cannot: else its connection ends."""
        self._feed(reloading.Asked(client, message_id))

    def ending(self) -> None:
        """The hub ends."""
        self._feed(reloading.Ending())

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()

    # ── the machine ─────────────────────────────────────────────────────────────────────────────

    def _feed(self, what: reloading.Input) -> None:
        for effect in self._machine.handle(what, self._loop.time()):
            self._perform(effect)

    def _perform(self, effect: reloading.Effect) -> None:
        match effect:
            case reloading.Check():
                self._hub.log.info("reload_begins")
                self._run(self._check())
            case reloading.EndCheck():
                if self._process is not None:
                    self._process.kill()
            case reloading.Look(at):
                self._timer = self._loop.call_at(at, self._look)
            case reloading.HandOver(build):
                self._run(self._hand_over(build))
            case reloading.Refuse(client, message_id, reason):
                data = {"reason": "not_reloaded"}
                refusal = jsonrpc.error(message_id, INTERNAL_ERROR, reason, data)
                self._hub.say(client, refusal)
            case reloading.Tell(reason):
                self._hub.log.error("reload_failed", error=reason)
                if self._announced:
                    self._announced = False
                    self._notifier.ready(f"version {self._ours.version}; a reload failed")
            case _:
                assert_never(effect)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _look(self) -> None:
        safe = self._spawner.settled and not self._doors.has_parked
        self._feed(reloading.Looked(safe and self._hub.router.table.quiet, safe))

    # ── the installed version ───────────────────────────────────────────────────────────────────

    async def _check(self) -> None:
        answer: reloading.Checked | reloading.CheckFailed
        try:
            build = await self._asked()
        except (OSError, ValueError, TimeoutError) as error:
            why = f"the installed version does not start ({says(error) if isinstance(error, OSError) else error})"
            answer = reloading.CheckFailed(
                f"{why}; nothing was changed, `lembasd run --check` says more"
            )
        else:
            answer = reloading.Checked(build, self._speakers())
        self._feed(answer)

    async def _asked(self) -> Build:
        """What the installed version says of itself. Raises OSError, ValueError, TimeoutError."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = self._start(out.fileno(), err.fileno())
            try:
                code = await asyncio.to_thread(process.wait, CHECK_S)
            except subprocess.TimeoutExpired:
                raise TimeoutError(f"it does not say what it is within {CHECK_S:g} s") from None
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                await asyncio.to_thread(process.wait)
                self._spawner.guest_ended(process.pid)
                self._process = None
            said = [_read(one.fileno()) for one in (out, err)]
        if code != 0:
            lines = said[1].decode(errors="replace").strip().splitlines()
            raise ValueError(lines[-1].removeprefix("lembasd: ") if lines else f"exit code {code}")
        try:
            return _build.decode(said[0])
        except msgspec.MsgspecError:
            raise ValueError("it does not say what it is") from None

    def _start(self, out: int, err: int) -> "subprocess.Popen[bytes]":
        process = self._process = subprocess.Popen(
            [*self._words, "--check", "--json"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        # before the loop goes round: it is no orphan
        self._spawner.guest(process.pid)
        return process

    def _speakers(self) -> list[Speaker]:
        hellos = (one.peer.hello for one in self._hub.processes.values())
        return [Speaker(hello.build, hello.protocol) for hello in hellos if hello is not None]

    # ── taking over ─────────────────────────────────────────────────────────────────────────────

    async def _hand_over(self, build: Build) -> None:
        self._announced = True
        self._notifier.reloading()
        await self._close_link(FLUSH_S)
        await self._doors.flushed(FLUSH_S)
        milestones.reached("hub.hands_over")
        # from here to the exec nothing else happens in this process
        if not self._machine.is_handing_over:
            return  # the hub ends meanwhile
        if self._paths.stopping.exists():
            self._feed(reloading.Failed("lembasd is being stopped"))
            return
        if not self._spawner.settled:
            self._feed(reloading.Looked(quiet=False, safe=False))
            return
        try:
            self._execute(build)
        except OSError as error:
            reason = f"the installed version cannot be executed ({says(error)}); nothing was changed, install it again"
            self._feed(reloading.Failed(reason))

    def _execute(self, build: Build) -> None:
        """Raises OSError."""
        kept = self.kept
        if kept is None:
            raise RuntimeError("nobody can have asked a hub that does not listen")
        what = Takeover(
            version=self._ours.version,
            listener=kept.listener,
            lock=kept.lock,
            members=kept.members,
            activated=kept.activated,
            reloads=kept.reloads + 1,
            helpers=self._spawner.left(),
            processes=self._hub.children.pids(),
            persons=self._spawner.persons,
        )
        self._hub.log.info("hub_hands_over", version=build.version)
        takeover.hand_over(what, self._paths.run, self._words)


def _read(handle: int) -> bytes:
    return os.pread(handle, MAX_SAID_BYTES, 0)
