"""What a worker makes of a prompt's blocks and commands, as text on the wire."""

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lembasd.engine.api import TurnInput, TurnOutcome
from lembasd.protocol import envelope as kinds
from lembasd.protocol.acp import CommandResult, Undone
from lembasd.protocol.lembas import AvailableCommand
from lembasd.store.journal import Journal, read
from lembasd.store.records import Attachment, Created, ModeSet, TurnAccepted
from tests.component.test_worker_turns import LINK, LOCAL, SESSION, Scene, prompt
from tests.support import scripted_engine
from tests.support.fake_hub import FakeHub
from tests.support.png import png
from tests.support.scripted_engine import ScriptedEngine


@pytest.fixture
def scene(short_tmp: Path) -> Scene:
    return Scene(short_tmp)


def brings(turn_id: str, *blocks: Any, text: str = "see") -> dict[str, Any]:
    params = prompt(text, turn_id)
    params["prompt"] += blocks
    return params


IMAGE = {
    "type": "image",
    "data": base64.b64encode(png(1, 1)).decode(),
    "mimeType": "image/png",
    "uri": "file:///home/ann/a%20b.png",
}
NOTE = {"type": "resource", "resource": {"uri": "n.md", "mimeType": "text/markdown", "text": "x"}}


@pytest.mark.parametrize("client", [LOCAL, LINK])
@pytest.mark.spec("session/prompt: the attachment directory")
async def test_files_are_stored_before_the_turn_is_and_told_with_it(
    scene: Scene, client: int
) -> None:
    infos = [
        {"name": "a b.png", "mimeType": "image/png", "size": len(png(1, 1))},
        {"name": "n.md", "mimeType": "text/markdown", "size": 1},
        {"name": "n.md", "mimeType": "text/markdown", "size": 1},
    ]
    async with scene.hub() as hub, scene.worker():
        await scene.opened(hub, client)
        await hub.ask(client, "session/prompt", brings("t1", IMAGE, NOTE, NOTE))
        assert (await hub.event("prompt")) == {
            "type": "prompt",
            "text": "see",
            "turnId": "t1",
            "attachments": infos,
        }
        history = await hub.ask(client, "_lembas/session/history", {"sessionId": SESSION})
        assert history["turns"][0] == {
            "role": "user",
            "text": "see",
            "turnId": "t1",
            "attachments": infos,
        }
        (turn,) = scene.bench.engine.turns
    folder = scene.paths.attachments / SESSION
    assert turn.local == (client == LOCAL)
    assert [(one.name, one.kind) for one in turn.attachments] == [
        ("a b.png", "image"),
        ("n.md", "text"),
        ("n.md", "text"),
    ]
    names = [one.file for one in turn.attachments]
    assert len(set(names)) == 3
    assert sorted(names) == sorted(one.name for one in folder.iterdir())
    assert names[0].endswith("-a_b.png")
    assert [(folder / name).read_bytes() for name in names] == [png(1, 1), b"x", b"x"]
    assert [oct(one.stat().st_mode & 0o777) for one in (folder, folder / names[0])] == [
        "0o700",
        "0o600",
    ]
    (accepted,) = [
        one for one in read(scene.paths, SESSION).records if isinstance(one, TurnAccepted)
    ]
    assert (accepted.attachments, accepted.local) == (turn.attachments, turn.local)


async def test_a_known_turn_id_stores_nothing_again(scene: Scene) -> None:
    async with scene.hub() as hub, scene.worker():
        await scene.opened(hub)
        for _ in range(2):
            await hub.ask(LOCAL, "session/prompt", brings("t1", NOTE))
        assert len(list((scene.paths.attachments / SESSION).iterdir())) == 1


async def test_files_alone_give_a_session_its_title(scene: Scene) -> None:
    async with scene.hub() as hub, scene.worker():
        await scene.opened(hub)
        await hub.ask(LOCAL, "session/prompt", brings("t1", IMAGE, text=""))
        assert (await hub.event("title"))["title"] == "a b.png"


async def test_files_that_cannot_be_stored_are_said_and_the_id_may_be_sent_again(
    scene: Scene,
) -> None:
    scene.paths.attachments.write_text("in the way")
    async with scene.hub() as hub, scene.worker():
        await scene.opened(hub)
        refused = await hub.ask(LOCAL, "session/prompt", brings("t1", NOTE))
        assert refused == {
            "code": -32603,
            "message": "the files of the prompt could not be stored (not a directory); "
            "free some space, then send it again",
            "data": {"reason": "store"},
        }
        scene.paths.attachments.unlink()
        done = await hub.ask(LOCAL, "session/prompt", brings("t1", NOTE))
        assert done["stopReason"] == "end_turn"


async def test_what_was_brought_is_there_for_a_turn_that_an_earlier_life_left(scene: Scene) -> None:
    brought = [Attachment("n.md", "text/markdown", 1, "1-n.md", "text")]
    journal = Journal.create(scene.paths, SESSION)
    root = str(scene.project)
    journal.append(Created(session_id=SESSION, root=root, mode="edit", model="m"))
    journal.append(TurnAccepted(turn_id="t1", text="see", attachments=brought, local=True))
    journal.close()
    async with scene.hub() as hub, scene.worker(new=False):
        await hub.event("done")
        assert scene.bench.engine.turns == [
            TurnInput(turn_id="t1", text="see", attachments=brought, local=True)
        ]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (CommandResult("compact", summary="all"), '"command":"compact","summary":"all"'),
        (
            CommandResult("undo", undone=Undone("do it", ["a"])),
            '"command":"undo","undone":{"prompt":"do it","files":["a"]}',
        ),
        (CommandResult("undo", undone=None), '"command":"undo","undone":null'),
        (CommandResult("plan", mode="plan"), '"command":"plan","mode":"plan"'),
        (CommandResult("review", message="nothing"), '"command":"review","message":"nothing"'),
        (CommandResult("port"), '"command":"port"'),
    ],
)
@pytest.mark.spec(
    "result: command", "result: summary", "result: undone", "result: mode", "result: message"
)
async def test_what_a_command_did_is_in_the_answer_and_in_that_of_a_later_life(
    scene: Scene, command: CommandResult, said: str
) -> None:
    async def run(_engine: ScriptedEngine, _turn: TurnInput) -> TurnOutcome:
        return TurnOutcome(stop_reason="end_turn", command=command)

    scene.bench.script = run
    expected = f'{{"jsonrpc":"2.0","id":"c%d","result":{{"stopReason":"end_turn","_meta":{{"lembas":{{"turnId":"t1",{said}}}}}}}}}'
    async with scene.hub() as hub, scene.worker():
        await scene.opened(hub)
        number = hub.request(LOCAL, "session/prompt", prompt("/it", "t1"))
        answer = await hub.frame(lambda one: one.request == number)
        assert answer.payload.decode() == expected % number
    async with scene.hub() as hub, scene.worker(new=False):
        await hub.until(lambda: hub.peer)
        number = hub.request(LOCAL, "session/prompt", prompt("/it", "t1"), session=SESSION)
        answer = await hub.frame(lambda one: one.request == number)
        assert answer.payload.decode() == expected % number


async def test_a_command_that_sets_the_mode_does_so_for_the_session(scene: Scene) -> None:
    async def plan(engine: ScriptedEngine, _turn: TurnInput) -> TurnOutcome:
        engine.host.command_mode("plan")
        return scripted_engine.ENDED

    scene.bench.script = plan
    async with scene.hub() as hub, scene.worker():
        await scene.opened(hub)
        await hub.ask(LOCAL, "session/prompt", prompt("/plan", "t1"))
        assert (await hub.event("mode"))["mode"] == "plan"
        assert (await hub.event("setting")) == {"type": "setting", "key": "mode", "value": "plan"}
        assert scene.bench.engine.modes == ["manual", "plan"]
        assert scene.bench.engine.host.widest_mode == "plan"
    records = read(scene.paths, SESSION).records
    assert [one.mode for one in records if isinstance(one, ModeSet)] == ["plan"]


def updates(hub: FakeHub) -> list[tuple[int, list[str]]]:
    """Whom the commands were told to, and their names."""
    told = []
    for frame in hub.frames:
        message = msgspec.json.decode(frame.payload) if frame.kind == kinds.RPC else {}
        update = message.get("params", {}).get("update", {})
        if update.get("sessionUpdate") == "available_commands_update":
            names = [one["name"] for one in update["availableCommands"]]
            told.append((frame.client, names))
    return told


async def test_commands_are_told_to_each_client_and_to_all_when_a_turn_has_changed_them(
    scene: Scene,
) -> None:
    async def write(engine: ScriptedEngine, turn: TurnInput) -> TurnOutcome:
        if turn.text == "write":
            engine.available = [*engine.available, AvailableCommand("port", "Port it")]
        return scripted_engine.ENDED

    scene.bench.script = write
    async with scene.hub() as hub, scene.worker():
        await scene.opened(hub)
        await hub.until(lambda: updates(hub) == [(LOCAL, ["compact"])])
        answers = [frame.request for frame in hub.frames if frame.request]
        assert answers == []  # the answer of session/new was taken before: it came first
        hub.attach(LINK, protocol=3)
        await hub.until(lambda: len(updates(hub)) == 2)
        await hub.ask(LOCAL, "session/prompt", prompt("look", "t1"))
        await hub.ask(LOCAL, "session/prompt", prompt("write", "t2"))
        await hub.until(lambda: len(updates(hub)) == 4)
        assert updates(hub)[1:] == [
            (LINK, ["compact"]),
            (LOCAL, ["compact", "port"]),
            (LINK, ["compact", "port"]),
        ]
