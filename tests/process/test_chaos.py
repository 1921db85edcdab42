"""Sessions and terminals at work while everything around them is killed, stopped and restarted at each named moment.

Short here. `make chaos` is the whole: 50 sessions, every kind of harm at every moment, in an order of a seed of its own.
"""

import asyncio
import os
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import psutil
import pytest

from lembasd.device.lock import all_gone
from lembasd.device.paths import Paths
from tests.support.chaos.clock import Clock
from tests.support.chaos.disk import Disk
from tests.support.chaos.harms import WATCHDOG_S, Harms
from tests.support.chaos.model import CountingModel
from tests.support.chaos.moments import MOMENTS
from tests.support.chaos.terminals import Terminals
from tests.support.chaos.verdict import HUB_GROWTH_BYTES, Counted, only_these_run
from tests.support.chaos.work import Work
from tests.support.daemon import GONE_S, Install
from tests.support.fake_instance import TOKEN, FakeInstance
from tests.support.scripted_model import ScriptedModel
from tests.support.service_manager import ServiceManager

WHOLE: Final = os.environ.get("LEMBASD_CHAOS") == "whole"
SEED: Final = int(
    os.environ.get("LEMBASD_CHAOS_SEED") or (time.time_ns() % 1_000_000 if WHOLE else 1)
)
#: processes of a hub at rest: itself, and two that it starts others with
RESTING: Final = 3
#: descriptors that the hub may have open more than at its start: the link, a client's connection
DESCRIPTORS_MORE: Final = 3
#: at how many moments of a whole run something is wanting: descriptors, room, the right time
WANTS_AT: Final = 4
SESSIONS, TERMINALS = (50, 5) if WHOLE else (6, 2)

pytestmark = [pytest.mark.process, pytest.mark.timeout(1800 if WHOLE else 120)]


@pytest.fixture
async def instance(model: ScriptedModel) -> AsyncIterator[FakeInstance]:
    async with FakeInstance() as one:
        one.model_port = model.port
        one.models = [{"id": "scripted"}]
        yield one


def order_of(deaths: list[str], wants: list[str], order: random.Random) -> list[tuple[str, str]]:
    """What is done at which moment: in the whole every death at every moment, and each want at some.

    Else each moment once, with a kind for each.
    """
    moments = [one.name for one in MOMENTS]
    if WHOLE:
        pairs = [(kind, moment) for kind in deaths for moment in moments]
        pairs += [(kind, moment) for kind in wants for moment in order.sample(moments, WANTS_AT)]
    else:
        kinds = order.sample([*deaths, *wants], len(moments))
        pairs = list(zip(kinds, moments, strict=True))
    return order.sample(pairs, len(pairs))


@pytest.mark.spec(
    "turn ids: a known id never runs again",
    "turn ids: a known id gets its turn's answer",
    "turn ids: kept over a restart",
)
async def test_every_turn_has_one_outcome_and_no_step_is_lost_or_done_twice_whatever_dies(
    short_tmp: Path, model: ScriptedModel, instance: FakeInstance
) -> None:
    say(f"seed {SEED}; again with: make chaos SEED={SEED}" if WHOLE else f"seed {SEED}")
    async with Install(short_tmp, portable=bool(os.environ.get("LEMBASD_PORTABLE"))) as install:
        install.configure()
        install.log_in(instance.url, token=TOKEN)
        with ExitStack() as stack:
            disk = Disk.mount(install.paths.state)
            if disk is not None:
                stack.enter_context(disk)
            clock = Clock.make(short_tmp)
            if clock is not None:
                install.environment |= clock.environment
            manager = ServiceManager(
                install,
                watchdog_s=WATCHDOG_S if WHOLE else 0.0,
                prefix=[] if disk is None else disk.prefix,
            )
            state = install.paths.state if disk is None else disk.root
            paths = replace(install.paths, state=state)
            async with manager:
                work = Work(install, manager, instance, CountingModel(model), random.Random(SEED))
                try:
                    await manager.start()
                    before = (await work.status())["hub"]["fds"], rss(work.hub)
                    terminals = await harmed(work, clock, disk)
                    await judged(work, paths, terminals)
                    await nothing_is_left(work, terminals, before)
                except BaseException:
                    keep(install, state)
                    raise
                finally:
                    await work.close()
            await install.stop()
            assert all_gone(install.paths)
    assert model.violations == []


async def harmed(work: Work, clock: Clock | None, disk: Disk | None) -> Terminals:
    """Have everything done that is due, until every turn has its answer."""
    await work.begin(SESSIONS)
    terminals = Terminals(work)
    for _ in range(TERMINALS):
        await terminals.open()
    harms = Harms(work, terminals, clock, disk)
    if harms.left_out:
        say(f"cannot be done here: {', '.join(harms.left_out)}")
    if WHOLE:
        harms.wants["hub hangs"] = harms.hub_hangs
    kinds, moments = {**harms.deaths, **harms.wants}, {one.name: one for one in MOMENTS}
    done: Counter[str] = Counter()
    for kind, moment in order_of(list(harms.deaths), list(harms.wants), work.order):
        begun = time.monotonic()
        say(f"{kind} at {moment}")
        await kinds[kind](await work.reach(moments[moment]))
        done[moment] += 1
        say(f"    {time.monotonic() - begun:.2f} s")
    await work.finish()
    for one in MOMENTS:
        say(f"{one.name}: harmed {done[one.name]} times, passed {work.passed(one)} times")
    assert all(done[one] for one in moments)
    return terminals


async def judged(work: Work, paths: Paths, terminals: Terminals) -> None:
    """By the model's count, the files outside and what the person was told."""
    await terminals.check()
    asking = await work.recall()
    remembered = {one: work.model.remembered.get(turn, set()) for one, turn in asking.items()}
    # every turn once more: whoever is known is answered, and nothing runs
    asked, counted = work.model.asked, Counted(work, paths)
    for session, turns in work.turns.items():
        for turn in turns:
            if counted.was_stored(turn):
                await work.person.turn(session, "plain", turn)
    faults = Counted(work, paths).faults(remembered)
    if work.model.asked != asked:
        faults.append("a turn that was answered ran again")
    faults += [f"{line} was typed {n} times" for line, n in terminals.written().items() if n > 1]
    person = work.person
    say(
        f"{sum(map(len, work.turns.values()))} turns, {len(person.shown)} with a step shown, "
        f"{person.tries.total()} tries over {person.links} links, {person.cards} cards, {person.gaps} gaps"
    )
    assert not faults, "\n".join(faults)


async def nothing_is_left(work: Work, terminals: Terminals, before: tuple[int, int]) -> None:
    """Idle again, there are the hub and what it starts others with, no larger than they began."""
    await terminals.close()
    config = work.install.paths.config_file
    config.write_text(config.read_text() + "hub:\n  worker_idle: 1\n")
    await only_these_run(work, RESTING)
    end = time.monotonic() + GONE_S
    while (descriptors := (await work.status())["hub"]["fds"]) > before[0] + DESCRIPTORS_MORE:
        assert time.monotonic() < end, opened(work.hub)
        await asyncio.sleep(0.1)
    size = rss(work.hub)
    say(f"descriptors {before[0]}, then {descriptors}; MiB {before[1] >> 20}, then {size >> 20}")
    assert size <= before[1] + HUB_GROWTH_BYTES


def opened(pid: int) -> list[str]:
    """What a process has open, where that may be seen."""
    found = []
    with suppress(OSError):
        for one in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                found.append(str(one.readlink()))
    return sorted(found)


def rss(pid: int) -> int:
    return psutil.Process(pid).memory_info().rss


def say(text: str) -> None:
    print(f"chaos: {text}", flush=True)  # noqa: T201 - for -s


def keep(install: Install, state: Path) -> None:
    """Have what a failed run left looked at."""
    kept = Path(tempfile.mkdtemp(prefix=f"chaos-{SEED}-"))
    shutil.copytree(state, kept / "state", ignore=shutil.ignore_patterns("filler"))
    shutil.copy(install.base / "out", kept)
    say(f"journals, log and output are in {kept}")
