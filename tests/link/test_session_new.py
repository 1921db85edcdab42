"""link.md, "session/new"."""

import os
import signal
from typing import Any

import msgspec
import pytest

from tests.support.bare_client import Refused
from tests.support.daemon import gone as gone_process
from tests.support.linked_hub import LinkedHub, named
from tests.support.scripted_model import Reply
from tests.support.sessions import worker_pid

MODES = {
    "plan": '{"id":"plan","name":"Plan","description":"Reads and plans; changes nothing"}',
    "manual": '{"id":"manual","name":"Manual","description":"Asks before each change and each command"}',
    "edit": '{"id":"edit","name":"Edit","description":"Edits files of the project; asks before each command"}',
    "auto": '{"id":"auto","name":"Auto","description":"Asks nothing, within the floor"}',
}


def new(cwd: object, meta: str = "{}") -> str:
    return f'{{"cwd":"{cwd}","mcpServers":[],"_meta":{meta}}}'


def result(
    session: str, mode: str, ceiling: str, model: str = "plain", level: str = "default"
) -> str:
    offered = list(MODES)[: list(MODES).index(ceiling) + 1]
    return (
        f'{{"sessionId":"{session}","modes":{{"currentModeId":"{mode}",'
        f'"availableModes":[{",".join(MODES[one] for one in offered)}]}},'
        f'"_meta":{{"lembas":{{"model":"{model}","mode":"{mode}","effort":"{level}","instance":true}}}}}}'
    )


def refusal(message: str, reason: str) -> str:
    return f'{{"code":-32602,"message":{msgspec.json.encode(message).decode()},"data":{{"reason":"{reason}"}}}}'


def session_of(text: str) -> str:
    return str(msgspec.json.decode(text)["sessionId"])


@pytest.mark.spec(
    "session/new: the result's modes",
    "session/new: the result's model, mode, effort",
    "session/new: the result's instance",
    "session/new: mode is lowered",
    "session/new: ids are ses_",
)
async def test_the_result_has_id_modes_model_and_level_and_the_mode_is_lowered(
    own_hub: LinkedHub,
) -> None:
    for ceiling, asked, mode in (
        ("auto", "auto", "auto"),
        ("edit", "auto", "edit"),
        ("edit", "plan", "plan"),
        ("plan", "auto", "plan"),
    ):
        if own_hub.client.hello["limits"]["max_mode"] != ceiling:
            await own_hub.configured(max_mode=ceiling)
        made = await own_hub.client.ask(
            "session/new", new(own_hub.project, f'{{"mode":"{asked}"}}')
        )
        session = session_of(made)
        assert session.startswith("ses_")
        assert made == result(session, mode, ceiling)
    unknown = await own_hub.client.ask("session/new", new(own_hub.project, '{"mode":"wild"}'))
    assert unknown == (
        '{"code":-32602,"message":"\'wild\' is no mode; choose one of plan, manual, edit, auto"}'
    )


@pytest.mark.spec("commands: told after session/new")
async def test_what_follows_the_answer_is_the_session_then_its_commands(hub: LinkedHub) -> None:
    session = await hub.new(mode="manual")
    told = [await hub.client.said(session) for _ in range(2)]
    assert told[0].text == (
        f'{{"jsonrpc":"2.0","method":"_lembas/event","params":{{"sessionId":"{session}","event":'
        f'{{"type":"session","title":"","root":"{hub.project}","model":"plain","mode":"manual","effort":"default"}}}}}}'
    )
    assert '"sessionUpdate":"available_commands_update"' in told[1].text


async def test_all_but_cwd_may_be_left_out(hub: LinkedHub) -> None:
    made = await hub.client.value("session/new", f'{{"cwd":"{hub.project}"}}')
    hub.client.judge.faults.clear()  # ACP wants mcpServers
    assert made["_meta"]["lembas"]["model"] == "plain"
    for params in ("{}", '{"cwd":7}', '{"cwd":null}'):
        with pytest.raises(Refused) as refused:
            await hub.client.value("session/new", params)
        assert refused.value.code == -32602
    servers = '{"cwd":"/","mcpServers":[{"name":"s","command":"/bin/true","args":[],"env":[]}]}'
    assert await hub.client.ask("session/new", servers) == (
        '{"code":-32602,"message":"MCP servers of a client are not started here; send an empty mcpServers"}'
    )


@pytest.mark.spec("session/new: cwd must be inside the roots", "session/new: cwd is absolute")
async def test_a_directory_is_inside_the_roots_with_links_followed(own_hub: LinkedHub) -> None:
    project, base = own_hub.project, own_hub.install.base
    (project / "out").symlink_to(base / "h")
    (project / "in").mkdir()
    (project / "file").write_text("")
    await own_hub.configured(roots=[str(project)])
    outside = (
        f"is outside the folders this device allows; add it there with `lembas remote add {base}"
    )
    for cwd, message in (
        (base, f"{base} {outside}`"),
        (project / "out", f"{base}/h {outside}/h`"),
        (f"{project}/../h", f"{base}/h {outside}/h`"),
        ("p", "'p' is no absolute path; name a directory from / on"),
        ("~", "'~' is no absolute path; name a directory from / on"),
        (project / "none", f"{project}/none is not there; make it, or name another"),
        (project / "file", f"{project}/file is not a directory; name one"),
    ):
        answer = await own_hub.client.ask("session/new", new(cwd))
        assert answer == refusal(message, "folder"), cwd
    assert session_of(await own_hub.client.ask("session/new", new(project / "in")))


@pytest.mark.spec("session/new: cwd must be trusted", "directories: agrees with session/new")
async def test_a_project_is_trusted_and_directories_says_the_same(own_hub: LinkedHub) -> None:
    project = own_hub.project
    (project / "sub").mkdir()
    client = await own_hub.configured(require_trust=True)
    message = f"{project} is not a trusted project; trust it on the device with `lembas trust add {project}`"
    assert await client.ask("session/new", new(project)) == refusal(message, "trust")
    listed = await client.value("_lembas/directories", f'{{"path":"{project}"}}')
    assert (listed["accepted"], listed["reason"]) == (False, message)
    assert (await own_hub.install.run("trust", "add", str(project))).returncode == 0
    for cwd in (project, project / "sub"):
        assert session_of(await client.ask("session/new", new(cwd)))
        assert (await client.value("_lembas/directories", f'{{"path":"{cwd}"}}'))["accepted"]


@pytest.mark.spec(
    "session/new: lembas_model",
    "session/new: model",
    "session/new: effort",
    "session/new: lembas_model that is not served is -32602",
    "session/new: a level that is not offered becomes the start level",
    "session/new: older names of a model",
    "session/new: off where the model has a switch",
)
async def test_a_session_has_the_model_as_it_is_served_and_a_level_that_it_offers(
    hub: LinkedHub,
) -> None:
    for meta, model, level in (
        ('"lembas_model":"deepseek/flash","effort":"high"', "deepseek/flash", "high"),
        ('"lembas_model":"deepseek/flash"', "deepseek/flash", "low"),
        ('"lembas_model":"deepseek/flash","effort":"max"', "deepseek/flash", "low"),
        ('"lembas_model":"moria/deepseek/flash"', "deepseek/flash", "low"),
        ('"lembas_model":"moria/flash"', "deepseek/flash", "low"),
        ('"model":"deepseek/flash"', "deepseek/flash", "low"),
        ('"lembas_model":"plain","model":"deepseek/flash"', "plain", "default"),
        ('"lembas_model":"plain","effort":"high"', "plain", "default"),
        ('"lembas_model":"eyes","effort":"off"', "eyes", "off"),
    ):
        asked = new(hub.project, f'{{"mode":"edit",{meta}}}')
        made = await hub.client.ask("session/new", asked)
        assert made == result(session_of(made), "edit", "auto", model, level), meta
    for name, message in (
        ("flash", "Moria serves no model 'flash' to this device; choose another"),
        ("words", "words holds no conversation, it is a model for embedding; choose another"),
    ):
        for key in ("lembas_model", "model"):
            answer = await hub.client.ask("session/new", new(hub.project, f'{{"{key}":"{name}"}}'))
            assert answer == refusal(message, "model")


@pytest.mark.spec(
    "session/new: the chat's model and no other, its failure fails the turn",
    "turn ids: an error is kept and repeated",
)
async def test_a_turn_that_loses_the_model_fails_and_nothing_falls_back(
    own_hub: LinkedHub,
) -> None:
    hub = own_hub
    session = await hub.new(model="deepseek/flash")
    gone = Reply(status=404, raw=b'{"error":{"message":"no model deepseek/flash"}}')
    hub.model.script(
        Reply(text="I look.", calls=[("bash", {"command": "echo a"})]),
        *[gone] * 20,
    )
    with pytest.raises(Refused) as refused:
        await hub.client.result(hub.prompt(session, "t1"))
    assert (refused.value.code, refused.value.data["reason"]) == (-32603, "model")
    error = await hub.client.event(session, "error")
    assert (error["message"], error["reason"]) == (refused.value.message, "model")
    assert {body["model"] for body in hub.model.requests} == {"deepseek/flash"}
    assert [one for one in hub.client.told if '"type":"model"' in one.text] == []

    # the same id is answered with the same error, and another turn is asked of the same model again
    asked = len(hub.model.requests)
    with pytest.raises(Refused) as again:
        await hub.client.result(hub.prompt(session, "t1"))
    assert again.value.message == refused.value.message
    assert len(hub.model.requests) == asked
    hub.model.replies.clear()
    assert '"stopReason":"end_turn"' in await hub.turn(session, "t2")
    assert {body["model"] for body in hub.model.requests} == {"deepseek/flash"}

    # one that is served no more stays the session's in its next life
    hub.instance.models = [{"id": "plain"}]
    pid = await worker_pid(hub.install, session)
    os.kill(pid, signal.SIGKILL)
    await gone_process(pid)
    hub.model.script(gone)
    with pytest.raises(Refused) as refused:
        await hub.client.result(hub.prompt(session, "t3"))
    assert refused.value.data["reason"] == "model"
    assert {body["model"] for body in hub.model.requests} == {"deepseek/flash"}
    assert await hub.client.value("_lembas/configure", named(session, model="plain"))


@pytest.mark.spec(
    "session/new: system_prompt",
    "session/new: personalization",
    "session/new: prototypes",
    "session/new: library",
    "session/new: an empty system_prompt is none, and no bases are the whole library",
    "session/prompt: a Context that replaces the older",
)
async def test_the_clients_context_reaches_the_model_and_a_change_is_a_note(
    hub: LinkedHub,
) -> None:
    context: dict[str, Any] = {
        "system_prompt": "Speak of bread.",
        "personalization": {
            "personality": "brief",
            "personality_custom": "",
            "instructions": "Call me Sam.",
        },
        "library": {"bases": [{"id": "b1", "name": "Recipes"}]},
        "prototypes": {"offered": True, "sources": "It may load nothing."},
    }
    session = await hub.new(lembas=context)
    await hub.turn(session, "t1")
    system = hub.messages()[0]["content"]
    for part in (
        "# How you speak\n\nAnswer in as few words",
        "# What the person wants of you\n\nCall me Sam.",
        "looks in: Recipes.",
        "- It may load nothing.\n",
    ):
        assert part in system
    assert system.endswith("## Instructions from Moria\n\nSpeak of bread.\n")
    await hub.turn(session, "t2", system_prompt="Speak of tea.", personalization=None)
    again = hub.messages()
    assert again[0]["content"] == system
    note = again[-1]["content"]
    assert "## Instructions from Moria\n\nSpeak of tea." in note
    assert "What was said of how you speak no longer holds." in note
    assert note.startswith("<session-note>")
    await hub.turn(session, "t3", system_prompt="Speak of tea.")
    assert hub.messages()[-1]["content"] == "say t3"
    plain = await hub.new(
        lembas={
            "system_prompt": "",
            "prototypes": {"offered": False, "sources": "It may load nothing."},
            "library": {"bases": []},
        }
    )
    await hub.turn(plain, "t1")
    system = hub.messages()[0]["content"]
    for part in ("Instructions from", "It may load nothing.", "looks in: Recipes"):
        assert part not in system


@pytest.mark.spec(
    "session/new: an id lasts",
    "session/new: what is opened by its name is judged as a new one",
    "commands: told after a session is opened from the store",
    "limits: judged at each request",
)
async def test_a_session_outlives_its_process_and_is_opened_by_its_name(
    own_hub: LinkedHub,
) -> None:
    hub = own_hub
    session = await hub.new(mode="plan", model="deepseek/flash")
    await hub.turn(session, "t1")
    await hub.install.stop()
    await hub.install.start_hub()
    client = await hub.linked()
    assert '"stopReason":"end_turn"' in await hub.turn(session, "t2")
    opened = await client.event(session, "session")
    assert opened == {
        "type": "session",
        "title": "say t1",
        "root": str(hub.project),
        "model": "deepseek/flash",
        "mode": "plan",
        "effort": "low",
    }
    await client.update(session, "available_commands_update")
    # under the rules of session/new
    client = await hub.configured(roots=[str(hub.install.home)])
    for method, more in (
        ("session/prompt", {"prompt": [{"type": "text", "text": "x"}]}),
        ("session/set_mode", {"modeId": "auto"}),
        ("_lembas/configure", {"effort": "high"}),
        ("_lembas/session/title", {"title": "mine"}),
    ):
        answer = await client.ask(method, named(session, **more))
        assert answer == refusal(
            f"{hub.project} is outside the folders this device allows; "
            f"add it there with `lembas remote add {hub.project}`",
            "folder",
        )


@pytest.mark.spec("sessions: one the client was not given is not told of to it")
async def test_a_session_of_this_machine_is_not_followed_by_naming_it(own_hub: LinkedHub) -> None:
    hub = own_hub
    local = await hub.install.client()
    await local.initialize()
    outside = {"cwd": str(hub.install.home), "mcpServers": []}
    session = (await local.ask("session/new", outside))["sessionId"]
    client = await hub.configured(roots=[str(hub.project)])
    for method, more in (
        ("session/prompt", {"prompt": [{"type": "text", "text": "x"}]}),
        ("session/set_mode", {"modeId": "auto"}),
        ("_lembas/session/title", {"title": "mine"}),
        ("_lembas/session/rewind", {"turnId": "t1"}),
        ("_lembas/session/compact", {}),
        ("_lembas/configure", {}),
        ("_lembas/steer", {"text": "x"}),
    ):
        answer = await client.ask(method, named(session, **more))
        assert '"code":-32602' in answer, method
        assert '"reason":"folder"' in answer or method == "_lembas/steer"
    prompt = [{"type": "text", "text": "secret"}]
    done = await local.ask("session/prompt", {"sessionId": session, "prompt": prompt})
    assert done["stopReason"] == "end_turn"
    await hub.status(session)
    assert not [one.text for one in client.told if session in one.text]
    local.hub.close()
