"""Sessions over the link, word for word: made, configured, named, taken back, deleted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from lembasd.device import credentials
from lembasd.device.credentials import Credentials
from tests.support.daemon import Install, gone
from tests.support.fake_instance import TOKEN, Answer, Device, FakeInstance
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.text_link import TextLink, reply

pytestmark = [pytest.mark.process, pytest.mark.timeout(90)]
CHAT = "/v1/chat/completions"
MODELS: list[dict[str, Any]] = [
    {"id": "deepseek/flash", "kind": "chat", "efforts": ["low", "high"], "default_effort": "low"},
    {"id": "plain"},
    {"id": "words", "kind": "embedding"},
]
UNKNOWN = '{"code":-32602,"message":"unknown session"}'


class Scene:
    def __init__(self, install: Install, instance: FakeInstance) -> None:
        self.install = install
        self.instance = instance
        self.link: TextLink

    async def new(self, meta: str = '{"lembas_model":"plain"}') -> str:
        params = f'{{"cwd":"{self.install.project}","mcpServers":[],"_meta":{meta}}}'
        return str((await self.link.value("session/new", params))["sessionId"])

    def prompt(self, session: str, turn_id: str, lembas: str = "") -> int:
        params = (
            f'{{"sessionId":"{session}","prompt":[{{"type":"text","text":"say {turn_id}"}}],'
            f'"_meta":{{"lembas":{{"turnId":"{turn_id}"{lembas}}}}}}}'
        )
        return self.link.send("session/prompt", params)

    async def turn(self, session: str, turn_id: str, lembas: str = "") -> str:
        return await self.link.answer(self.prompt(session, turn_id, lembas))

    def messages(self, number: int = -1) -> list[dict[str, Any]]:
        """What the model was sent in its last request."""
        asked = [one for one in self.instance.requests if one.path == CHAT]
        found: list[dict[str, Any]] = msgspec.json.decode(asked[number].body)["messages"]
        return found


@asynccontextmanager
async def scene(install: Install) -> AsyncIterator[Scene]:
    async with FakeInstance() as instance:
        instance.instead["/v1/models"] = Answer.of({"data": MODELS})
        instance.instead[CHAT] = reply("done")
        install.configure(max_mode="edit")
        install.paths.make()
        login = Credentials(
            server=instance.url,
            token=TOKEN,
            default_model="plain",
            connection="moria",
            instance_name="Moria",
        )
        credentials.store(install.paths.credentials_file, login)
        await install.start_hub()
        one = Scene(install, instance)
        one.link = await TextLink.of(instance)
        yield one
        await install.stop()


@pytest.fixture
async def install(short_tmp: Any) -> AsyncIterator[Install]:
    async with Install(short_tmp) as one:
        yield one


@pytest.mark.spec(
    "session/new: lembas_model that is not served is -32602",
    "session/new: a level that is not offered becomes the start level",
    "session/new: older names of a model",
)
async def test_a_session_has_the_model_as_it_is_served_and_a_level_that_it_offers(
    install: Install,
) -> None:
    async with scene(install) as one:
        cwd = install.project
        for name in ("deepseek/flash", "moria/deepseek/flash", "moria/flash"):
            made = await one.link.ask(
                "session/new",
                f'{{"cwd":"{cwd}","_meta":{{"mode":"auto","lembas_model":"{name}","effort":"max"}}}}',
            )
            assert made.endswith(
                ',"_meta":{"lembas":{"model":"deepseek/flash","mode":"edit","effort":"low","instance":true}}}'
            )
        assert await one.link.ask(
            "session/new", f'{{"cwd":"{cwd}","_meta":{{"lembas_model":"flash"}}}}'
        ) == (
            '{"code":-32602,"message":"Moria serves no model \'flash\' to this device; choose another",'
            '"data":{"reason":"model"}}'
        )
        assert await one.link.ask(
            "session/new", f'{{"cwd":"{cwd}","_meta":{{"lembas_model":"words"}}}}'
        ) == (
            '{"code":-32602,"message":"words holds no conversation, it is a model for embedding; choose another",'
            '"data":{"reason":"model"}}'
        )


@pytest.mark.spec("_lembas/configure", "configure: a level")
async def test_configure_changes_model_and_effort_between_prompts_and_tells_of_it(
    install: Install,
) -> None:
    async with scene(install) as one:
        session = await one.new()
        await one.turn(session, "t1")

        async def configure(fields: str) -> str:
            return await one.link.ask("_lembas/configure", f'{{"sessionId":"{session}"{fields}}}')

        assert await configure("") == '{"model":"plain","effort":"default"}'
        assert (
            await configure(',"model":"deepseek/flash","effort":"high"')
            == '{"model":"deepseek/flash","effort":"high"}'
        )
        assert await one.link.said('"type":"model"') == (
            f'{{"jsonrpc":"2.0","method":"_lembas/event","params":{{"sessionId":"{session}","event":'
            '{"type":"model","ref":"deepseek/flash","effort":"high","connection":"moria","instance":true}}}'
        )
        assert await configure(',"effort":"wild"') == '{"model":"deepseek/flash","effort":"low"}'
        refused = msgspec.json.decode(await configure(',"model":"none"'))
        assert (refused["code"], refused["data"]) == (-32602, {"reason": "model"})
        await one.turn(session, "t2")
        asked = [found for found in one.instance.requests if found.path == CHAT]
        bodies = [msgspec.json.decode(found.body) for found in asked]
        assert [(body["model"], body.get("reasoning_effort")) for body in bodies] == [
            ("plain", None),
            ("deepseek/flash", "low"),
        ]
        one.instance.mute.add(CHAT)
        running = one.prompt(session, "t3")
        await one.link.said('"state":"start","turnId":"t3"')
        refused = msgspec.json.decode(await configure(',"effort":"high"'))
        assert refused["code"] == -32602
        one.link.device.send(
            f'{{"jsonrpc":"2.0","method":"session/cancel","params":{{"sessionId":"{session}"}}}}'.encode()
        )
        assert '"stopReason":"cancelled"' in await one.link.answer(running)


@pytest.mark.spec("_lembas/session/title")
async def test_a_title_is_one_line_of_at_most_200_characters(install: Install) -> None:
    async with scene(install) as one:
        session = await one.new()

        async def title(text: str) -> str:
            return await one.link.ask(
                "_lembas/session/title", f'{{"sessionId":"{session}","title":"{text}"}}'
            )

        assert await title("  Two\\n words ") == '{"title":"Two words"}'
        assert '"event":{"type":"title","id":"' in await one.link.said('"title":"Two words"')
        assert await title("x" * 201) == (
            '{"code":-32602,"message":"a title has at most 200 characters; send a shorter one"}'
        )
        assert await title(" ") == (
            '{"code":-32602,"message":"the title is empty; write something"}'
        )
        assert '"code":-32602' in await title("x" * 10_000_000)
        status = await one.link.ask("_lembas/session/status", f'{{"sessionId":"{session}"}}')
        assert status == (
            f'{{"sessionId":"{session}","exists":true,"held":"here","busy":false,"title":"Two words","queued":[]}}'
        )


@pytest.mark.spec(
    "session/new: system_prompt",
    "session/new: personalization",
    "session/new: prototypes",
    "session/new: library",
    "session/prompt: a Context that replaces the older",
)
async def test_the_clients_context_reaches_the_model_and_a_change_is_a_note(
    install: Install,
) -> None:
    async with scene(install) as one:
        session = await one.new(
            '{"lembas_model":"plain","lembas":{"system_prompt":"Speak of bread.",'
            '"personalization":{"personality":"brief","personality_custom":"","instructions":"Call me Sam."},'
            '"library":{"bases":[{"id":"b1","name":"Recipes"}]},'
            '"prototypes":{"offered":true,"sources":"It may load nothing."}}}'
        )
        await one.turn(session, "t1")
        system = one.messages()[0]["content"]
        for part in (
            "# How you speak\n\nAnswer in as few words",
            "# What the person wants of you\n\nCall me Sam.",
            "looks in: Recipes.",
            "- It may load nothing.\n",
        ):
            assert part in system
        assert system.endswith("## Instructions from Moria\n\nSpeak of bread.\n")
        await one.turn(session, "t2", ',"system_prompt":"Speak of tea.","personalization":null')
        again = one.messages()
        assert again[0]["content"] == system
        note = again[-1]["content"]
        assert "## Instructions from Moria\n\nSpeak of tea." in note
        assert "What was said of how you speak no longer holds." in note
        assert note.startswith("<session-note>")
        await one.turn(session, "t3", ',"system_prompt":"Speak of tea."')
        assert one.messages()[-1]["content"] == "say t3"


@pytest.mark.spec("_lembas/session/rewind")
async def test_a_rewind_takes_turns_back_for_model_and_history_and_outlives_the_process(
    install: Install,
) -> None:
    async with scene(install) as one:
        session = await one.new()
        for turn in ("t1", "t2", "t3"):
            await one.turn(session, turn)

        async def rewind(turn: str) -> str:
            return await one.link.ask(
                "_lembas/session/rewind", f'{{"sessionId":"{session}","turnId":"{turn}"}}'
            )

        assert await rewind("t9") == (
            '{"code":-32602,"message":"the session has no such turn; name one of its history"}'
        )
        assert await rewind("t2") == '{"reverted":2}'
        assert await rewind("t2") == '{"reverted":0}'
        assert await rewind("t3") == '{"reverted":0}'
        await one.turn(session, "t4")
        said = [message["content"] for message in one.messages()[1:]]
        assert said == ["say t1", "done", "say t4"]
        await install.stop()
        await install.start_hub()
        one.link = await TextLink.of(one.instance)
        history = await one.link.value("_lembas/session/history", f'{{"sessionId":"{session}"}}')
        users = [turn["text"] for turn in history["turns"] if turn["role"] == "user"]
        assert users == ["say t1", "say t4"]
        # its answer is kept all the same: no id runs twice
        assert '"stopReason":"end_turn"' in await one.turn(session, "t2")
        await one.turn(session, "t5")
        said = [message["content"] for message in one.messages()[1:]]
        assert said == ["say t1", "done", "say t4", "done", "say t5"]


@pytest.mark.spec("rewind: refused while the session works")
async def test_a_turn_that_runs_is_not_taken_back(install: Install) -> None:
    async with scene(install) as one:
        session = await one.new()
        one.instance.mute.add(CHAT)
        running = one.prompt(session, "t1")
        await one.link.said('"state":"start","turnId":"t1"')
        params = f'{{"sessionId":"{session}","turnId":"t1"}}'
        assert await one.link.ask("_lembas/session/rewind", params) == (
            '{"code":-32602,"message":"the session works; ask again when it is done"}'
        )
        deleted = one.link.send("_lembas/session/delete", f'{{"sessionId":"{session}"}}')
        assert await one.link.answer(deleted) == '{"deleted":true}'
        assert '"stopReason":"cancelled"' in await one.link.answer(running)


@pytest.mark.spec("_lembas/session/delete")
async def test_delete_stops_what_runs_and_leaves_nothing(install: Install) -> None:
    async with scene(install) as one:
        session = await one.new()
        await one.turn(session, "t1")
        (install.paths.attachments / session).mkdir(parents=True)
        (install.paths.attachments / session / "a.png").write_bytes(b"x")
        one.instance.mute.add(CHAT)
        running, waiting = one.prompt(session, "t2"), one.prompt(session, "t3")
        await one.link.said('"state":"start","turnId":"t2"')
        worker = (await install.status())["workers"][0]["pid"]
        name = f'{{"sessionId":"{session}"}}'
        first = one.link.send("_lembas/session/delete", name)
        second = one.link.send("_lembas/session/delete", name)
        late = one.prompt(session, "t4")
        assert await one.link.answer(first) == '{"deleted":true}'
        assert await one.link.answer(second) in ('{"deleted":true}', '{"deleted":false}')
        assert '"stopReason":"cancelled"' in await one.link.answer(running)
        assert '"stopReason":"cancelled"' in await one.link.answer(waiting)
        assert await one.link.answer(late) == UNKNOWN
        await gone(worker)
        assert list(install.paths.state.rglob(f"*{session}*")) == []
        assert await one.link.ask("_lembas/session/delete", name) == '{"deleted":false}'
        assert await one.turn(session, "t5") == UNKNOWN
        assert '"exists":false' in await one.link.ask("_lembas/session/status", name)


@pytest.mark.spec("delete: which may be")
async def test_a_session_nobody_has_open_is_deleted_where_the_instance_may(
    install: Install,
) -> None:
    async with scene(install) as one:
        given = await one.new()
        local = await install.client()
        await local.initialize()
        made = {}
        for where in (install.project, install.base / "h"):
            params = {"cwd": str(where), "mcpServers": []}
            made[where] = (await local.ask("session/new", params))["sessionId"]
        local.hub.close()
        install.configure(roots=[str(install.project)], max_mode="edit")
        await TextLink.of(one.instance)  # it says its new limits
        await install.stop()
        await install.start_hub()
        one.link = await TextLink.of(one.instance)

        async def delete(session: str) -> str:
            return await one.link.ask("_lembas/session/delete", f'{{"sessionId":"{session}"}}')

        assert await delete(given) == '{"deleted":true}'
        assert await delete(made[install.project]) == '{"deleted":true}'
        refused = msgspec.json.decode(await delete(made[install.base / "h"]))
        assert (refused["code"], refused["data"]) == (-32602, {"reason": "folder"})


@pytest.mark.spec("_lembas/session/deleted", "deleted: kept while no link is up")
async def test_a_delete_of_this_machine_is_told_on_the_link_now_or_after_the_next_initialize(
    install: Install,
) -> None:
    async with scene(install) as one:
        first, second, third = [await one.new() for _ in range(3)]

        def told(session: str) -> str:
            return (
                '{"jsonrpc":"2.0","method":"_lembas/session/deleted","params":'
                f'{{"sessionId":"{session}"}}}}'
            )

        done = await install.run("sessions", "delete", first)
        assert (done.returncode, done.stdout.decode()) == (0, f"{first} is deleted\n")
        assert await one.link.said("_lembas/session/deleted") == told(first)
        await install.kill_hub()
        # its worker is there without a hub: it is ended
        done = await install.run("sessions", "delete", second, third, "--json")
        assert done.returncode == 0, done.stderr
        await install.start_hub()
        one.link = await TextLink.of(one.instance)
        news = [await one.link.said("_lembas/session/deleted") for _ in range(2)]
        assert sorted(news) == sorted([told(second), told(third)])
        assert list((install.paths.outbox / "deleted").iterdir()) == []
        listed = await install.run("sessions", "list", "--json")
        assert msgspec.json.decode(listed.stdout) == {"sessions": []}
        again = await install.run("sessions", "delete", first)
        assert again.returncode == 1


async def test_a_local_session_is_not_followed_by_naming_it(install: Install) -> None:
    async with scene(install) as one:
        local = await install.client()
        await local.initialize()
        outside = {"cwd": str(install.home), "mcpServers": []}
        session = (await local.ask("session/new", outside))["sessionId"]
        install.configure(roots=[str(install.project)], max_mode="edit")
        link = await TextLink.of(one.instance)
        one.link = link
        for method, more in (
            ("session/prompt", ',"prompt":[{"type":"text","text":"x"}]'),
            ("session/set_mode", ',"modeId":"auto"'),
            ("_lembas/session/title", ',"title":"mine"'),
            ("_lembas/session/rewind", ',"turnId":"t1"'),
            ("_lembas/session/compact", ""),
            ("_lembas/configure", ""),
        ):
            answer = await link.ask(method, f'{{"sessionId":"{session}"{more}}}')
            assert '"code":-32602' in answer
            assert '"reason":"folder"' in answer
        done = await local.ask(
            "session/prompt",
            {"sessionId": session, "prompt": [{"type": "text", "text": "secret"}]},
        )
        assert done["stopReason"] == "end_turn"
        await link.ask("_lembas/session/status", f'{{"sessionId":"{session}"}}')
        assert not [text for text in link.told if session in text]
        local.hub.close()


@pytest.mark.spec("status: reattaching by the state of a turn")
async def test_on_a_new_link_a_turn_is_followed_awaited_imported_or_sent_by_what_status_says(
    install: Install, model: ScriptedModel
) -> None:
    hold = asyncio.Event()
    model.script(Reply(text="first", hold=hold), Reply(text="second"))
    async with scene(install) as one:
        one.instance.model_port = model.port
        session = await one.new()
        named = f'{{"sessionId":"{session}"}}'
        for turn_id in ("t1", "t2"):
            one.prompt(session, turn_id)
        await model.asked.get()
        await one.link.ask("_lembas/session/status", named)  # both prompts were read before it
        assert isinstance(one.link.device, Device)
        one.link.device.drop()
        one.link = await TextLink.of(one.instance)
        assert await one.link.ask("_lembas/session/status", named) == (
            f'{{"sessionId":"{session}","exists":true,"held":"here","busy":true,"title":"say t1",'
            '"queued":["t2"],"turnId":"t1"}'
        )
        hold.set()
        # running: followed to its end; queued: awaited, and followed when it starts
        for part in ("start", "end"):
            assert session in await one.link.said(f'"type":"task","state":"{part}","turnId":"t2"')
        status = await one.link.value("_lembas/session/status", named)
        assert (status["busy"], status["queued"], status["lastTurnId"]) == (False, [], "t2")
        # done: it is in the history, and its id gives its answer without running again
        turns = (await one.link.value("_lembas/session/history", named))["turns"]
        assert [(turn.get("turnId"), turn["text"]) for turn in turns] == [
            ("t1", "say t1"),
            (None, "first"),
            ("t2", "say t2"),
            (None, "second"),
        ]
        for turn_id in ("t2", "t1"):
            answer = await one.turn(session, turn_id)
            assert answer == (
                f'{{"stopReason":"end_turn","_meta":{{"lembas":{{"turnId":"{turn_id}"}}}}}}'
            )
        assert len(model.requests) == 2
        # unknown: it is sent, and runs
        assert '"stopReason":"end_turn"' in await one.turn(session, "t3")
        assert len(model.requests) == 3


@pytest.mark.spec("personalization in sessions")
async def test_a_client_that_says_null_has_the_accounts_personalization_used(
    install: Install,
) -> None:
    async with scene(install) as one:
        one.instance.personalization = {
            "enabled": True,
            "available": True,
            "personality": "brief",
            "personality_custom": "",
            "instructions": "Call me Sam.",
        }
        session = await one.new('{"lembas_model":"plain","lembas":{"personalization":null}}')
        # opening a session asks for nothing: it is asked for with the first turn
        assert one.instance.asked_so_far("/v1/me/personalization") == 0
        for turn_id in ("t1", "t2"):
            await one.turn(session, turn_id)
        asked = await one.instance.asked("/v1/me/personalization")
        assert (asked.headers["authorization"], one.instance.asked_so_far(asked.path)) == (
            f"Bearer {TOKEN}",
            1,
        )
        system = one.messages()[0]["content"]
        assert "# How you speak\n\nAnswer in as few words" in system
        assert "# What the person wants of you\n\nCall me Sam." in system
