"""`lembas term`: the hub's terminals in this terminal."""

import asyncio
import time
from pathlib import Path
from typing import Any, Final

import click
import msgspec
import psutil

from lembasd.cli import running, starting
from lembasd.cli.attached_terminal import AttachedTerminal, End
from lembasd.cli.core import detach_keys
from lembasd.cli.persons import persons_only, refuse_agents
from lembasd.device.lock import hub_pid
from lembasd.device.paths import Paths, find_paths
from lembasd.ipc.client import HubClient
from lembasd.ipc.connect import NoHub
from lembasd.protocol.errors import EXIT_DONE, EXIT_USAGE, UsageError

_ID_PREFIX: Final = "term_"
#: how long after its start a hub is given to find the terminals that an earlier one left; they look for it once a second
FOUND_S: Final = 5.0
_LOOK_S: Final = 0.1
_LEFT: Final = (
    "lembasd is not running; terminals that it left are here again once it runs"
    " (`lembas term attach ID` starts it)"
)
_NONE_OPEN: Final = "no terminal is open; `lembas term open` opens one"


def _parsed(ctx: click.Context, param: click.Parameter, value: str) -> bytes:
    try:
        return detach_keys.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


_detach_keys = click.option(
    "--detach-keys",
    callback=_parsed,
    default=detach_keys.DEFAULT_KEYS,
    show_default=True,
    metavar="KEYS",
    help='The keys that leave the terminal running, with commas between; the first twice types it. "" for none.',
)


@click.group("term", invoke_without_command=True)
@click.pass_context
def term(ctx: click.Context) -> int:
    """Terminals that outlive this one and the service. Without a command: open one here."""
    if ctx.invoked_subcommand is not None:
        return EXIT_DONE
    refuse_agents()
    return _use(detach_keys.parse(detach_keys.DEFAULT_KEYS), cwd=Path.cwd())


@term.command("open")
@click.option("--cwd", metavar="DIR", help="Where the shell starts; this directory without it.")
@_detach_keys
@persons_only
def open_terminal(cwd: str | None, detach_keys: bytes) -> int:
    """Open a terminal and attach this one to it. Exits as its shell does."""
    return _use(detach_keys, cwd=Path.cwd() if cwd is None else running.directory(cwd))


@term.command("attach")
@click.argument("terminal", metavar="[ID]", default="")
@_detach_keys
@persons_only
def attach(terminal: str, detach_keys: bytes) -> int:
    """Attach this terminal to one that is open: its id, or as much of it as names no other; without it the only one.

    Where the service has died it is started, and the terminals that it left are found by it.
    """
    return _use(detach_keys, terminal=terminal)


@term.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def list_terminals(as_json: bool) -> int:
    """The open terminals. Starts nothing: without a hub there are none to reach."""

    async def work() -> int:
        paths = find_paths()
        found = [_row(one) for one in await _terminals(paths)]
        if as_json:
            running.say_json({"terminals": found})
            return EXIT_DONE
        for one in found:
            since = time.strftime("%Y-%m-%d %H:%M", time.localtime(one["since"] or 0))
            size = f"{one['cols']}x{one['rows']}"
            looks = "" if one["viewers"] is None else f"{one['viewers']} looking"
            click.echo(
                f"{one['terminal_id']}  {since if one['since'] else '':16}  {one['opened']:5}  "
                f"{one['shell'] or '':5}  {size:7}  pid {one['shell_pid'] or '-'}  {looks}  {one['cwd']}"
            )
        if not found:
            click.echo(_LEFT if _has_died(paths) else _NONE_OPEN)
        return EXIT_DONE

    return running.run_async(work)


def _row(said: dict[str, Any]) -> dict[str, Any]:
    """A terminal as it is listed: `since` in seconds of the epoch, null where it is not known."""
    return {
        "terminal_id": said["terminal_id"],
        "opened": "link" if said["link"] else "local",
        "shell": said.get("shell"),
        "cwd": said["cwd"],
        "cols": said["cols"],
        "rows": said["rows"],
        "pid": said["pid"],
        "shell_pid": said["shell_pid"],
        "viewers": said.get("viewers"),
        "since": _started(said["shell_pid"]),
    }


def _started(pid: int | None) -> int | None:
    try:
        return int(psutil.Process(pid).create_time()) if pid else None
    except psutil.Error:
        return None


async def _terminals(paths: Paths) -> list[dict[str, Any]]:
    """What the hub says of its terminals; none without a hub. Raises UsageError."""
    if hub_pid(paths) is None:
        return []
    client = HubClient()
    try:
        await client.connect(paths.socket)
        value: dict[str, Any] = msgspec.json.decode(await client.request("_hub/status", {}))
    except (NoHub, TimeoutError) as error:
        raise UsageError(f"the hub does not answer ({error}); try again") from error
    finally:
        client.close()
    terminals: list[dict[str, Any]] = value["terminals"]
    return terminals


def _has_died(paths: Paths) -> bool:
    """Whether a hub was here and nobody stopped it, so that its terminals wait for the next."""
    return hub_pid(paths) is None and paths.hub_lock.exists() and not paths.stopping.exists()


def _is_young(paths: Paths) -> bool:
    """Whether the hub may not have been found yet by the terminals that an earlier one left."""
    started = _started(hub_pid(paths))
    return started is not None and time.time() - started < FOUND_S


async def _named(paths: Paths, name: str) -> str:
    """The id of the open terminal that `name` begins or is, or of the only one. Raises UsageError."""
    if _has_died(paths) or _is_young(paths):
        client = HubClient()
        try:
            await starting.connected(paths, client)
        finally:
            client.close()
    shells = await _shells(paths, name)
    while not shells and _is_young(paths):
        await asyncio.sleep(_LOOK_S)
        shells = await _shells(paths, name)
    if not shells and not name:
        raise UsageError(_NONE_OPEN)
    if not shells:
        raise UsageError(f"no terminal {name!r} is open; `lembas term list` names those that are")
    if len(shells) > 1:
        several = ", ".join(sorted(shells))
        what = f"{name!r} begins several terminals" if name else "several terminals are open"
        raise UsageError(f"{what} ({several}); give {'more' if name else 'one'}", EXIT_USAGE)
    ((found, shell),) = shells.items()
    # what it shows would be shown in it, without end
    if any(one.pid == shell for one in psutil.Process().parents()):
        raise UsageError(f"this is {found} already; attach to it from another terminal")
    return found


async def _shells(paths: Paths, name: str) -> dict[str, int | None]:
    """The shells of the terminals that `name` begins. Raises UsageError."""
    begins = name.removeprefix(_ID_PREFIX)
    return {
        one["terminal_id"]: one["shell_pid"]
        for one in await _terminals(paths)
        if one["terminal_id"].removeprefix(_ID_PREFIX).startswith(begins)
    }


def _use(keys: bytes, *, cwd: Path | None = None, terminal: str = "") -> int:
    async def work() -> int:
        paths = find_paths()
        named = await _named(paths, terminal) if cwd is None else ""
        end: End = await AttachedTerminal(paths, keys, cwd=cwd, terminal=named).run()
        if end.said:
            running.say_error(end.said)
        return end.code

    return asyncio.run(work())
