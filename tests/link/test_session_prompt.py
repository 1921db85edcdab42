"""link.md, "session/prompt": blocks, expansion, turn ids, results."""

import asyncio
import base64
import os
import re
import signal
import time
import zlib
from typing import Any

import msgspec
import pytest

from tests.support.bare_client import Refused
from tests.support.daemon import gone
from tests.support.linked_hub import UNKNOWN, LinkedHub, named
from tests.support.png import png
from tests.support.scripted_model import Reply
from tests.support.sessions import worker_pid

#: <time>-<random>-<name>
UPLOADED = re.compile(r"\d{8}T\d{6}-[0-9a-z]+-")


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def last_said(hub: LinkedHub) -> Any:
    return [one["content"] for one in hub.messages() if one["role"] == "user"][-1]


def result(turn: str, more: str = "", reason: str = "end_turn") -> str:
    return f'{{"stopReason":"{reason}","_meta":{{"lembas":{{"turnId":"{turn}"{more}}}}}}}'


@pytest.mark.spec(
    "session/prompt: text",
    "session/prompt: resource_link",
    "session/prompt: image",
    "session/prompt: resource with text",
    "session/prompt: resource with a blob",
    "session/prompt: the attachment directory",
    "session/prompt: @path",
    "history: attachments",
    "event prompt: attachments",
)
async def test_each_block_becomes_what_the_spec_says(hub: LinkedHub) -> None:
    (hub.project / "a.py").write_text("one\ntwo\n")
    session = await hub.new(model="eyes")
    data, binary = png(2, 1), b"\xff\x00\xfe"
    blocks: list[dict[str, Any]] = [
        {"type": "resource_link", "uri": "https://e.x/a", "name": "a"},
        {
            "type": "image",
            "data": encoded(data),
            "mimeType": "image/png",
            "uri": "file:///shot.png",
        },
        {"type": "resource", "resource": {"uri": "n.md", "text": "a note\n"}},
        {"type": "resource", "resource": {"uri": "n.md", "text": "another\n"}},
        {"type": "resource", "resource": {"uri": "b.bin", "blob": encoded(binary)}},
        {
            "type": "resource",
            "resource": {"uri": "c.png", "mimeType": "image/png", "blob": encoded(data)},
        },
    ]
    assert await hub.turn(session, "t1", "see @a.py#2", *blocks) == result("t1")
    folder = hub.install.paths.attachments / session
    names = {one.name[UPLOADED.match(one.name).end() :]: one for one in sorted(folder.iterdir())}  # type: ignore[union-attr]
    assert sorted(UPLOADED.sub("", one.name, count=1) for one in folder.iterdir()) == [
        *("b.bin", "c.png", "n.md", "n.md", "shot.png")
    ]
    parts = last_said(hub)
    texts = [one["text"] for one in parts if one["type"] == "text"]
    images = [one["image_url"]["url"] for one in parts if one["type"] == "image_url"]
    assert images == [f"data:image/png;base64,{encoded(data)}"] * 2
    said = "\n\n".join(texts)
    assert said.startswith("see @a.py#2\n\n(see https://e.x/a)\n\n")
    for part in (
        f"Attached image {names['shot.png']} (PNG, 2x1 pixels, {len(data)} bytes)",
        ":\n     1\ta note",
        ":\n     1\tanother",
        f"{names['b.bin']} (binary file, 3 bytes)",
        f"Attached image {names['c.png']} (PNG, 2x1 pixels, {len(data)} bytes)",
        "Attached file a.py:\n     2\ttwo",
    ):
        assert part in said, (part, said)
    infos = [
        {"name": "shot.png", "mimeType": "image/png", "size": len(data)},
        {"name": "n.md", "mimeType": "text/plain", "size": 7},
        {"name": "n.md", "mimeType": "text/plain", "size": 8},
        {"name": "b.bin", "mimeType": "application/octet-stream", "size": 3},
        {"name": "c.png", "mimeType": "image/png", "size": len(data)},
    ]
    typed = "see @a.py#2\n\n(see https://e.x/a)"
    assert await hub.client.event(session, "prompt") == {
        "type": "prompt",
        "text": typed,
        "turnId": "t1",
        "attachments": infos,
    }
    assert (await hub.history(session))["turns"][0] == {
        "role": "user",
        "text": typed,
        "turnId": "t1",
        "attachments": infos,
    }
    assert await hub.client.ask("_lembas/session/delete", named(session)) == '{"deleted":true}'
    assert not folder.exists()


@pytest.mark.spec("session/prompt: an image for a model that does not see")
async def test_a_model_that_does_not_see_is_told_that_an_image_is_there(hub: LinkedHub) -> None:
    session = await hub.new(model="blind")
    await hub.turn(
        session, "t1", "see", {"type": "image", "data": encoded(png(2, 1)), "mimeType": "image/png"}
    )
    said = last_said(hub)
    assert isinstance(said, str)
    assert "(PNG, 2x1 pixels, " in said


@pytest.mark.spec("session/prompt: 10 MB a block, 25 MB a prompt", "session/prompt: image types")
async def test_what_is_too_large_or_no_base64_is_refused_and_the_session_goes_on(
    hub: LinkedHub,
) -> None:
    session = await hub.new()
    image = {"type": "image", "mimeType": "image/png"}
    fits, over = "A" * 13_333_333 + "=" * 0, "A" * 13_333_340
    for blocks, says in (
        (
            [{**image, "data": "!" * 40}],
            "the data of an image block is not base64; encode it again",
        ),
        ([{**image, "data": over}], "a prompt block holds at most 10 MB"),
        ([{**image, "data": fits[:13_000_000]}] * 3, "a prompt holds at most 25 MB"),
        ([{"type": "text", "text": "x" * 10_000_001}], "a prompt block holds at most 10 MB"),
        ([{"type": "image", "mimeType": "image/bmp", "data": "AAAA"}], "image/bmp"),
        ([{"type": "audio", "mimeType": "audio/wav", "data": "AAAA"}], "audio"),
    ):
        with pytest.raises(Refused, match=says) as refused:
            await hub.client.result(hub.prompt(session, "t1", "see", *blocks))
        assert refused.value.code == -32602
    bomb = {**image, "data": encoded(zlib.compress(bytes(5_000_000)))}
    assert await hub.turn(session, "t1", "see", bomb) == result("t1")
    assert "(binary file, " in last_said(hub)
    empty = named(session, prompt=[])
    assert await hub.client.ask("session/prompt", empty) == (
        '{"code":-32602,"message":"the prompt is empty; write something"}'
    )


@pytest.mark.spec(
    "session/prompt: @path with a range, an escape, a directory",
    "session/prompt: @path outside the project and roots",
)
async def test_only_paths_of_the_project_are_attached_however_they_are_written(
    hub: LinkedHub,
) -> None:
    project = hub.project
    (project / "my notes.md").write_text("n1\n")
    (project / "a#b.md").write_text("h1\n")
    (project / "c.md").write_text("".join(f"line {n}\n" for n in range(1, 30)))
    (project / "d").mkdir()
    (project / "d" / "inside").write_text("")
    (hub.install.base / "secret").write_text("hidden\n")
    (project / "out").symlink_to(hub.install.base / "secret")
    (project / ".git").mkdir(exist_ok=True)
    session = await hub.new()
    text = (
        "see @my\\ notes.md @a\\#b.md @c.md#10-11 @d/ @out @../secret "
        f"@{hub.install.paths.credentials_file} @none mail@c.md"
    )
    await hub.turn(session, "t1", text)
    said = last_said(hub)
    assert said.split("\n\n")[0] == text
    for part in ("     1\tn1", "     1\th1", "    10\tline 10\n    11\tline 11", "inside"):
        assert part in said
    for part in ("hidden", "line 12", "line 9\n", "a-test-token", "token-of-a-test"):
        assert part not in said
    assert said.count("Attached ") == 4


@pytest.mark.spec(
    "session/prompt: /name of a command",
    "session/prompt: /name that is none",
    "session/prompt: no @path of a command's own text",
    "result: command",
    "result: mode",
    "result: message",
    "result: summary",
    "result: undone",
    "history: a command as it was typed",
)
async def test_a_name_of_the_set_is_that_command_and_any_other_is_text(hub: LinkedHub) -> None:
    folder = hub.project / ".agent" / "commands"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "port.md").write_text("Port $ARGUMENTS. See @c2.md")
    (hub.project / "c2.md").write_text("not to be read\n")
    session = await hub.new()

    assert await hub.turn(session, "t1", "/port it") == result("t1", ',"command":"port"')
    assert last_said(hub) == "Port it. See @c2.md"
    assert (await hub.client.event(session, "prompt"))["text"] == "/port it"
    assert (await hub.history(session))["turns"][0]["text"] == "/port it"

    for number, text in enumerate(
        ("/usr/bin/env is a path", "/^a.*b$/ matches", "/theme", "/portx")
    ):
        assert await hub.turn(session, f"n{number}", text) == result(f"n{number}")
        assert last_said(hub) == text

    asked = len(hub.model.requests)
    plan = await hub.turn(session, "t2", "/plan")
    assert plan == result("t2", ',"command":"plan","mode":"plan"')
    assert (await hub.client.event(session, "mode"))["mode"] == "plan"
    assert len(hub.model.requests) == asked
    assert (
        await hub.turn(session, "t3", "/review")
        == result("t3", ',"command":"review","message":"nothing has changed"')
        or len(hub.model.requests) == asked
    )
    assert len(hub.model.requests) == asked
    undone = await hub.turn(session, "t4", "/undo")
    assert undone == result("t4", ',"command":"undo","undone":{"prompt":"/portx","files":[]}')
    hub.model.script(Reply("what was done"))
    compacted = await hub.turn(session, "t5", "/compact")
    assert compacted == result("t5", ',"command":"compact","summary":"what was done"')
    # the answer of an id is kept whole
    assert await hub.turn(session, "t5", "/compact") == compacted
    fresh = await hub.new()
    assert await hub.turn(fresh, "t1", "/undo") == result("t1", ',"command":"undo","undone":null')


@pytest.mark.spec(
    "session/prompt: a command's model holds for its prompt",
    "session/prompt: a command's mode is lowered",
    "event model: whatever changes it",
)
async def test_a_commands_model_holds_for_its_prompt_and_its_mode_is_lowered(
    own_hub: LinkedHub,
) -> None:
    folder = own_hub.install.paths.config / "commands"
    folder.mkdir()
    (folder / "deep.md").write_text(
        "---\nmodel: deepseek/flash\neffort: high\nmode: auto\n---\nGo deep."
    )
    await own_hub.configured(max_mode="edit")
    session = await own_hub.new(mode="manual")
    own_hub.model.script(
        Reply(calls=[("write", {"path": "w", "content": "x"}), ("bash", {"command": "./none b"})])
    )
    turn = own_hub.prompt(session, "t1", "/deep")
    card = await own_hub.client.card(session)
    assert card.params["toolCall"]["rawInput"] == {"command": "./none b"}
    own_hub.client.allow(card, "deny")
    await own_hub.client.answer(turn)
    await own_hub.turn(session, "t2")
    assert [(body["model"], body.get("reasoning_effort")) for body in own_hub.model.requests] == [
        ("deepseek/flash", "high"),
        ("deepseek/flash", "high"),
        ("plain", None),
    ]
    told = [one.params["event"] for one in own_hub.client.told if one.method == "_lembas/event"]
    connection = {"type": "model", "connection": "moria", "instance": True}
    assert [one for one in told if one["type"] == "model"] == [
        {**connection, "ref": "deepseek/flash", "effort": "high"},
        {**connection, "ref": "plain", "effort": "default"},
    ]


@pytest.mark.spec("result: undone", "turn ids: a worker's death is its turn's error")
async def test_undo_through_a_death_of_the_worker(own_hub: LinkedHub) -> None:
    hub, project = own_hub, own_hub.project
    session = await hub.new()
    (project / "a").write_text("before\n")
    hub.model.script(
        Reply(calls=[("read", {"path": "a"})]),
        Reply(calls=[("write", {"path": "a", "content": "after\n"})]),
        Reply(calls=[("write", {"path": "b", "content": "new\n"})]),
        Reply(text="thinking", hold=asyncio.Event()),
    )
    turn = hub.prompt(session, "t1", "change it")
    await hub.client.event(session, "text")
    pid = await worker_pid(hub.install, session)
    os.kill(pid, signal.SIGKILL)
    await gone(pid)
    with pytest.raises(Refused) as refused:
        await hub.client.result(turn)
    assert (refused.value.code, refused.value.data["reason"]) == (-32603, "worker_ended")
    (project / "b").write_text("mine\n")
    assert await hub.turn(session, "t2", "/undo") == result(
        "t2", ',"command":"undo","undone":{"prompt":"change it","files":["a"]}'
    )
    assert ((project / "a").read_text(), (project / "b").read_text()) == ("before\n", "mine\n")
    history = await hub.history(session)
    assert history["turns"] == [{"role": "user", "text": "/undo", "turnId": "t2"}]
    assert await hub.turn(session, "t3", "/undo") == result("t3", ',"command":"undo","undone":null')


@pytest.mark.spec(
    "session/prompt: waits its turn",
    "turn ids: a known id never runs again",
    "turn ids: a known id gets its turn's answer",
    "turn ids: one is made where none came",
    "result: turnId",
    "result: stopReason end_turn",
)
async def test_a_known_id_never_runs_again_and_a_second_prompt_waits(hub: LinkedHub) -> None:
    session = await hub.new()
    first, hold = await hub.working(session, "t1")
    again, second, other = (hub.prompt(session, turn) for turn in ("t1", "t2", "t2"))
    status = await hub.client.value("_lembas/session/status", named(session))
    assert (status["busy"], status["turnId"], status["queued"]) == (True, "t1", ["t2"])
    hold.set()
    answers = [await hub.client.answer(one) for one in (first, again, second, other)]
    assert answers == [result("t1"), result("t1"), result("t2"), result("t2")]
    assert await hub.turn(session, "t1") == result("t1")
    assert len(hub.model.requests) == 2
    starts = [one.params["event"] for one in hub.client.told if '"state":"start"' in one.text]
    assert starts == [
        {"type": "task", "state": "start", "turnId": "t1"},
        {"type": "task", "state": "start", "turnId": "t2"},
    ]
    made = await hub.client.value(
        "session/prompt", named(session, prompt=[{"type": "text", "text": "x"}])
    )
    turn = made["_meta"]["lembas"]["turnId"]
    assert (await hub.client.event(session, "task", turn))["state"] == "start"
    assert msgspec.json.decode(await hub.status(session))["lastTurnId"] == turn
    assert (
        await hub.client.ask(
            "session/prompt",
            named(
                session,
                prompt=[{"type": "text", "text": "x"}],
                _meta={"lembas": {"turnId": "x" * 201}},
            ),
        )
        == '{"code":-32602,"message":"a turnId has 1 to 200 characters; send another one"}'
    )


@pytest.mark.spec(
    "turn ids: kept over a restart",
    "turn ids: 200 are kept",
    "turn ids: files untouched for 30 days are pruned",
    "turn ids: one file a session",
)
async def test_answers_are_kept_in_one_file_a_session_for_200_ids_and_30_days(
    own_hub: LinkedHub,
) -> None:
    hub, folder = own_hub, own_hub.install.paths.state / "turns"
    old, fresh = await hub.new(), await hub.new()
    for session in (old, fresh):
        await hub.turn(session, "t1")
    assert {one.name for one in folder.iterdir()} == {f"{old}.json", f"{fresh}.json"}
    for number in range(200):
        await hub.turn(fresh, f"n{number}", "/plan")
    kept = msgspec.json.decode((folder / f"{fresh}.json").read_bytes())
    assert len(kept) == 200

    await hub.install.stop()
    month_ago = time.time() - 30 * 86_400
    os.utime(folder / f"{old}.json", (month_ago - 60, month_ago - 60))
    os.utime(folder / f"{fresh}.json", (month_ago + 3600, month_ago + 3600))
    await hub.install.start_hub()
    await hub.linked()
    asked = len(hub.model.requests)
    assert await hub.turn(fresh, "n199") == result("n199", ',"command":"plan","mode":"plan"')
    while (folder / f"{old}.json").exists():
        await hub.client.ask("_lembas/directories", "{}")
    assert (folder / f"{fresh}.json").exists()
    assert len(hub.model.requests) == asked


@pytest.mark.spec(
    "result: stopReason max_tokens",
    "result: stopReason max_turn_requests",
    "session/prompt: a turn that ends on a model error is an error",
)
async def test_a_turn_says_why_it_stopped(hub: LinkedHub) -> None:
    session = await hub.new()
    hub.model.script(*[Reply("too long", finish="length")] * 8)
    assert '"stopReason":"max_tokens"' in await hub.turn(session, "t1")
    hub.model.replies.clear()
    hub.model.choose = lambda _: Reply(
        calls=[("read", {"path": f"none-{len(hub.model.requests)}"})]
    )
    try:
        answer = await hub.turn(await hub.new(), "t1")
    finally:
        hub.model.choose = lambda _: None
    assert answer == result("t1", reason="max_turn_requests")
    hub.model.script(Reply(status=400, raw=b'{"error":{"message":"no"}}'))
    error = msgspec.json.decode(await hub.turn(session, "t2"))
    assert (error["code"], error["data"]["reason"]) == (-32603, "model")


@pytest.mark.spec("session/prompt: an unknown session is -32602")
async def test_an_unknown_session_is_refused(hub: LinkedHub) -> None:
    for session in ("ses_" + "0" * 26, "../../etc"):
        assert await hub.turn(session, "t1") == UNKNOWN
    assert await hub.turn("", "t1") == (
        '{"code":-32602,"message":"session/prompt needs params with a sessionId"}'
    )
