"""Our own extensions, for a client that asks for them: `terminal_flow` (acknowledgements) and `terminal_resume` (attach)."""

import asyncio
import base64
import json

import pytest

from tests.link.test_terminal import OPEN, closed, ended, opened, type_in
from tests.support.bare_client import BareClient, Message
from tests.support.daemon import gone
from tests.support.linked_hub import LinkedHub

ATTACH = "_lembas/terminal/attach"
ACK = "_lembas/terminal/ack"
#: a window and what one more message may weigh
WINDOW_BYTES = 320_000


def asking(**extensions: bool) -> str:
    lembas = {"protocol": 3, **extensions}
    return json.dumps({"protocolVersion": 1, "clientCapabilities": {"_meta": {"lembas": lembas}}})


FLOW = asking(terminal_flow=True)
BOTH = asking(terminal_flow=True, terminal_resume=True)


class Screen:
    """What a client has of one terminal. `acknowledges`: it says so."""

    def __init__(self, client: BareClient, terminal: str, offset: int = 0) -> None:
        self.client = client
        self.terminal = terminal
        self.shown = b""
        self.offset = offset
        self.pieces: list[tuple[int, int]] = []

    async def next(self, *, acknowledge: bool = True) -> Message:
        message = await self.client.said('"_lembas/terminal/output"', self.terminal)
        data = base64.b64decode(message.params["data"], validate=True)
        place = message.params["_meta"]["lembas"]
        assert set(place) <= {"offset", "cols", "rows"}
        self.pieces.append((place["offset"], len(data)))
        self.shown += data
        self.offset = place["offset"] + len(data)
        if acknowledge:
            self.client.notify(ACK, {"terminalId": self.terminal, "offset": self.offset})
        return message

    async def until(self, text: bytes) -> None:
        while text not in self.shown:
            await self.next()


async def quiet(hub: LinkedHub) -> Screen:
    """A terminal whose shell says nothing by itself."""
    screen = Screen(hub.client, await opened(hub.client, cwd=str(hub.project)))
    type_in(hub.client, screen.terminal, "PS1='$ '; stty -echo; echo rea''dy\n")
    await screen.until(b"ready")
    return screen


async def test_who_does_not_ask_finds_nothing_of_them(hub: LinkedHub) -> None:
    capabilities = hub.client.about["_meta"]["lembas"]["capabilities"]
    assert not {"terminal_flow", "terminal_resume"} & set(capabilities)
    terminal = await opened(hub.client)
    message = await hub.client.said("_lembas/terminal/output", terminal)
    assert set(message.params) == {"terminalId", "data"}
    unknown = await hub.client.ask(ATTACH, {"terminalId": terminal})
    assert unknown == '{"code":-32601,"message":"_lembas/terminal/attach is unknown here"}'
    await closed(hub.client, terminal)


async def test_who_asks_is_listed_them_while_terminals_are_on(own_hub: LinkedHub) -> None:
    client = await own_hub.again(BOTH)
    listed = client.about["_meta"]["lembas"]["capabilities"]
    assert {"terminal", "terminal_flow", "terminal_resume"} <= set(listed)
    client = await own_hub.configured(BOTH, terminal=False)
    assert not [one for one in client.about["_meta"]["lembas"]["capabilities"] if "term" in one]


async def test_output_says_where_it_stands_and_waits_for_acknowledgements(
    own_hub: LinkedHub,
) -> None:
    await own_hub.again(FLOW)
    screen = await quiet(own_hub)
    before = screen.offset
    type_in(
        own_hub.client, screen.terminal, "head -c 2000000 /dev/zero | tr '\\0' y; echo do''ne\n"
    )
    # nothing is acknowledged: a window comes and no more
    while screen.offset - before < 150_000:
        await screen.next(acknowledge=False)
    assert '"places"' in await own_hub.client.ask("_lembas/directories", "{}")
    await asyncio.sleep(0)
    held = [one for one in own_hub.client.told if one.method == "_lembas/terminal/output"]
    assert sum(len(one.text) for one in held) < WINDOW_BYTES
    own_hub.client.notify(ACK, {"terminalId": screen.terminal, "offset": screen.offset})
    await screen.until(b"done")
    assert screen.shown.count(b"y") >= 2_000_000
    ends = [offset + length for offset, length in screen.pieces]
    assert [offset for offset, _ in screen.pieces[1:]] == ends[:-1]


async def test_an_interrupt_of_a_flood_brings_the_prompt_within_a_window(
    own_hub: LinkedHub,
) -> None:
    await own_hub.again(FLOW)
    screen = await quiet(own_hub)
    type_in(own_hub.client, screen.terminal, "yes\n")
    while len(screen.shown) < 500_000:
        await screen.next()
    type_in(own_hub.client, screen.terminal, "\x03")
    before = len(screen.shown)
    await screen.until(b"$ ")
    assert len(screen.shown) - before < 2 * WINDOW_BYTES
    type_in(own_hub.client, screen.terminal, "echo af''ter\n")
    await screen.until(b"after")


async def test_a_terminal_is_taken_up_by_the_next_link_where_it_stopped(
    own_hub: LinkedHub,
) -> None:
    await own_hub.again(BOTH)
    screen = await quiet(own_hub)
    shell = (await own_hub.install.milestones.wait("pty.shell_started"))["shell_pid"]
    type_in(
        own_hub.client, screen.terminal, "echo wai''ts; read x; echo mean''while; echo d''one\n"
    )
    await screen.until(b"waits")
    before = own_hub.client
    client = await own_hub.again(BOTH)
    answer = await client.ask(
        ATTACH, f'{{"terminalId":"{screen.terminal}","offset":{screen.offset}}}'
    )
    kind = json.loads(answer)["shell"]
    marked = json.dumps(json.loads(answer)["integration"])
    assert answer == (
        f'{{"terminalId":"{screen.terminal}","cwd":"{own_hub.project}","cols":80,"rows":24,'
        f'"shell":"{kind}","integration":{marked},"offset":{screen.offset},"redraw":false}}'
    )
    again = Screen(client, screen.terminal, screen.offset)
    type_in(client, screen.terminal, "\n")
    await again.until(b"done")
    assert b"meanwhile" in again.shown
    assert again.pieces[0][0] == screen.offset
    assert before is not client
    await closed(client, screen.terminal)
    await gone(shell)


async def test_a_terminal_outlives_its_hub_for_the_next_link(own_hub: LinkedHub) -> None:
    hub = own_hub
    await hub.again(BOTH)
    screen = await quiet(hub)
    await hub.install.kill_hub()
    await hub.install.start_hub()
    client = await hub.linked(BOTH)
    await hub.install.milestones.wait("pty.connected", terminal_id=screen.terminal)
    place = await attached(client, screen.terminal, screen.offset)
    assert (place["offset"], place["redraw"]) == (screen.offset, False)
    again = Screen(client, screen.terminal, screen.offset)
    type_in(client, screen.terminal, "echo st''ill; exit 5\n")
    exit_ = await client.said("_lembas/terminal/exit", screen.terminal)
    assert exit_.text == ended(screen.terminal, 5)
    while b"still" not in again.shown:
        await again.next()


async def attached(
    client: BareClient, terminal: str, offset: int | None = None
) -> dict[str, object]:
    """Attach, as soon as the hub knows the terminal again."""
    params = {"terminalId": terminal, **({} if offset is None else {"offset": offset})}
    async with asyncio.timeout(20):
        while "unknown terminal" in (answer := await client.ask(ATTACH, params)):
            pass
    found: dict[str, object] = json.loads(answer)
    return found


async def test_who_has_nothing_of_a_terminal_gets_a_redraw(own_hub: LinkedHub) -> None:
    await own_hub.again(BOTH)
    screen = await quiet(own_hub)
    client = await own_hub.again(BOTH)
    place = await attached(client, screen.terminal)
    assert (place["offset"], place["redraw"]) == (0, True)
    again = Screen(client, screen.terminal)
    await again.until(b"ready")
    assert again.shown.startswith(b"\x1bc")


async def test_what_waits_for_its_link_counts_among_the_four(own_hub: LinkedHub) -> None:
    client = await own_hub.again(BOTH)
    terminals = [await opened(client) for _ in range(4)]
    client = await own_hub.again(BOTH)
    assert await client.ask(OPEN, "{}") == (
        '{"code":-32602,"message":"at most 4 terminals may be open; close one first"}'
    )
    await attached(client, terminals[0])
    await closed(client, terminals[0])
    assert await opened(client) not in terminals


@pytest.mark.parametrize("params", ['{"terminalId":"term_000000000000"}', "{}", '{"terminalId":7}'])
async def test_a_terminal_that_is_none_is_refused(own_hub: LinkedHub, params: str) -> None:
    client = await own_hub.again(BOTH)
    assert await client.ask(ATTACH, params) == '{"code":-32602,"message":"unknown terminal"}'


async def test_what_was_open_when_terminals_were_turned_off_leaves_nothing(
    own_hub: LinkedHub,
) -> None:
    client = await own_hub.again(BOTH)
    for _ in range(4):
        await opened(client)
    # the link is dialled again, for what hello says has changed
    await own_hub.configured(BOTH, terminal=False)
    client = await own_hub.configured(BOTH, terminal=True)
    async with asyncio.timeout(20):
        while "at most 4" in (answer := await client.ask(OPEN, "{}")):
            pass
    assert '"terminalId"' in answer


async def test_a_link_that_goes_as_it_closes_a_terminal_leaves_none(own_hub: LinkedHub) -> None:
    client = await own_hub.again(BOTH)
    for terminal in [await opened(client) for _ in range(4)]:
        client.notify("_lembas/terminal/close", {"terminalId": terminal})
    client = await own_hub.again(BOTH)
    async with asyncio.timeout(20):
        while "at most 4" in (answer := await client.ask(OPEN, "{}")):
            pass
    assert '"terminalId"' in answer
