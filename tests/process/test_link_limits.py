"""link.md, `_lembas/hello`: what a device says of its limits, and that they hold at each request as they are then."""

import msgspec
import pytest

from tests.support.bare_link import BareLink
from tests.support.daemon import Install

pytestmark = pytest.mark.process

MODEL = "/v1/chat/completions"


def request(message_id: int, method: str, params: str) -> str:
    return f'{{"jsonrpc":"2.0","id":{message_id},"method":"{method}","params":{params}}}'


def refusal(message_id: int, message: str, reason: str) -> str:
    return (
        f'{{"jsonrpc":"2.0","id":{message_id},"error":{{"code":-32602,'
        f'"message":"{message}","data":{{"reason":"{reason}"}}}}}}'
    )


@pytest.mark.parametrize(
    ("remote", "message", "reason"),
    [
        (
            {"enabled": False},
            "remote work is off on this device; turn it on there with `lembas remote on`",
            "remote_off",
        ),
        (
            {"roots": []},
            "this device allows no folder yet; add one there with `lembas remote add DIR`",
            "folder",
        ),
    ],
)
@pytest.mark.spec(
    "hello: no roots while remote work is off", "session/new: refused without roots or remote work"
)
async def test_a_device_that_allows_nothing_links_and_refuses(
    zygote_install: Install, remote: dict[str, object], message: str, reason: str
) -> None:
    install = zygote_install
    install.configure(**remote)
    async with BareLink(install) as link:
        assert link.hello["limits"] == {
            "roots": [],
            "max_mode": "auto",
            "require_trust": False,
            "scheduled": False,
        }
        assert link.about["limits"] == {"roots": [], "max_mode": "auto", "scheduled": False}
        project = install.project
        for number, method, params in (
            (1, "session/new", f'{{"cwd":"{project}","mcpServers":[]}}'),
            (2, "_lembas/directories", f'{{"path":"{project}"}}'),
            (3, "_lembas/terminal/open", f'{{"cwd":"{project}"}}'),
            (4, "_lembas/terminal/open", "{}"),
            (5, "_lembas/files/search", f'{{"cwd":"{project}","query":""}}'),
        ):
            answer = await link.ask(request(number, method, params))
            assert answer.decode() == refusal(number, message, reason), method
        places = await link.ask(request(6, "_lembas/directories", "{}"))
        assert places == b'{"jsonrpc":"2.0","id":6,"result":{"path":"","places":[]}}'


@pytest.mark.spec(
    "limits: judged at each request", "limits: a change dials again once nothing works"
)
async def test_changed_limits_hold_at_once_and_are_said_once_nothing_works(
    install: Install,
) -> None:
    project = install.project
    async with BareLink(install) as link:
        link.instance.mute.add(MODEL)
        first = link.device
        new = await link.ask(
            request(
                1, "session/new", f'{{"cwd":"{project}","mcpServers":[],"_meta":{{"mode":"auto"}}}}'
            )
        )
        session = msgspec.json.decode(new)["result"]["sessionId"]
        text = '"prompt":[{"type":"text","text":"go"}]'
        first.send(request(2, "session/prompt", f'{{"sessionId":"{session}",{text}}}').encode())
        await link.instance.asked(MODEL)

        assert (await install.run("remote", "off")).returncode == 0
        off = "remote work is off on this device; turn it on there with `lembas remote on`"
        for number, method, params in (
            (3, "_lembas/steer", f'{{"sessionId":"{session}","text":"stop"}}'),
            (4, "session/prompt", f'{{"sessionId":"{session}",{text}}}'),
            (5, "session/set_mode", f'{{"sessionId":"{session}","modeId":"plan"}}'),
            (6, "session/new", f'{{"cwd":"{project}","mcpServers":[]}}'),
        ):
            answer = await link.ask(request(number, method, params))
            assert answer.decode() == refusal(number, off, "remote_off"), method
        assert not first.closed.is_set()

        cancel = (
            f'{{"jsonrpc":"2.0","method":"session/cancel","params":{{"sessionId":"{session}"}}}}'
        )
        first.send(cancel.encode())
        ended = msgspec.json.decode(await link.answer(2))
        assert ended["result"]["stopReason"] == "cancelled"
        await first.until_closed()
        assert (first.close_code, first.close_reason) == (
            1000,
            "what the device said of itself has changed",
        )
        await link.linked()
        assert link.hello["limits"]["roots"] == []

        # nothing works: each change is said at once
        for command, limits in (
            (("on",), {"roots": [str(install.base)], "max_mode": "auto"}),
            (("mode", "manual"), {"roots": [str(install.base)], "max_mode": "manual"}),
            (("remove", str(install.base)), {"roots": [], "max_mode": "manual"}),
            (("add", str(project)), {"roots": [str(project)], "max_mode": "manual"}),
        ):
            assert (await install.run("remote", *command)).returncode == 0
            await link.linked()
            assert link.about["limits"] == {**limits, "scheduled": False}
        lowered = await link.ask(
            request(
                7, "session/new", f'{{"cwd":"{project}","mcpServers":[],"_meta":{{"mode":"auto"}}}}'
            )
        )
        assert msgspec.json.decode(lowered)["result"]["_meta"]["lembas"]["mode"] == "manual"


async def test_a_terminal_of_the_link_hangs_up_when_terminals_are_turned_off(
    zygote_install: Install,
) -> None:
    install = zygote_install
    async with BareLink(install) as link:
        link.instance.mute.add(MODEL)
        new = await link.ask(
            request(1, "session/new", f'{{"cwd":"{install.project}","mcpServers":[]}}')
        )
        session = msgspec.json.decode(new)["result"]["sessionId"]
        text = '"prompt":[{"type":"text","text":"go"}]'
        link.device.send(
            request(2, "session/prompt", f'{{"sessionId":"{session}",{text}}}').encode()
        )
        await link.instance.asked(MODEL)
        opened = await link.ask(request(3, "_lembas/terminal/open", "{}"))
        terminal = msgspec.json.decode(opened)["result"]["terminalId"]
        assert (await install.run("remote", "terminal", "off")).returncode == 0
        ended = await link.said("_lembas/terminal/exit")
        assert ended["terminalId"] == terminal
        refused = await link.ask(request(4, "_lembas/terminal/open", "{}"))
        assert b"`lembas remote terminal on` allows them" in refused
