"""`lembasd reload`: have the installed version take over from the hub that runs."""

import asyncio
import time
from typing import Any, Final

import click

from lembasd.cli import hub_status, running
from lembasd.cli.persons import persons_only
from lembasd.device.lock import hub_pid
from lembasd.device.paths import Paths, find_paths
from lembasd.hub.core.reloading import START_S
from lembasd.hub.reloader import CHECK_S, FLUSH_S
from lembasd.ipc.client import HubClient
from lembasd.ipc.connect import NoHub
from lembasd.protocol.errors import EXIT_DONE, EXIT_FAILED, RequestRefused, UsageError

#: a hub that has neither refused nor gone by then hangs
ANSWER_S: Final = CHECK_S + START_S + 2 * FLUSH_S + 2.0
#: a version that has taken over listens by then
COMES_S: Final = 20.0
_LOOK_S: Final = 0.05


@click.command()
@persons_only
def reload() -> int:
    """Have the installed version take over: sessions, their turns and terminals go on. One that does not start changes nothing."""
    paths = find_paths()

    async def main() -> int:
        before = (await hub_status.of_running(paths))["hub"]
        await _ask(paths)
        after = await _taken_over(paths, before)
        click.echo(
            f"lembasd {after['version']} has taken over from {before['version']} (pid {after['pid']}); "
            "sessions and terminals go on"
        )
        return EXIT_DONE

    return running.run_async(main)


async def _ask(paths: Paths) -> None:
    """Ask the hub; returns when it is gone. Raises UsageError with its reason when it stays."""
    client = HubClient()
    try:
        await client.connect(paths.socket)
        await client.request("_hub/reload", {}, ANSWER_S)
    except NoHub as error:
        if not client.lost.is_set():
            raise UsageError(f"the hub does not answer: {error}") from error
    except TimeoutError:
        raise UsageError(
            "the hub does not answer; look at `lembasd logs`, or restart the service"
        ) from None
    except RequestRefused as refused:
        raise UsageError(str(refused), EXIT_FAILED) from refused
    finally:
        client.close()


async def _taken_over(paths: Paths, before: dict[str, Any]) -> dict[str, Any]:
    """What the hub says of itself that has taken over. Raises UsageError when none has."""
    end = time.monotonic() + COMES_S
    while time.monotonic() < end:
        if hub_pid(paths) is not None:
            try:
                hub: dict[str, Any] = (await hub_status.ask(paths))["hub"]
            except (UsageError, NoHub):
                pass  # it is on its way, or has just ended
            else:
                if hub["pid"] != before["pid"] or hub.get("reloads", 0) > before.get("reloads", 0):
                    return hub
        await asyncio.sleep(_LOOK_S)
    raise UsageError(
        "the installed version did not come up; `lembasd logs` and `lembasd run --check` say why, "
        "sessions go on and wait for it"
    )
