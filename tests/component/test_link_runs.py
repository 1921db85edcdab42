"""The link as a whole against a scripted instance: dialling, refusals, redials, and what the hub is told."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest

from lembasd.device.credentials import Credentials
from lembasd.link.clocks import slept_s
from lembasd.link.connection import LinkConnection
from lembasd.link.link import Link, LinkStatus
from tests.support.fake_instance import TOKEN, WAIT_S, Answer, FakeInstance

WELL_KNOWN = "/.well-known/lembas.json"
LINK = "/api/devices/link"


@dataclass
class World:
    """A link with everything around it that a test may change."""

    login: Credentials | None
    instance: FakeInstance
    #: part of each back-off that is waited
    chance: float = 0.0
    dial_s: float = 60.0
    slept: float = 0.0
    #: how often the link has looked at its clocks and its login
    looks: int = 0
    up: LinkConnection | None = None
    told: list[tuple[str, object]] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.link = Link(
            self,
            lambda: self.login,
            random=lambda: self.chance,
            slept_s=self._look,
            wake_check_s=0.01,
            dial_s=self.dial_s,
        )
        self.link.on_change = self.news.set

    def _look(self) -> float:
        self.looks += 1
        self.news.set()
        return self.slept

    def link_up(self, connection: LinkConnection) -> None:
        assert self.up is None
        self.up = connection
        self._tell("up", None)

    def link_message(self, connection: LinkConnection, text: bytes) -> None:
        assert self.up is connection
        self._tell("message", text)

    def link_writable(self, connection: LinkConnection) -> None:
        assert self.up is connection

    def link_down(self, connection: LinkConnection, reason: str) -> None:
        assert self.up is connection
        self.up = None
        self._tell("down", reason)

    def _tell(self, kind: str, about: object) -> None:
        self.told.append((kind, about))
        self.news.set()

    async def until(self, kind: str, times: int = 1) -> object:
        """What was told of this kind, for the n-th time."""
        await self.true(lambda: len(self._told(kind)) >= times)
        return self._told(kind)[times - 1]

    async def state(self, wanted: str) -> LinkStatus:
        """The status once the link is in this state."""
        await self.true(lambda: self.link.status.state == wanted)
        return self.link.status

    async def true(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition on what the link tells and looks at."""
        async with asyncio.timeout(WAIT_S):
            while not condition():
                self.news.clear()
                await self.news.wait()

    async def some_looks(self) -> None:
        """Let the link look at its clocks and its login a few times more."""
        wanted = self.looks + 3
        await self.true(lambda: self.looks >= wanted)

    def _told(self, kind: str) -> list[object]:
        return [about for one, about in self.told if one == kind]


def credentials(instance: FakeInstance, token: str = TOKEN) -> Credentials:
    return Credentials(server=instance.url, token=token)


@asynccontextmanager
async def running(
    instance: FakeInstance, *, chance: float = 0.0, dial_s: float = 60.0
) -> AsyncIterator[World]:
    world = World(credentials(instance), instance, chance, dial_s)
    task = asyncio.create_task(world.link.run())
    try:
        yield world
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_device_that_is_logged_in_links_and_messages_flow() -> None:
    async with FakeInstance() as instance, running(instance) as world:
        device = await instance.device()
        await world.until("up")
        assert world.up is not None
        world.up.send(b"hello")
        assert await device.message() == b"hello"
        device.send(b"initialize")
        assert await world.until("message") == b"initialize"
        assert world.link.status == LinkStatus("up", instance.url, "", None)


async def test_a_first_message_that_comes_with_the_handshake_is_not_lost() -> None:
    async with FakeInstance() as instance:
        instance.greet = lambda device: device.send(b"at once")
        async with running(instance) as world:
            assert await world.until("message") == b"at once"
            assert [kind for kind, _ in world.told] == ["up", "message"]


async def test_without_a_login_nothing_is_dialled_and_a_login_is_taken_at_once() -> None:
    async with FakeInstance() as instance, running(instance) as world:
        await instance.device()
        world.login = None
        world.link.login_changed()
        assert world.link.status == LinkStatus("off", None, "", None)
        assert world.told[-1] == ("down", "logged out")
        dials = len(instance.requests)
        world.link.login_changed()
        assert len(instance.requests) == dials
        world.login = credentials(instance)
        world.link.login_changed()
        await instance.device()
        await world.until("up", 2)


async def test_a_login_that_nobody_announced_is_seen_all_the_same() -> None:
    async with FakeInstance() as instance, FakeInstance() as other, running(instance) as world:
        await instance.device()
        world.login = credentials(other)
        await other.device()
        assert await world.until("down") == "the login changed"
        assert (await world.state("up")).server == other.url


async def test_a_link_that_was_lost_is_dialled_again() -> None:
    async with FakeInstance() as instance, running(instance) as world:
        for times in (1, 2, 3):
            device = await instance.device()
            await world.until("up", times)
            device.close(1001, "going away")
            assert await world.until("down", times) == "going away"


@pytest.mark.parametrize("code", [1012, 1013])
async def test_an_instance_that_restarts_is_given_time(code: int) -> None:
    async with FakeInstance() as instance, running(instance, chance=0.5) as world:
        device = await instance.device()
        await world.until("up")
        device.close(code, "restarting")
        status = await world.state("waiting")
        assert (status.reason, instance.asked_so_far(LINK)) == ("restarting", 1)
        assert status.next_dial_s is not None
        assert 17 < status.next_dial_s <= 17.5


class Trickle(asyncio.Protocol):
    """Answers a byte at a time, for as long as it is listened to."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")  # type: ignore[attr-defined]
        self._write()

    def _write(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(b" ")  # type: ignore[attr-defined]
            asyncio.get_running_loop().call_later(0.01, self._write)


async def test_an_instance_that_trickles_its_answer_is_away() -> None:
    server = await asyncio.get_running_loop().create_server(Trickle, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, FakeInstance() as instance, running(instance, dial_s=0.2) as world:
        world.chance = 1.0
        world.login = Credentials(server=address, token=TOKEN)
        await world.true(lambda: world.link.status.server == address)
        status = await world.state("waiting")
    assert status.reason.startswith("the instance did not answer within 0.2 s")


async def test_an_instance_that_is_away_is_waited_for() -> None:
    async with FakeInstance() as instance:
        await instance.go_away()
        async with running(instance, chance=0.01) as world:
            status = await world.state("waiting")
            assert "cannot be reached" in status.reason
            assert status.next_dial_s is not None
            await instance.come_back()
            await instance.device()
            await world.until("up")


async def test_an_instance_of_another_protocol_stops_the_link_until_a_new_login() -> None:
    async with FakeInstance() as instance:
        said, instance.discovery = instance.discovery, {"version": "1.9", "protocol": 1}
        async with running(instance) as world:
            status = await world.state("refused")
            assert "update the server, or use LLeMbas CLI 1.x with it" in status.reason
            assert status.next_dial_s is None
            world.slept = 3600.0
            world.link.redial()
            await world.some_looks()
            assert instance.asked_so_far(WELL_KNOWN) == 1
            assert instance.asked_so_far(LINK) == 0
            instance.discovery = said
            world.login = credentials(instance, "new")
            instance.tokens.add("new")
            await world.until("up")


@pytest.mark.spec("versions: a server without 3 is refused at each dial")
async def test_an_instance_that_was_put_back_is_refused_at_the_next_dial_in_the_words_of_the_spec() -> (
    None
):
    async with FakeInstance() as instance, running(instance) as world:
        device = await instance.device()
        await world.until("up")
        instance.discovery = {"version": "1.9", "protocol": 1, "protocols": [1, 2]}
        device.close(1012, "restarting")
        assert (await world.state("refused")).reason == (
            f"{instance.url} runs LLeMbas 1.9, which speaks link protocol 1 and 2; this LLeMbas "
            "CLI needs a LLeMbas 2.0 server (protocol 3) — update the server, or use LLeMbas CLI "
            "1.x with it"
        )
        await world.some_looks()
        assert instance.asked_so_far(LINK) == 1


@pytest.mark.parametrize("status", [401, 403])
async def test_a_token_that_is_refused_stops_the_link_until_a_new_login(status: int) -> None:
    async with FakeInstance() as instance:
        instance.instead[LINK] = Answer(status)
        async with running(instance) as world:
            seen = await world.state("refused")
            assert "log in again with `lembas login`" in seen.reason
            await world.some_looks()
            assert instance.asked_so_far(LINK) == 1
            instance.instead.clear()
            world.login = credentials(instance, "new")
            instance.tokens.add("new")
            await world.until("up")


async def test_a_login_that_was_replaced_while_it_was_refused_is_used_at_once() -> None:
    async with FakeInstance() as instance:
        instance.instead[LINK] = Answer(401)
        new = credentials(instance, "new")
        instance.tokens.add("new")
        first = credentials(instance)
        asked = 0

        def login() -> Credentials:
            # as it is read again after the refusal, there is another one
            nonlocal asked
            asked += 1
            if asked == 1:
                return first
            instance.instead.clear()
            return new

        world = World(first, instance)
        link = Link(world, login, random=lambda: 0.0, wake_check_s=3600.0)
        link.on_change = world.news.set
        running_link = asyncio.create_task(link.run())
        try:
            await world.until("up")
            assert [link.status.state, asked, instance.asked_so_far(LINK)] == ["up", 2, 2]
        finally:
            running_link.cancel()
            await asyncio.wait([running_link])


async def test_a_login_that_is_written_as_it_was_is_tried_once_more() -> None:
    async with FakeInstance() as instance:
        instance.instead[LINK] = Answer(401)
        async with running(instance) as world:
            await world.state("refused")
            instance.instead.clear()
            world.link.login_written()
            await world.until("up")
            world.link.login_written()
            await world.some_looks()
            assert instance.asked_so_far(LINK) == 2


@pytest.mark.spec("versions: close 4400 ends the dialling")
async def test_close_4400_stops_the_link_and_its_reason_is_kept() -> None:
    async with FakeInstance() as instance, running(instance) as world:
        device = await instance.device()
        await world.until("up")
        device.close(4400, "update LLeMbas CLI to 2.1")
        assert await world.until("down") == "update LLeMbas CLI to 2.1"
        assert (await world.state("refused")).reason == (
            "the server does not take link protocol 3 (it said: update LLeMbas CLI to 2.1); "
            "update the server to LLeMbas 2.0, or this device if it says so, "
            "then run `lembas login` again"
        )
        await world.some_looks()
        assert instance.asked_so_far(LINK) == 1


@pytest.mark.parametrize("path", [WELL_KNOWN, LINK])
async def test_retry_after_is_obeyed(path: str) -> None:
    async with FakeInstance() as instance:
        instance.instead[path] = Answer(503, headers={"Retry-After": "600"})
        async with running(instance) as world:
            status = await world.state("waiting")
            assert status.next_dial_s is not None
            assert 590 < status.next_dial_s <= 600
            assert "answers 503" in status.reason


async def test_a_machine_that_woke_dials_at_once_whatever_it_waits_for() -> None:
    async with FakeInstance() as instance:
        instance.instead[LINK] = Answer(503, headers={"Retry-After": "600"})
        async with running(instance) as world:
            await world.state("waiting")
            instance.instead.clear()
            world.slept = 60.0
            await instance.device()
            await world.until("up")


async def test_a_machine_that_woke_does_not_trust_its_old_link() -> None:
    async with FakeInstance() as instance, running(instance) as world:
        device = await instance.device()
        await world.until("up")
        world.slept = 60.0
        assert await world.until("down") == "the machine woke"
        await device.until_closed()
        await instance.device()
        await world.until("up", 2)


async def test_what_was_said_and_has_changed_is_said_on_a_new_link() -> None:
    async with FakeInstance() as instance, running(instance) as world:
        device = await instance.device()
        await world.until("up")
        world.link.redial()
        assert world.up is None
        await device.until_closed()
        assert device.close_code == 1000
        await instance.device()
        await world.until("up", 2)


async def test_a_dial_that_is_under_way_is_given_up_at_a_logout() -> None:
    async with FakeInstance() as instance:
        instance.mute.add(LINK)
        async with running(instance) as world:
            await instance.asked(LINK)
            world.login = None
            world.link.login_changed()
            assert world.link.status.state == "off"
        assert world.told == []


async def test_a_garbage_answer_to_the_handshake_is_waited_out() -> None:
    async with FakeInstance() as instance:
        instance.instead[LINK] = b"SSH-2.0-OpenSSH_9\r\n"
        async with running(instance) as world:
            await instance.asked(LINK, 3)
            instance.instead.clear()
            await world.until("up")


async def test_a_link_that_ends_with_its_hub_is_closed() -> None:
    async with FakeInstance() as instance:
        async with running(instance) as world:
            device = await instance.device()
            await world.until("up")
        await device.until_closed()
        assert device.close_code == 1000
        assert world.told[-1][0] == "down"


async def test_the_token_is_in_no_status() -> None:
    async with FakeInstance() as instance:
        instance.tokens.clear()
        async with running(instance) as world:
            await world.state("refused")
            assert TOKEN not in repr(world.link.status)


def test_a_machine_that_does_not_sleep_has_not_slept() -> None:
    assert abs(slept_s() - slept_s()) < 0.1
