"""The environment that the person has in a terminal: their login shell is asked for it, once for the whole device.

It is asked at the first command, not when a session opens. The answer lies in the run directory, 0600, for the
workers of all sessions, and is taken anew when a startup file changed. A shell that gives none (its files hang, exit,
exec something else) costs one wait, then the service's own environment does.
"""

import asyncio
import fcntl
import hashlib
import os
import secrets
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from lembasd.device import environment, private_file, process_tree
from lembasd.device.damaged import clear_the_way, set_aside
from lembasd.device.logging import logger
from lembasd.device.person import Person, find_person
from lembasd.engine.native import child
from lembasd.engine.native.core import login_shell
from lembasd.engine.native.kept import Kept
from lembasd.protocol.errors import LembasError
from lembasd.protocol.limits import KIB, MIB
from lembasd.store.apart import run_apart

#: a shell that has not answered by then hangs; asked as an interactive one, then as a plain login shell
INTERACTIVE_S: Final = 8.0
PLAIN_S: Final = 4.0
#: of what the shell says, its own prints included; more is no answer
MAX_ANSWER_BYTES: Final = 4 * MIB
#: looks at the home directory; one that takes longer is on a disk that hangs, and what was known before is used
LOOK_S: Final = 2.0
#: files that startup files read in their turn are not known: their changes are seen after so long
MAX_AGE_S: Final = 3600.0
#: a shell that gave nothing is asked again after so long, or when its files change
RETRY_S: Final = 300.0
#: how long one worker waits for another that asks the shell; then it does without
WAIT_S: Final = INTERACTIVE_S + PLAIN_S + 2.0
_BETWEEN_TRIES_S: Final = 0.05
#: files behind one pattern that are looked at
MAX_FILES: Final = 200
_MAX_PROFILE_BYTES: Final = 64 * KIB
_FILE: Final = "environment"
_LOCK: Final = "environment.lock"


class _Taken(Struct, frozen=True):
    """An answer (b"": there was none). `key` is of everything that it depends on, `at` a wall clock's time."""

    key: str
    at: float
    answer: bytes
    #: the ssh agent's socket was there
    agent: bool


class LoginEnvironment:
    """For one session's tools. `run`: the directory where workers share the answer, if it is there."""

    def __init__(
        self,
        session_id: str,
        epoch: int,
        run: Callable[[], Path],
        person: Callable[[Mapping[str, str]], Person] = find_person,
        *,
        waits_s: tuple[float, float] = (INTERACTIVE_S, PLAIN_S),
        kept: Kept | None = None,
        service: Mapping[str, str] | None = None,
    ) -> None:
        self._session_id = session_id
        self._epoch = epoch
        #: where what one worker learnt is kept for the others; looked up when it is wanted, for most never ask
        self._run = run
        self._find_person = person
        self._waits_s = waits_s
        self._kept = kept or Kept()
        #: another process' environment, whose service is meant; None: this process'
        self._service = service
        self._taken: _Taken | None = None
        self._lock = asyncio.Lock()

    async def current(self) -> dict[str, str]:
        """The person's environment as it is now, without anything of the service's. Never raises OSError."""
        service = environment.persons(os.environ if self._service is None else self._service)
        async with self._lock:
            with suppress(TimeoutError, OSError):  # what was known before must do
                async with asyncio.timeout(LOOK_S):
                    self._taken = await run_apart(lambda: self._known(service))
                if self._taken is None:
                    async with self._alone() as is_alone:
                        self._taken = await self._take(service) if is_alone else None
        return self._variables(service)

    @property
    def answered(self) -> bool:
        """Whether the shell has said it, so that `current` is not the service's own."""
        return self._taken is not None and bool(self._taken.answer)

    async def _take(self, service: dict[str, str]) -> _Taken:
        """What another worker has taken meanwhile, or the shell's answer, for all of them."""
        shared = await run_apart(lambda: self._shared(self._key))
        if shared is not None:
            return shared
        taken = await self._ask(self._key, service)
        await run_apart(lambda: self._share(taken))
        return taken

    def _variables(self, service: dict[str, str]) -> dict[str, str]:
        taken = self._taken
        if taken is None or not taken.answer:
            return service
        found = environment.persons(login_shell.variables(taken.answer))
        return login_shell.without_dead_agent(found, service, alive=taken.agent)

    # ── what is known ───────────────────────────────────────────────────────────────────────────

    def _known(self, service: dict[str, str]) -> _Taken | None:
        """What was taken and still holds. In a thread: the home may be on a disk that hangs."""
        self._person = self._find_person(service)
        self._key = _key(self._person, service)
        if self._taken is not None and _holds(self._taken, self._key):
            return self._taken
        return self._shared(self._key)

    def _shared(self, key: str) -> _Taken | None:
        path = self._run() / _FILE
        try:
            content = private_file.read(path)
            if content is None:
                return None
            taken = msgspec.msgpack.decode(content, type=_Taken)
        except (
            LembasError
        ):  # others could have written it; or it is no file, and could not be replaced
            clear_the_way(path)
            return None
        except (msgspec.MsgspecError, RecursionError):
            set_aside(path, "it cannot be read")
            return None
        return taken if _holds(taken, key) else None

    def _share(self, taken: _Taken) -> None:
        if self._run().is_dir():
            with suppress(OSError):  # a full disk: the next worker asks for itself
                private_file.write(self._run() / _FILE, msgspec.msgpack.encode(taken))

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[bool]:
        """Whether nobody else asks now: a hundred workers do not start a hundred shells."""
        try:
            handle = os.open(self._run() / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:  # no such directory: nobody shares
            yield True
            return
        try:
            give_up = time.monotonic() + WAIT_S
            while not (is_alone := _lock(handle)):
                if time.monotonic() > give_up:
                    break
                await asyncio.sleep(_BETWEEN_TRIES_S)
            yield is_alone
        finally:
            os.close(handle)

    # ── asking ──────────────────────────────────────────────────────────────────────────────────

    async def _ask(self, key: str, service: dict[str, str]) -> _Taken:
        person = self._person
        base = {
            "PATH": os.defpath,
            **environment.for_tools(service, self._session_id, self._epoch),
            "HOME": person.home,
            "USER": person.name,
            "LOGNAME": person.name,
            "SHELL": person.shell.path,
            # for a startup file that would rather not be read now
            "LEMBAS_READS_ENVIRONMENT": "1",
        }
        answer, ended = b"", set[int]()
        for interactive, within_s in zip((True, False), self._waits_s, strict=True):
            begun = time.monotonic()
            answer, ended = await self._answer(base, within_s, interactive=interactive)
            if answer:
                break
            logger().warning(
                "login_shell_silent",
                error=f"{person.shell.path} did not say its environment; see its startup files",
                interactive=interactive,
                duration_ms=int((time.monotonic() - begun) * 1000),
            )
        variables = login_shell.variables(answer)
        # an agent that the shell started for this one question has ended with it
        alive = variables.get("SSH_AGENT_PID", "") not in {str(pid) for pid in ended}
        agent = alive and await run_apart(lambda: _is_socket(variables))
        return _Taken(key, time.time(), answer, agent)

    async def _answer(
        self, base: dict[str, str], within_s: float, *, interactive: bool
    ) -> tuple[bytes, set[int]]:
        """What the shell says (b"": nothing of use), and what was ended after it: everything that it started."""
        shell, mark = self._person.shell, secrets.token_hex(16)
        bashrc = interactive and await run_apart(lambda: _leaves_out_bashrc(self._person.home))
        words = login_shell.arguments(
            Path(shell.path).name, sys.executable, mark, interactive=interactive, bashrc=bashrc
        )
        others = process_tree.children(os.getpid())
        read_end, write_end = os.pipe()
        starting = asyncio.create_subprocess_exec(
            shell.path,
            *words,
            cwd=self._person.home,
            env=base,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=write_end,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            restore_signals=True,
        )
        try:
            process = await child.started(starting, lambda process: self._end(process, others))
        except (OSError, ValueError):
            os.close(read_end)
            return b"", set()
        except asyncio.CancelledError:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        answer = b""
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    answer = await _read(read_end, mark.encode())
        finally:
            ended = await asyncio.shield(self._end(process, others))
        return answer, ended

    async def _end(self, process: asyncio.subprocess.Process, others: list[int]) -> set[int]:
        async with self._kept.still() as kept:
            report = await process_tree.end_tree(
                [process.pid],
                watched={process.pid, *kept},
                known={process.pid, *others, *kept},
            )
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), process_tree.GONE_S)
        return set(report.ended)


async def _read(read_end: int, mark: bytes) -> bytes:
    """Read until the answer is there: something that the shell left running may hold its output open."""
    said = b""
    async with child.reading(read_end) as reader:
        while len(said) < MAX_ANSWER_BYTES and (data := await reader.read(64 * KIB)):
            said += data
            answer = login_shell.read_answer(said, mark)
            if answer is not None:
                return answer
    return b""


def _lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holds(taken: _Taken, key: str) -> bool:
    """Whether an answer can be used still: for the same files, not too old, its ssh agent not gone since."""
    age = time.time() - taken.at
    if taken.key != key or not 0 <= age < (MAX_AGE_S if taken.answer else RETRY_S):
        return False
    return not taken.agent or _is_socket(login_shell.variables(taken.answer))


def _is_socket(variables: dict[str, str]) -> bool:
    return Path(variables.get("SSH_AUTH_SOCK", "")).is_socket()


def _key(person: Person, service: dict[str, str]) -> str:
    """A digest of everything that the shell's answer depends on, as far as it is known."""
    seen = hashlib.sha256(repr((person, sorted(service.items()))).encode("utf-8", "replace"))
    for path in _startup_files(person, service):
        try:
            about = path.stat()
            stamp = (about.st_mtime_ns, about.st_size, about.st_ino)
        except OSError:
            stamp = (0, 0, 0)
        seen.update(repr((str(path), stamp)).encode("utf-8", "replace"))
    return seen.hexdigest()


def _startup_files(person: Person, service: dict[str, str]) -> Iterator[Path]:
    below_home, elsewhere = login_shell.startup_files(person.shell.kind)
    homes = [Path(person.home)]
    if "ZDOTDIR" in service:
        homes.append(Path(service["ZDOTDIR"]))
    for base, patterns in [*((home, below_home) for home in homes), (Path("/"), elsewhere)]:
        for pattern in patterns:
            if "*" not in pattern:
                yield base / pattern
                continue
            with suppress(OSError):
                yield from sorted(base.glob(pattern.lstrip("/")))[:MAX_FILES]


def _leaves_out_bashrc(home: str) -> bool:
    """Whether a login bash reads no .bashrc here: the profile that it reads does not name it."""
    base = Path(home)
    for name in (".bash_profile", ".bash_login", ".profile"):
        with suppress(OSError):
            with (base / name).open("rb") as file:
                profile = file.read(_MAX_PROFILE_BYTES)
            return b"bashrc" not in profile and (base / ".bashrc").is_file()
    return (base / ".bashrc").is_file()
