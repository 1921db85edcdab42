"""`lembas demo`: the whole of lembasd on this machine, in a scratch home, one line a step."""

import asyncio
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Final

import click

from lembasd.cli.demo_scenario import Demo, StepFailed

#: a step that takes longer has failed: each is a second's work on a slow machine
STEP_TIMEOUT_S: Final = 60.0


@click.command()
@click.option("--stay", is_flag=True, help="Keep running at the end and print the page's address.")
def demo(stay: bool) -> None:
    """Show all of it in a scratch home: no network, no key.

    A turn, a terminal, and what survives a crash, one line a step.
    """
    sys.exit(asyncio.run(_main(stay=stay)))


async def _main(*, stay: bool) -> int:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with Demo() as scenario:
        code = await _until(stopped, _steps(scenario))
        if code == 0 and stay:
            click.echo(
                f"\nStill running. Open {scenario.page}\n"
                f"Ask it with LEMBAS_HOME={scenario.home} lembasd status\nPress Ctrl-C to end it."
            )
            await stopped.wait()
        if code not in (0, 130):
            click.echo(f"\nWhat its processes said:\n{scenario.output()}", err=True)
        code = await _step("stop; nothing of it is left", scenario.stop) or code
    return 130 if stopped.is_set() and not stay else code


async def _until(stopped: asyncio.Event, work: Awaitable[int]) -> int:
    """The work's exit code, or 130 when it was interrupted first."""
    task = asyncio.ensure_future(work)
    waiting = asyncio.ensure_future(stopped.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not task.done():
        task.cancel()
        return 130
    return task.result()


async def _steps(scenario: Demo) -> int:
    click.echo("lembasd demo: a scripted model stands in for a real one; all else is real.\n")
    steps: list[tuple[str, Callable[[], Awaitable[str]]]] = [
        ("start a pocket instance", scenario.start_instance),
        ("log this device in to it", scenario.log_in),
        ("start the hub; it links", scenario.start_hub),
        ("open two sessions in a project", scenario.open_sessions),
        ("a turn: read, edit, run, with an approval", scenario.run_turn),
        ("open a terminal, run a command in it", scenario.use_terminal),
        ("kill one worker in its turn; the other goes on", scenario.kill_worker),
        ("the killed session opens again, with its history", scenario.reopen),
        ("kill the hub in a turn; the answer arrives", scenario.kill_hub),
    ]
    for name, step in steps:
        code = await _step(name, step)
        if code:
            return code
    return 0


async def _step(name: str, step: Callable[[], Awaitable[str]]) -> int:
    start = time.monotonic()
    try:
        async with asyncio.timeout(STEP_TIMEOUT_S):
            detail = await step()
    except TimeoutError:
        problem = f"not done in {STEP_TIMEOUT_S:g} s"
    except StepFailed as failed:
        problem = str(failed)
    else:
        click.echo(f"  ok    {time.monotonic() - start:6.2f} s  {name:50}  {detail}")
        return 0
    click.echo(f"  FAIL  {time.monotonic() - start:6.2f} s  {name:50}  {problem}")
    return 1
