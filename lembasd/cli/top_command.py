"""`lembasd top`."""

import asyncio
import shutil
import sys
import time
from typing import Any, Final

import click
import msgspec

from lembasd.cli import hub_status, running
from lembasd.cli.core.usage import Usage, usage
from lembasd.cli.process_usage import look, owners
from lembasd.device.logging import readable
from lembasd.device.paths import find_paths
from lembasd.protocol.errors import EXIT_DONE
from lembasd.protocol.limits import MIB

#: between the two looks of a single picture
ONCE_S: Final = 0.5
_CLEAR: Final = "\x1b[H\x1b[J"
_HEAD: Final = (
    f"{'what':9}{'id':28}{'pid':>8} {'state':9}{'procs':>6}{'cpu %':>8}{'memory':>10}  title"
)


@click.command()
@click.option("--once", is_flag=True, help="One picture, then end.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, then end.")
@click.option("--interval", type=click.FloatRange(0.2, 3600), default=2.0, help="Seconds.")
def top(once: bool, as_json: bool, interval: float) -> int:
    """What each session uses with everything it started: processes, CPU, memory. Until Ctrl-C."""
    paths = find_paths()
    goes_on = not once and not as_json and sys.stdout.isatty()

    async def work() -> int:
        seen, at = look(owners(await hub_status.of_running(paths))), time.monotonic()
        wait_s = ONCE_S
        while True:
            await asyncio.sleep(wait_s)
            status = await hub_status.of_running(paths)
            whose = owners(status)
            now, then = look(whose), time.monotonic()
            found = usage(whose, seen, now, then - at)
            if as_json:
                running.say_json({"processes": msgspec.to_builtins(found)})
            else:
                _show(status, found, clear=goes_on)
            if not goes_on:
                return EXIT_DONE
            seen, at, wait_s = now, then, interval

    return running.run_async(work)


def _show(status: dict[str, Any], found: list[Usage], *, clear: bool) -> None:
    processes, cpu = sum(one.processes for one in found), sum(one.cpu_percent for one in found)
    memory = sum(one.memory_bytes for one in found) / MIB
    what = f"{len(status['workers'])} sessions, {len(status['terminals'])} terminals"
    head = f"lembasd {status['hub']['version']}: {what}, link {status['link']['state']}"
    head += f"; {processes} processes, {cpu:.1f} % CPU, {memory:.0f} MiB"
    lines = [head, _HEAD, *map(_line, found)]
    if clear:
        size = shutil.get_terminal_size()
        if len(lines) >= size.lines:
            more = len(lines) - size.lines + 2
            lines = [*lines[:-more], f"… and {more} more"]
        lines = [line[: size.columns] for line in lines]
    click.echo((_CLEAR if clear else "") + "\n".join(lines))


def _line(one: Usage) -> str:
    return (
        readable(
            f"{one.kind:9}{one.id:28}{one.pid:>8} {one.state:9}{one.processes:>6}"
            f"{one.cpu_percent:>8.1f}{one.memory_bytes / MIB:>8.1f} M  {one.title}"
        )
        .replace("\n", " ")
        .rstrip()
    )
