"""A real pty process whose viewers come, fall behind, interrupt and come back."""

from typing import Any

import msgspec
import pytest

from lembasd.protocol import envelope as kinds
from lembasd.protocol import jsonrpc
from lembasd.protocol.control import Remote, Settings
from tests.component.test_pty_terminal import scene
from tests.support.daemon import gone
from tests.support.terminal_hub import TerminalHub
from tests.support.terminal_scene import EXIT, INPUT, OPEN, TERMINAL, Scene

__all__ = ["scene"]

ATTACH = "_lembas/terminal/attach"
ACK = "_lembas/terminal/ack"
RESET = b"\x1bc"


def places(hub: TerminalHub, client: int = 1) -> list[tuple[int, int, dict[str, Any]]]:
    """Offset, length and place of each piece of output that a client was sent."""
    found = []
    for message in hub.messages:
        if message.kind != kinds.RPC or message.client != client or message.request:
            continue
        said = jsonrpc.peek(message.payload)
        if said.method == "_lembas/terminal/output":
            params = msgspec.json.decode(said.params)
            place = params["_meta"]["lembas"]
            length = len(msgspec.convert(params["data"], bytes))
            found.append((place["offset"], length, place))
    return found


async def attach(hub: TerminalHub, **params: Any) -> dict[str, Any]:
    """Client 1 asks to attach; the place that it is given."""
    hub.attach(1, flow=True, asks=True)
    answer = await hub.ask(ATTACH, {"terminalId": TERMINAL, **params})
    assert not answer.error, answer.error
    value: dict[str, Any] = msgspec.json.decode(answer.result)
    return value


def acknowledge(hub: TerminalHub) -> None:
    """Client 1 has shown everything that came."""
    offset, length, _ = places(hub)[-1]
    hub.notify(ACK, {"terminalId": TERMINAL, "offset": offset + length})


def settings(scene: Scene) -> Settings:
    """The link may have terminals below the scene's directory; shells are as they are without us."""
    return Settings(
        remote=Remote(
            enabled=True, terminal=True, roots=[str(scene.base)], terminal_integration=False
        )
    )


async def more(hub: TerminalHub, than: int) -> None:
    await hub.until(lambda: len(hub.output()) > than)


async def opened(scene: Scene, *, link: bool = False, **fields: Any) -> None:
    """A process with a shell that says nothing by itself, and client 1 attached to it."""
    await scene.start(link=link)
    scene.hub.settings(settings(scene))
    scene.hub.crediting = False
    scene.hub.attach(1, flow=True, **fields)
    answer = await scene.hub.ask(OPEN, {"cwd": str(scene.project)})
    assert not answer.error, answer.error
    scene.type("PS1='$ '; stty -echo; echo rea''dy\n")
    await scene.shows(b"ready")


async def test_output_says_where_it_stands_and_for_which_size(scene: Scene) -> None:
    await opened(scene)
    first = places(scene.hub)[0]
    assert first[2] == {"offset": 0, "cols": 80, "rows": 24}
    scene.hub.notify("_lembas/terminal/resize", {"terminalId": TERMINAL, "cols": 120, "rows": 40})
    scene.type("echo re''sized\n")
    await scene.shows(b"resized")
    seen = places(scene.hub)
    assert [one[0] for one in seen[1:]] == [one[0] + one[1] for one in seen[:-1]]
    sizes = [(one[2]["cols"], one[2]["rows"]) for one in seen if "cols" in one[2]]
    assert sizes == [(80, 24), (120, 40)]


async def test_a_viewer_that_acknowledges_nothing_is_sent_a_window_and_the_program_waits(
    scene: Scene,
) -> None:
    await opened(scene)
    scene.type("head -c 2000000 /dev/zero | tr '\\0' y; echo do''ne\n")
    await scene.hub.until(lambda: len(scene.hub.output()) > 150_000)
    assert (await scene.hub.ask(ACK, {"terminalId": TERMINAL, "offset": 0})).result == b"{}"
    assert len(scene.hub.output()) < 300_000
    while b"done" not in scene.hub.output()[-100:]:
        acknowledge(scene.hub)
        before = len(scene.hub.output())
        await more(scene.hub, before)
    assert scene.hub.output().count(b"y") >= 2_000_000


async def test_who_comes_back_gets_the_rest_from_its_offset(scene: Scene) -> None:
    await opened(scene)
    seen = len(scene.hub.output())
    scene.hub.detach(1)
    scene.type("echo mean''while\n")
    place = await attach(scene.hub, offset=seen)
    assert (place["offset"], place["redraw"], place["terminalId"]) == (seen, False, TERMINAL)
    assert (place["cols"], place["rows"], place["cwd"]) == (80, 24, str(scene.project))
    await scene.shows(b"meanwhile")
    assert scene.hub.output().count(b"ready") == 1
    assert RESET not in scene.hub.output()


async def test_who_has_nothing_gets_a_redraw_in_the_modes_that_hold(scene: Scene) -> None:
    await opened(scene)
    scene.type("printf '\\033[?2004h\\033[?1hmo''des'\n")
    await scene.shows(b"modes")
    scene.hub.detach(1)
    before = len(scene.hub.output())
    place = await attach(scene.hub)
    assert (place["offset"], place["redraw"]) == (0, True)
    await scene.hub.until(lambda: RESET in scene.hub.output()[before:])
    await scene.hub.until(lambda: b"modes" in scene.hub.output().rpartition(RESET)[2])


async def test_a_redraw_has_a_full_screen_program_draw_itself(scene: Scene) -> None:
    await opened(scene)
    program = 'trap \'echo draw""n\' WINCH; echo se""t; while :; do sleep 0.05; done'
    (scene.project / "program").write_text(program)
    scene.type("sh ./program\n")
    await scene.shows(b"set")
    scene.hub.detach(1)
    before = len(scene.hub.output())
    await attach(scene.hub)
    await scene.hub.until(lambda: b"drawn" in scene.hub.output()[before:])


@pytest.mark.parametrize(
    ("setting", "drops"),
    [("sane", True), ("noflsh", False), ("-isig", False), ("intr ^X", False)],
)
async def test_the_interrupt_key_drops_what_was_not_sent_where_the_terminal_says_so(
    scene: Scene, setting: str, *, drops: bool
) -> None:
    await opened(scene)
    scene.type(f"stty {setting} -echo; head -c 3000000 /dev/zero | tr '\\0' y\n")
    await scene.hub.until(lambda: len(scene.hub.output()) > 150_000)
    scene.hub.notify(INPUT, {"terminalId": TERMINAL, "data": b"\x03"})
    assert (await scene.hub.ask(ACK, {"terminalId": TERMINAL, "offset": 0})).result == b"{}"
    discarded = [one for one in scene.hub.messages if one.kind == kinds.DISCARD]
    assert bool(discarded) is drops


async def test_what_the_hub_left_out_makes_room_for_what_follows(scene: Scene) -> None:
    await opened(scene)
    scene.type("yes\n")
    await scene.hub.until(lambda: len(scene.hub.output()) > 150_000)
    scene.hub.notify(INPUT, {"terminalId": TERMINAL, "data": b"\x03"})
    await scene.hub.until(lambda: any(one.kind == kinds.DISCARD for one in scene.hub.messages))
    # all that was on its way was left out: nobody will ever acknowledge it
    scene.hub.discarded(1 << 30)
    scene.type("echo af''ter\n")
    await scene.shows(b"after")


async def test_a_terminal_of_the_link_waits_for_the_next_hub_when_its_client_comes_back(
    scene: Scene,
) -> None:
    await opened(scene, link=True, resume=True)
    seen = len(scene.hub.output())
    shell = (await scene.milestones.wait("pty.shell_started"))["shell_pid"]
    await scene.hub.__aexit__(None, None, None)
    async with TerminalHub(scene.paths) as second:
        second.crediting = False
        await second.until(lambda: bool(second.hellos))
        hello = second.hellos[0].terminal
        assert hello is not None
        assert (hello.link, hello.resume, hello.shell_pid) == (True, True, shell)
        second.settings(settings(scene))
        place = await attach(second, offset=seen)
        assert (place["offset"], place["redraw"]) == (seen, False)
        second.notify(INPUT, {"terminalId": TERMINAL, "data": b"echo ag''ain\n"})
        await second.until(lambda: b"again" in second.output())
        second.stop()
        assert await scene.ended() == 0
    await scene.hub.__aenter__()


async def test_the_end_of_a_shell_is_kept_for_the_client_that_comes_back(scene: Scene) -> None:
    await opened(scene, link=True, resume=True)
    seen = len(scene.hub.output())
    scene.type("read x; echo la''st; exit 7\n")
    scene.hub.detach(1)
    scene.type("\n")
    assert scene.process is not None
    shell = (await scene.milestones.wait("pty.shell_started"))["shell_pid"]
    await gone(shell)
    assert scene.process.poll() is None
    await attach(scene.hub, offset=seen)
    assert await scene.exit() == 7
    assert b"last" in scene.hub.output()
    assert await scene.ended() == 0


async def test_nobody_that_comes_back_ends_what_is_kept(scene: Scene) -> None:
    await opened(scene, link=True, resume=True)
    # gone before the shell can end
    scene.hub.detach(1)
    scene.type("exit 7\n")
    scene.hub.stop()
    assert await scene.ended() == 0
    assert scene.hub.said(EXIT) == []


async def test_a_client_that_is_not_attached_cannot_ask(scene: Scene) -> None:
    await opened(scene)
    scene.hub.detach(1)
    answer = await scene.hub.ask(ATTACH, {"terminalId": TERMINAL})
    assert b"not attached" in answer.error
