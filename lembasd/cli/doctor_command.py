"""`lembasd doctor`."""

from collections.abc import AsyncIterator
from typing import Final

import click
import msgspec

from lembasd.cli import running
from lembasd.cli.doctor import bounds, connections, files, programs, service
from lembasd.cli.doctor.finding import Finding
from lembasd.device import logging
from lembasd.device.paths import Paths, find_paths
from lembasd.protocol.errors import EXIT_DONE, EXIT_FAILED

_COLOURS: Final = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def doctor(as_json: bool) -> int:
    """Check this installation: each line is ok, warn or fail, and says what to do. Exits 1 when one fails."""
    logging.silence()

    async def work() -> int:
        found = []
        async for one in _look(find_paths()):
            found.append(one)
            if not as_json:
                state = click.style(f"{one.state:5}", fg=_COLOURS[one.state])
                click.echo(f"{state} {one.name:12} {logging.readable(one.text)}")
        failed = any(one.state == "fail" for one in found)
        if as_json:
            running.say_json({"failed": failed, "findings": msgspec.to_builtins(found)})
        return EXIT_FAILED if failed else EXIT_DONE

    return running.run_async(work)


async def _look(paths: Paths) -> AsyncIterator[Finding]:
    """What is fast and near first."""
    yield programs.versions()
    for one in files.look(paths):
        yield one
    status, findings = await connections.ask_hub(paths)
    hub = status["hub"] if status is not None else None
    for one in (*findings, *service.look(paths), *bounds.look(hub), programs.searching()):
        yield one
    async for one in programs.surroundings(paths, hub):
        yield one
    async for one in connections.ask_instance(paths):
        yield one
