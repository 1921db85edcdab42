"""How the hub ends, and how it does not start."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import msgspec
import pytest
import structlog

from lembasd.device import environment
from lembasd.device.lock import HubLock, Membership, all_gone
from lembasd.device.paths import Paths, find_paths
from lembasd.hub import main as hub_main
from lembasd.hub.lifecycle import Lifecycle
from lembasd.hub.local import LocalDesk
from lembasd.protocol import envelope as kinds
from lembasd.protocol.control import Stop
from lembasd.protocol.errors import RequestRefused
from tests.support.hub_process import SOON_S, RunningHub, running_hub


class Ending:
    """A running hub with its lifecycle."""

    def __init__(self, running: RunningHub) -> None:
        self.running = running
        self.membership = Membership.join(running.paths)
        log = structlog.get_logger()
        self.lifecycle = Lifecycle(running.hub, running.paths, self.membership, log)
        running.hub.desk = LocalDesk(
            running.hub,
            self.lifecycle,
            socket=str(running.paths.socket),
            portable=False,
            link=lambda: {"state": "off"},
            zygotes=list,
            problem=lambda: None,
            strangers=list,
            reload=lambda _client, _id: None,
        )

    async def ended(self) -> None:
        await asyncio.wait_for(self.lifecycle.ended.wait(), SOON_S)


@pytest.fixture
async def ending(short_tmp: Path) -> AsyncIterator[Ending]:
    async with running_hub(short_tmp) as running:
        ending = Ending(running)
        yield ending
        ending.membership.leave()


async def test_stop_tells_every_process_and_ends_when_the_last_is_gone(ending: Ending) -> None:
    client = await ending.running.client()
    worker = await ending.running.session(client)
    member = Membership.join(ending.running.paths)
    assert await client.ask("_hub/stop", {}) == {}
    stop = await worker.next(kinds.STOP)
    assert msgspec.json.decode(stop.payload, type=Stop).reason == "lembasd is being stopped"
    assert ending.running.paths.stopping.exists()
    assert not ending.lifecycle.ended.is_set()
    member.leave()
    await ending.ended()
    assert not ending.lifecycle.left
    # whoever waits for all to be gone waits for the hub too
    assert not all_gone(ending.running.paths)


async def test_nothing_new_is_begun_while_everything_ends(ending: Ending) -> None:
    member = Membership.join(ending.running.paths)
    client = await ending.running.client()
    await client.ask("_hub/stop", {})
    with pytest.raises(RequestRefused) as caught:
        await client.ask("session/new", {"cwd": "/p"})
    assert caught.value.data == {"reason": "stopping"}
    member.leave()
    await ending.ended()


async def test_leaving_ends_the_hub_alone(ending: Ending) -> None:
    worker = await ending.running.session(await ending.running.client())
    ending.lifecycle.leave_or_stop(managed=True)
    await ending.ended()
    assert not ending.running.paths.stopping.exists()
    assert not worker.lost.done()


@pytest.mark.parametrize("managed", [True, False])
async def test_sigterm_is_a_stop_without_a_manager_or_when_a_stop_is_under_way(
    ending: Ending, managed: bool
) -> None:
    if managed:
        ending.running.paths.stopping.touch()
    ending.lifecycle.leave_or_stop(managed=managed)
    assert ending.lifecycle.stopping
    ending.lifecycle.leave()
    await ending.ended()


async def test_a_stop_asked_again_and_again_gives_up_on_what_will_not_end(ending: Ending) -> None:
    member = Membership.join(ending.running.paths)
    for _ in range(4):
        ending.lifecycle.stop()
    await ending.ended()
    assert ending.lifecycle.left
    member.leave()


async def test_status_shows_hub_workers_terminals_and_clients(ending: Ending) -> None:
    client = await ending.running.client()
    worker = await ending.running.session(client)
    worker.state(busy=True, turn_id="t1", title="Tidy up", root="/p", pss_bytes=4_000_000)
    asked = client.hub.start("_lembas/terminal/open", {})
    pty = await ending.running.process(await ending.running.starter.next())
    pty.answer(await pty.next_method("_lembas/terminal/open"), {})
    await asyncio.wait_for(asked, SOON_S)
    status = await client.ask("_hub/status", {})
    assert set(status) == {
        "hub",
        "config_problem",
        "alarms",
        "counts",
        "link",
        "zygotes",
        "workers",
        "utility",
        "terminals",
        "strangers",
        "clients",
    }
    (about,) = status["workers"]
    assert (about["session_id"], about["state"], about["turn_id"], about["title"]) == (
        worker.channel,
        "working",
        "t1",
        "Tidy up",
    )
    assert [one["terminal_id"] for one in status["terminals"]] == [pty.channel]
    assert [one["client_id"] for one in status["clients"]] == [client.number]
    about_hub = status["hub"]
    assert about_hub["socket"] == str(ending.running.paths.socket)
    assert 0 < about_hub["fds"] < about_hub["max_fds"]
    assert about_hub["environment"]["PATH"] == os.environ["PATH"]
    assert set(about_hub["environment"]) <= set(environment.SHOWN)
    # the test plays the starter, which tells no pid
    assert status["counts"]["clients_joined"] == 1
    assert status["counts"]["processes_crashed"] == 0


# ── a hub that does not start ───────────────────────────────────────────────────────────────────


@pytest.fixture
def home(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    monkeypatch.setenv("LEMBAS_HOME", str(short_tmp / "h"))
    return find_paths()


def test_a_second_hub_says_who_is_first(home: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    home.make()
    lock = HubLock.acquire(home)
    assert hub_main.main(portable=False) == 1
    lock.release()
    assert "a hub runs already" in capsys.readouterr().err


def test_a_broken_config_is_said_with_its_line(
    home: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    home.make()
    home.config_file.write_text("hub:\n  worker_idle: soon\n", encoding="utf-8")
    for start in (partial(hub_main.main, portable=False), hub_main.check):
        assert start() == 1
        assert "line 2" in capsys.readouterr().err


def test_a_directory_that_cannot_be_used_is_said(
    home: Paths, short_tmp: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (short_tmp / "h").write_text("a file", encoding="utf-8")
    assert hub_main.main(portable=False) == 1
    assert "cannot be used" in capsys.readouterr().err


def test_check_says_what_this_build_speaks(home: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    assert hub_main.check() == 0
    assert "journal format 1" in capsys.readouterr().out


def test_under_a_service_manager_a_start_that_cannot_be_is_not_tried_again_at_once(
    home: Paths, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/nobody")
    monkeypatch.setattr(hub_main, "MANAGED_RETRY_S", 0.2)
    home.make()
    lock = HubLock.acquire(home)
    begun = time.monotonic()
    assert hub_main.main(portable=False) == 1
    assert time.monotonic() - begun >= 0.2
    lock.release()
    assert "a hub runs already" in capsys.readouterr().err
