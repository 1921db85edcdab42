"""`lembas sessions`: the sessions of this machine. It needs no hub, and starts none."""

import os
import signal
import time
from contextlib import suppress
from typing import Any, Final

import click
import msgspec

from lembasd.cli import running
from lembasd.cli.persons import persons_only
from lembasd.cli.prune_command import prune
from lembasd.cli.session_completion import complete
from lembasd.cli.session_ids import resolve
from lembasd.device.paths import Paths, find_paths
from lembasd.ipc.client import HubClient
from lembasd.ipc.connect import NoHub
from lembasd.protocol.control import Settings
from lembasd.protocol.errors import EXIT_DONE, EXIT_FAILED, RequestRefused, UsageError
from lembasd.store import catalogue, deleting
from lembasd.store.sessions import probe
from lembasd.worker import removing

#: a worker that is told to end cancels its turn and is gone by then
WORKER_ENDS_S: Final = 15.0
_LOOK_S: Final = 0.05
_TITLE_CHARS: Final = 40


_LAZY: Final = {
    name: f"lembasd.cli.stored_command:{name}" for name in ("show", "export", "search", "share")
}


@click.group("sessions", cls=running.LazyGroup, lazy=_LAZY)
def sessions() -> None:
    """The sessions that are stored on this machine."""


@sessions.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def list_sessions(as_json: bool) -> int:
    """Every session, the one that changed last first."""
    found = catalogue.sessions(find_paths())
    if as_json:
        running.say_json({"sessions": msgspec.to_builtins(found)})
        return EXIT_DONE
    for one in found:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.changed))
        title = _plain(one.title) or "(no title)"
        short = title if len(title) <= _TITLE_CHARS else f"{title[: _TITLE_CHARS - 1]}…"
        state = "open" if one.pid is not None else ""
        click.echo(
            f"{one.session_id}  {when}  {state:4}  {short:{_TITLE_CHARS}}  {_plain(one.root)}"
        )
    if not found:
        click.echo("there are no sessions yet")
    return EXIT_DONE


sessions.add_command(prune)


@sessions.command("delete")
@click.argument("session_ids", nargs=-1, required=True, metavar="ID...", shell_complete=complete)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@persons_only
def delete(session_ids: tuple[str, ...], as_json: bool) -> int:
    """Delete sessions, and stop what runs in them. As much of an ID as names no other will do.

    The instance is told as soon as there is a link.
    """
    meant = [resolve(find_paths(), one) for one in session_ids]

    async def work() -> int:
        paths = find_paths()
        deleted = {one: await _delete(paths, one) for one in dict.fromkeys(meant)}
        deleting.sweep(paths)
        if as_json:
            rows = [{"session_id": one, "deleted": done} for one, done in deleted.items()]
            running.say_json({"sessions": rows})
        for one, done in deleted.items():
            if not done:
                running.say_error(f"there is no session {one}; see `lembas sessions list`")
            elif not as_json:
                click.echo(f"{one} is deleted")
        return EXIT_DONE if all(deleted.values()) else EXIT_FAILED

    return running.run_async(work)


async def _delete(paths: Paths, session_id: str) -> bool:
    """Have the hub do it, for it tells the instance at once; without one it is done here."""
    client = HubClient()
    try:
        await client.connect(paths.socket)
    except (NoHub, OSError):
        return _delete_here(paths, session_id)
    try:
        await client.request("initialize", {})
        answer = await client.request("_lembas/session/delete", {"sessionId": session_id})
        result: dict[str, Any] = msgspec.json.decode(answer)
        return bool(result["deleted"])
    except (NoHub, TimeoutError) as error:
        raise UsageError(f"the hub did not delete {session_id} ({error}); try again") from error
    finally:
        client.close()


def _delete_here(paths: Paths, session_id: str) -> bool:
    """Without a hub: a worker that is left of an earlier one is ended first."""
    pid = probe(paths, session_id).locked_by
    if pid:
        with suppress(ProcessLookupError, PermissionError):  # ended meanwhile
            os.kill(pid, signal.SIGTERM)
    give_up = time.monotonic() + WORKER_ENDS_S
    while probe(paths, session_id).locked_by is not None and time.monotonic() < give_up:
        time.sleep(_LOOK_S)
    try:
        return removing.delete(paths, session_id, Settings(), local=True)
    except RequestRefused as refused:
        raise UsageError(refused.message) from refused


def _plain(text: str) -> str:
    """A text of somebody's without what a terminal would obey."""
    return "".join(one if one.isprintable() else " " for one in text).strip()
