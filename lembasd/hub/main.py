"""The hub's process: `lembasd run`.

Order at the start: directories, config, the hub lock (one hub), then the helpers, which warm up while the hub does,
then the loop, the socket, the link. A hub that cannot start says why in one sentence and leaves with 1.
"""

import asyncio
import os
import signal
import socket
import sys
import time
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import msgspec
from structlog.typing import FilteringBoundLogger

from lembasd import __version__
from lembasd.device import cgroups, config, dumps, logging, milestones, runtime
from lembasd.device.aside import put_aside
from lembasd.device.config import Config
from lembasd.device.credentials import Credentials
from lembasd.device.damaged import say_damaged
from lembasd.device.lock import HubLock, Membership
from lembasd.device.paths import MAX_SOCKET_PATH_BYTES, Paths, find_paths
from lembasd.device.service_manager import Notifier, handed_over
from lembasd.device.settings import SettingsSource
from lembasd.hub import budgets, memory, takeover
from lembasd.hub.core import inputs
from lembasd.hub.heartbeat import Pulse
from lembasd.hub.lifecycle import Lifecycle
from lembasd.hub.link_client import LinkClient
from lembasd.hub.local import LocalDesk
from lembasd.hub.reloader import Kept, Reloader
from lembasd.hub.runner import Hub
from lembasd.hub.server import Server
from lembasd.hub.spawn.api import Spawner
from lembasd.hub.spawn.choose import make_spawner
from lembasd.hub.spawn.choose import portable as is_portable
from lembasd.hub.sweep import Sweeper
from lembasd.ipc.framing import AssemblyBudget
from lembasd.ipc.listen import bind, inherited, left_open, serve
from lembasd.link.link import Link
from lembasd.protocol.errors import (
    AGENTS_REFUSED,
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_REFUSED,
    LembasError,
    UsageError,
    says,
)
from lembasd.protocol.hello import PROTOCOL
from lembasd.protocol.lembas import LINK_PROTOCOL
from lembasd.protocol.takeover import TAKEOVER, Build, Takeover
from lembasd.store import agents, sessions
from lembasd.store.deletes import Deletes
from lembasd.store.records import JOURNAL_FORMAT

#: a start that cannot succeed before a person does something is tried by a service manager again and again: this far apart
MANAGED_RETRY_S: Final = 10.0
__all__ = ["build", "check", "is_portable", "main"]

#: how often the files of settings are looked at when nobody asks anything (three stats)
SETTINGS_POLL_S: Final = 1.0
#: when what is kept no longer is removed, of the time that the machine is awake: first when the start is well over
FIRST_TIDY_S: Final = 60.0
TIDY_S: Final = 24 * 3600.0
#: how long the last messages may take to leave once the hub ends
GOODBYE_S: Final = 0.5


def main(portable: bool) -> int:
    """Run the hub until it is stopped; the exit code. `portable`: start processes without forking."""
    paths = find_paths()
    try:
        paths.make()
        if agents.is_agents(paths, os.getpid()):
            return _fail(AGENTS_REFUSED, EXIT_REFUSED)
        read = config.load(paths.config_file).config
        moved = _clear_the_way(paths)
        before = takeover.taken(os.environ)
        lock = HubLock.take_over(paths, before.lock) if before else HubLock.acquire(paths)
    except UsageError as error:
        return _fail_slowly(str(error), error.exit_code)
    except LembasError as error:
        return _fail_slowly(str(error))
    except OSError as error:
        return _fail_slowly(f"the directories of lembasd cannot be used: {says(error)}")
    try:
        return _start(paths, read, lock, before, moved, portable=portable)
    except OSError as error:
        return _fail_slowly(f"the hub cannot start: {says(error)}")
    finally:
        lock.release()


def build() -> Build:
    """What this version says of itself to the one that it may take over from."""
    return Build(
        version=__version__,
        link_protocol=LINK_PROTOCOL,
        hub_protocol=PROTOCOL,
        journal_format=JOURNAL_FORMAT,
        takeover=TAKEOVER,
    )


def check(*, as_json: bool = False) -> int:
    """`lembasd run --check`: everything is importable (it was, to get here) and the config can be read."""
    try:
        loaded = config.load(find_paths().config_file)
    except LembasError as error:
        return _fail(str(error))
    for warning in loaded.warnings:
        sys.stderr.write(f"{warning}\n")
    if as_json:
        sys.stdout.write(f"{msgspec.json.encode(build()).decode()}\n")
        return EXIT_DONE
    low, high = PROTOCOL
    sys.stdout.write(
        f"lembasd {__version__}: link protocol {LINK_PROTOCOL}, "
        f"hub socket protocol {low} to {high}, journal format {JOURNAL_FORMAT}\n"
    )
    return EXIT_DONE


def _fail(sentence: str, code: int = EXIT_FAILED) -> int:
    sys.stderr.write(f"lembasd: {sentence}\n")
    return code


def _fail_slowly(sentence: str, code: int = EXIT_FAILED) -> int:
    """As `_fail`; under a service manager, which starts us again at once, only after a while."""
    failed = _fail(sentence, code)
    if runtime.under_service_manager():
        time.sleep(MANAGED_RETRY_S)
    return failed


def _clear_the_way(paths: Paths) -> list[tuple[Path, Path | None]]:
    """Put aside what lies in the place of our files of the run directory and is none; each with where it is now."""
    there = [
        one
        for one in (paths.hub_lock, paths.members_lock, paths.stopping)
        if one.exists() and not one.is_file()
    ]
    if paths.socket.is_dir():
        there.append(paths.socket)
    return [(one, put_aside(one)) for one in there]


def _start(
    paths: Paths,
    read: Config,
    lock: HubLock,
    before: Takeover | None,
    moved: list[tuple[Path, Path | None]],
    *,
    portable: bool,
) -> int:
    dumps.forbid()
    runtime.become_subreaper()
    runtime.raise_descriptors()
    if before is None:
        # a stop is over once a new hub starts: whoever is still there is adopted
        paths.stopping.unlink(missing_ok=True)
    wanted = read.hub.log.format
    console = wanted == "console" or (wanted == "auto" and sys.stderr.isatty())
    logging.configure(
        "hub",
        paths,
        level=read.hub.log.level,
        console=console,
        also_stderr=runtime.stderr_is_journal(),
    )
    log = logging.logger()
    for path, aside in moved:
        say_damaged(path, "it is no file of ours", aside)
    if dumps.allowed():
        log.warning("dumps_allowed")
    if len(os.fsencode(paths.socket)) > MAX_SOCKET_PATH_BYTES:
        return _fail(
            f"the socket's path {paths.socket} is too long; set LEMBAS_HOME or TMPDIR to a shorter one"
        )
    spawner = make_spawner(paths, log, portable=portable, takeover=before)
    return runtime.run(partial(_run, paths, spawner, log, lock, before, portable=portable))


async def _run(
    paths: Paths,
    spawner: Spawner,
    log: FilteringBoundLogger,
    lock: HubLock,
    before: Takeover | None,
    *,
    portable: bool,
) -> int:
    membership = Membership.take_over(paths, before.members) if before else Membership.join(paths)
    source = SettingsSource(paths)
    probe = partial(sessions.probe, paths)
    deletes = Deletes(paths)
    hub = Hub(settings=source, probe=probe, deletes=deletes, random=os.urandom, log=log)
    server = Server(hub, paths, probe, log)
    server.helpers = spawner.helpers
    lifecycle = Lifecycle(hub, paths, membership, log)
    lifecycle.release_helpers = spawner.release
    lifecycle.helper_pids = spawner.helper_pids
    link_client = LinkClient(hub, log)

    def login() -> Credentials | None:
        source.current()
        return source.credentials

    link = Link(link_client, login)
    link_client.redialler = link
    notifier = Notifier(os.environ)
    reloader = Reloader(
        hub,
        paths,
        ours=build(),
        doors=server,
        spawner=spawner,
        notifier=notifier,
        close_link=link_client.close,
        words=takeover.command(),
    )
    reloads = before.reloads if before else 0
    hub.desk = LocalDesk(
        hub,
        lifecycle,
        socket=str(paths.socket),
        portable=portable,
        link=lambda: msgspec.to_builtins(link.status),
        zygotes=lambda: msgspec.to_builtins(spawner.helpers()),
        problem=lambda: source.problem,
        strangers=lambda: msgspec.to_builtins(server.strangers()),
        reload=reloader.reload,
        reloads=reloads,
    )

    def changed() -> None:
        logging.set_level(source.config.hub.log.level)
        hub.children.log_level = source.config.hub.log.level
        link_client.changed()
        link.login_changed()

    hub.on_change = changed
    hub.children.starter = spawner
    spawner.on_loop = lambda kind, loops: hub.alarms.loop(kind, loops=loops)
    source.current()
    hub.children.log_level = source.config.hub.log.level
    spawner.begin(hub.children)
    if before:
        hub.children.take_over(before.processes)
        log.info(
            "hub_took_over",
            version=before.version,
            processes=len(before.processes),
            zygotes=len(before.helpers),
        )

    def ending() -> None:
        notifier.stopping()
        reloader.ending()

    lifecycle.on_ending = ending
    _take_signals(lifecycle)
    listener, activated = _listener(paths, before)
    listening = await serve(listener, server, AssemblyBudget())
    reloader.kept = Kept(listener.fileno(), lock.handle, membership.handle, activated, reloads)
    log.info("hub_listening", socket=str(paths.socket), portable=portable, activated=activated)
    sweeper = Sweeper(paths, cgroups.find(paths), log)
    sweeper.on_sweep = partial(spawner.reap_strangers, set())
    notifier.ready(f"version {__version__}, {paths.socket}")
    milestones.reached("hub.listening")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(link.run)
        tasks.start_soon(_poll_settings, hub, source, link, log)
        tasks.start_soon(_tidy, hub)
        tasks.start_soon(_tell_deletes, hub, deletes)
        tasks.start_soon(sweeper.run)
        tasks.start_soon(_stay_watched, notifier)
        tasks.start_soon(budgets.watch, hub, paths.state)
        tasks.start_soon(memory.watch, hub)
        tasks.start_soon(Pulse(hub).run)
        if paths.stopping.exists():
            lifecycle.stop()  # it began while one version followed the other
        await lifecycle.ended.wait()
        tasks.cancel_scope.cancel()
    listening.close()
    server.close("the hub ends")
    await server.closed(GOODBYE_S)
    reloader.close()
    spawner.close()
    hub.close()
    notifier.close()
    if lifecycle.stopping and not activated:
        paths.socket.unlink(missing_ok=True)
    log.info("hub_stopped", stopped_all=lifecycle.stopping)
    milestones.reached("hub.stopped")
    return EXIT_FAILED if lifecycle.left else EXIT_DONE


def _listener(paths: Paths, before: Takeover | None) -> tuple[socket.socket, bool]:
    """The listening socket, and whether it is a service manager's. Raises OSError."""
    if before is not None:
        return left_open(before.listener, paths.socket), before.activated
    given = inherited(handed_over(os.environ), paths.socket)
    return given or bind(paths.socket), given is not None


async def _stay_watched(notifier: Notifier) -> None:
    """Tell the service manager that the loop goes round, as often as it wants to hear it."""
    while notifier.alive_every_s is not None:
        notifier.alive()
        await asyncio.sleep(notifier.alive_every_s)


async def _tidy(hub: Hub) -> None:
    await asyncio.sleep(FIRST_TIDY_S)
    while True:
        hub.feed(inputs.TidyDue())
        await asyncio.sleep(TIDY_S)


async def _tell_deletes(hub: Hub, deletes: Deletes) -> None:
    """Have the instance hear of what commands, and the utility worker by itself, deleted."""
    while True:
        await asyncio.sleep(SETTINGS_POLL_S)
        if deletes.changed():
            hub.feed(inputs.DeletesKept())


def _take_signals(lifecycle: Lifecycle) -> None:
    loop = asyncio.get_running_loop()
    managed = runtime.under_service_manager()
    # a marker that is there already means that a stop is under way, whoever sends the signal
    loop.add_signal_handler(signal.SIGTERM, lifecycle.leave_or_stop, managed)
    loop.add_signal_handler(signal.SIGINT, lifecycle.stop)
    takeover.hear()


async def _poll_settings(
    hub: Hub, source: SettingsSource, link: Link, log: FilteringBoundLogger
) -> None:
    said: str | None = None
    warned: list[str] = []
    logins = source.logins
    while True:
        hub.refresh_settings()
        if source.logins != logins:
            logins = source.logins
            link.login_written()
        if source.problem != said:
            said = source.problem
            if said is not None:
                log.error("settings_problem", error=said)
        if source.warnings != warned:
            warned = source.warnings
            for warning in warned:
                log.warning("settings_warning", error=warning)
        await asyncio.sleep(SETTINGS_POLL_S)
