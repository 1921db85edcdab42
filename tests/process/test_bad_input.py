"""What goes wrong at the outside, and what a person is told to do about it."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from lembasd.ipc.framing import encode_frame
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.errors import RequestRefused
from tests.support.daemon import Install
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.sessions import new_session, prompt

pytestmark = [pytest.mark.process, pytest.mark.timeout(60)]


async def refused(install: Install, *args: str, service: bool = True) -> tuple[int, str]:
    """Exit code and the one line of stderr."""
    done = await install.run(*args, service=service)
    lines = done.stderr.decode().strip().splitlines()
    assert len(lines) == 1, lines
    return done.returncode, lines[0]


async def test_a_broken_config_stops_the_hub_with_file_line_and_what_is_expected(
    zygote_install: Install,
) -> None:
    path = zygote_install.paths.config_file
    path.write_text("remote:\n  enabled: maybe\n")
    code, line = await refused(zygote_install, "run")
    assert (code, line) == (1, f"lembasd: {path}, line 2: remote.enabled must be true or false")


async def test_a_config_that_breaks_while_the_hub_runs_keeps_its_last_good_values(
    zygote_install: Install,
) -> None:
    install = zygote_install
    await install.start_hub()
    path = install.paths.config_file
    path.write_text(path.read_text().replace("max_mode: ", "max_mode: wild "))
    status = await install.status()
    assert "max_mode must be one of" in status["config_problem"]
    client = await install.client()
    await client.initialize()
    await new_session(client, install)
    client.hub.close()


async def test_a_second_hub_says_that_one_runs(zygote_install: Install) -> None:
    hub = await zygote_install.start_hub()
    code, line = await refused(zygote_install, "run")
    assert (code, line) == (
        1,
        f"lembasd: a hub runs already (pid {hub.pid}); use it, or end it with `lembasd stop`",
    )


async def test_a_socket_path_that_is_too_long_still_works(short_tmp: Path) -> None:
    deep = short_tmp / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    async with Install(short_tmp) as install:
        install.environment["LEMBAS_HOME"] = str(deep)
        install.home = deep
        await install.start_hub()
        status = await install.status()
        assert len(os.fsencode(status["hub"]["socket"])) <= 103


async def test_a_stale_socket_is_no_hub_and_is_replaced(zygote_install: Install) -> None:
    install = zygote_install
    await install.start_hub()
    await install.kill_hub()
    assert install.paths.socket.is_socket()
    done = await install.run("status", service=True)
    assert done.returncode == 3
    await install.start_hub()
    assert (await install.status())["running"]


async def test_garbage_on_the_socket_drops_its_peer_alone(
    zygote_install: Install, model: ScriptedModel
) -> None:
    install = zygote_install
    await install.start_hub()
    client = await install.client()
    await client.initialize()
    session = await new_session(client, install)
    for garbage in (b"\xff" * 4096, b"GET / HTTP/1.1\r\n\r\n", encode_frame(Envelope(kind="rpc"))):
        reader, writer = await asyncio.open_unix_connection(str(install.paths.socket))
        writer.write(garbage)
        async with asyncio.timeout(5):
            assert await reader.read() == b""
        writer.close()
    answer = await client.ask("session/prompt", prompt(session, "still there?", "t1"))
    assert answer["stopReason"] == "end_turn"
    client.hub.close()


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("session/new", {"cwd": "/nowhere/at/all", "mcpServers": []}, -32602),
        ("session/new", {"cwd": 7}, -32602),
        ("session/prompt", {"sessionId": "ses_" + "0" * 26, "prompt": []}, -32602),
        ("session/prompt", {"sessionId": "../../etc"}, -32602),
        ("_lembas/session/history", {"sessionId": "ses_" + "0" * 26}, -32602),
        ("_lembas/nothing", {"sessionId": "ses_" + "0" * 26}, -32601),
        ("session/load", {}, -32601),
        ("nonsense", {}, -32601),
    ],
)
@pytest.mark.spec("versions: an unknown method is -32601")
async def test_a_request_that_cannot_be_is_answered_with_its_code(
    zygote_install: Install, method: str, params: dict[str, Any], code: int
) -> None:
    await zygote_install.start_hub()
    client = await zygote_install.client()
    await client.initialize()
    with pytest.raises(RequestRefused) as caught:
        await client.ask(method, params)
    assert caught.value.code == code, caught.value.message
    client.hub.close()


@pytest.mark.spec("versions: a request before initialize is -32600")
async def test_a_request_before_initialize_is_told_to_initialize(zygote_install: Install) -> None:
    await zygote_install.start_hub()
    client = await zygote_install.client()
    with pytest.raises(RequestRefused, match="initialize first") as caught:
        await client.ask("session/new", {"cwd": str(zygote_install.project)})
    assert caught.value.code == -32600
    client.hub.close()


@pytest.mark.spec("status: held here and none")
async def test_an_unknown_session_has_a_status_that_says_so(zygote_install: Install) -> None:
    await zygote_install.start_hub()
    client = await zygote_install.client()
    await client.initialize()
    session = "ses_" + "0" * 26
    assert await client.ask("_lembas/session/status", {"sessionId": session}) == {
        "sessionId": session,
        "exists": False,
        "held": "none",
        "busy": False,
        "title": "",
        "queued": [],
    }
    client.hub.close()


async def test_an_instance_that_is_away_leaves_local_work_alone(
    zygote_install: Install, model: ScriptedModel
) -> None:
    # the scripted model answers completions, and 404 to discovery
    await zygote_install.start_hub()
    client = await zygote_install.client()
    await client.initialize()
    session = await new_session(client, zygote_install)
    answer = await client.ask("session/prompt", prompt(session, "hello", "t1"))
    assert answer["stopReason"] == "end_turn"
    link = (await zygote_install.status())["link"]
    assert link["state"] in ("waiting", "dialling")
    client.hub.close()


async def test_without_a_login_a_session_is_refused_with_what_to_do(short_tmp: Path) -> None:
    async with Install(short_tmp) as install:
        install.configure()
        await install.start_hub()
        client = await install.client()
        await client.initialize()
        with pytest.raises(RequestRefused, match="lembas login"):
            await new_session(client, install)
        client.hub.close()


async def test_a_damaged_journal_loses_its_bad_line_and_nothing_else(
    zygote_install: Install, model: ScriptedModel
) -> None:
    install = zygote_install
    await install.start_hub()
    client = await install.client()
    await client.initialize()
    session = await new_session(client, install)
    await client.ask("session/prompt", prompt(session, "one", "t1"))
    client.hub.close()
    await install.stop()
    journal = install.paths.session(session) / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([lines[0], b"{garbage\n", *lines[1:], b'{"torn']))
    await install.start_hub()
    client = await install.client()
    await client.initialize()
    await client.ask("session/prompt", prompt(session, "two", "t2"))
    history = await client.ask("_lembas/session/history", {"sessionId": session})
    assert [turn["text"] for turn in history["turns"]] == ["one", "done", "two", "done"]
    client.hub.close()


async def test_several_clients_see_one_session_and_the_first_answer_to_a_card_wins(
    zygote_install: Install, model: ScriptedModel
) -> None:
    install = zygote_install
    model.script(Reply(calls=[("bash", {"command": "expr 1"})]))
    await install.start_hub()
    first, second = await install.client(), await install.client()
    await first.initialize()
    await second.initialize()
    session = await new_session(first, install, mode="manual")
    await second.ask("_hub/attach", {"sessionId": session})
    turn = first.hub.start("session/prompt", prompt(session, "go", "t1"))
    async with asyncio.timeout(15):
        await first.cards.get()
    await second.answer_card("once")
    async with asyncio.timeout(15):
        await turn
        settled = await first.messages.get()
        while settled.method != "_lembas/permission/settled":
            settled = await first.messages.get()
    assert (await first.event("done", turnId="t1"))["stopReason"] == "end_turn"
    assert (await second.event("done", turnId="t1"))["stopReason"] == "end_turn"
    first.hub.close()
    second.hub.close()
