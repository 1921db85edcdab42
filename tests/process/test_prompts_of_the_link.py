"""Prompts through the hub's socket with real workers: what the model's request holds, and what the client is told."""

import asyncio
import base64
import os
import signal
import zlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from lembasd.protocol.errors import RequestRefused
from tests.support.daemon import Client, Install, gone
from tests.support.png import png
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.sessions import new_session, prompt, worker_pid

pytestmark = pytest.mark.process


@pytest.fixture
async def client(zygote_install: Install) -> AsyncIterator[Client]:
    await zygote_install.start_hub()
    client = await zygote_install.client()
    await client.initialize()
    yield client
    client.hub.close()


def blocks(session: str, turn_id: str, *blocks: dict[str, Any], text: str = "see") -> Any:
    params = prompt(session, text, turn_id)
    params["prompt"] += blocks
    return params


def last_said(model: ScriptedModel) -> Any:
    return [one["content"] for one in model.requests[-1]["messages"] if one["role"] == "user"][-1]


@pytest.mark.spec(
    "session/prompt: image",
    "session/prompt: resource with text",
    "session/prompt: @path",
    "history: attachments",
    "event prompt: attachments",
)
async def test_the_models_request_holds_what_a_prompt_brings_and_names(
    zygote_install: Install, client: Client, model: ScriptedModel
) -> None:
    session = await new_session(client, zygote_install)
    (zygote_install.project / "a.py").write_text("one\ntwo\n")
    picture = {
        "type": "image",
        "data": base64.b64encode(png(2, 1)).decode(),
        "mimeType": "image/png",
        "uri": "file:///x/shot.png",
    }
    note = {"type": "resource", "resource": {"uri": "n.md", "text": "a note\n"}}
    answer = await client.ask(
        "session/prompt", blocks(session, "t1", picture, note, text="see @a.py#2")
    )
    assert answer == {"stopReason": "end_turn", "_meta": {"lembas": {"turnId": "t1"}}}
    text, _, image = last_said(model)
    folder = zygote_install.paths.attachments / session
    shot, file = sorted(folder.iterdir(), key=lambda one: one.name[25:], reverse=True)
    size = len(png(2, 1))
    assert text["text"].split("\n\n") == [
        "see @a.py#2",
        f"Attached image {shot} (PNG, 2x1 pixels, {size} bytes)",
        f"Attached file {file}:\n     1\ta note",
        "Attached file a.py:\n     2\ttwo",
    ]
    data = base64.b64encode(png(2, 1)).decode()
    assert image["image_url"]["url"] == f"data:image/png;base64,{data}"
    infos = [
        {"name": "shot.png", "mimeType": "image/png", "size": size},
        {"name": "n.md", "mimeType": "text/plain", "size": 7},
    ]
    history = await client.ask("_lembas/session/history", {"sessionId": session})
    assert history["turns"][0] == {
        "role": "user",
        "text": "see @a.py#2",
        "turnId": "t1",
        "attachments": infos,
    }
    assert (await client.event("prompt"))["attachments"] == infos


async def test_what_is_too_large_or_no_base64_is_refused_and_the_session_goes_on(
    zygote_install: Install, client: Client, model: ScriptedModel
) -> None:
    session = await new_session(client, zygote_install)
    garbage = {"type": "image", "mimeType": "image/png", "data": "!" * 13_000_000}
    for block, says in (
        ([garbage], "the data of an image block is not base64; encode it again"),
        ([{**garbage, "data": "A" * 13_333_340}], "a prompt block holds at most 10 MB"),
        ([{**garbage, "data": "A" * 13_000_000}] * 3, "a prompt holds at most 25 MB"),
    ):
        with pytest.raises(RequestRefused, match=says) as refused:
            await client.ask("session/prompt", blocks(session, "t1", *block), 60.0)
        assert refused.value.code == -32602
    bomb = {**garbage, "data": base64.b64encode(zlib.compress(bytes(5_000_000))).decode()}
    answer = await client.ask("session/prompt", blocks(session, "t1", bomb))
    assert answer["stopReason"] == "end_turn"
    assert "(binary file, " in last_said(model)


@pytest.mark.spec("result: undone")
async def test_undo_through_a_death_of_the_worker(
    zygote_install: Install, client: Client, model: ScriptedModel
) -> None:
    session = await new_session(client, zygote_install)
    project = zygote_install.project
    (project / "a").write_text("before\n")
    model.script(
        Reply(calls=[("read", {"path": "a"})]),
        Reply(calls=[("write", {"path": "a", "content": "after\n"})]),
        Reply(calls=[("write", {"path": "b", "content": "new\n"})]),
        Reply(text="thinking", hold=asyncio.Event()),
    )
    turn = client.hub.start("session/prompt", prompt(session, "change it", "t1"))
    await client.event("text")
    pid = await worker_pid(zygote_install, session)
    os.kill(pid, signal.SIGKILL)
    await gone(pid)
    with pytest.raises(RequestRefused):
        await turn
    (project / "b").write_text("mine\n")
    answer = await client.ask("session/prompt", prompt(session, "/undo", "t2"))
    assert msgspec.to_builtins(answer)["_meta"]["lembas"] == {
        "turnId": "t2",
        "command": "undo",
        "undone": {"prompt": "change it", "files": ["a"]},
    }
    assert ((project / "a").read_text(), (project / "b").read_text()) == ("before\n", "mine\n")
    history = await client.ask("_lembas/session/history", {"sessionId": session})
    assert history["turns"] == [{"role": "user", "text": "/undo", "turnId": "t2"}]
    again = await client.ask("session/prompt", prompt(session, "/undo", "t3"))
    assert again["_meta"]["lembas"]["undone"] is None


@pytest.mark.spec(
    "_lembas/commands", "update available_commands_update", "session/prompt: /name of a command"
)
async def test_commands_are_told_after_the_session_and_asked_for_without_one(
    zygote_install: Install, client: Client, model: ScriptedModel
) -> None:
    folder = zygote_install.project / ".agent" / "commands"
    folder.mkdir(parents=True)
    (folder / "port.md").write_text("Port $ARGUMENTS.")
    session = await new_session(client, zygote_install)
    told = await client.commands()
    assert told[-1] == {
        "name": "port",
        "description": "Port $ARGUMENTS.",
        "_meta": {"lembas": {"kind": "custom"}},
    }
    for asked in ({"sessionId": session}, {"cwd": str(zygote_install.project)}):
        assert await client.ask("_lembas/commands", asked) == {"commands": told}
    model.script(Reply(calls=[("write", {"path": ".agent/commands/zap.md", "content": "Zap."})]))
    await client.ask("session/prompt", prompt(session, "/port it", "t1"))
    assert "Port it." in str(model.requests[0]["messages"])
    assert [one["name"] for one in await client.commands()][-2:] == ["port", "zap"]
