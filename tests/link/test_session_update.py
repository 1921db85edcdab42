"""link.md, "session/update"."""

import pytest

from tests.support.linked_hub import LinkedHub, linked_hub, named
from tests.support.scripted_model import Reply

BUILTINS = [
    ("compact", None),
    ("plan", "task"),
    ("undo", None),
    ("review", "head | <branch>"),
    ("changelog", "<since>"),
    ("init", None),
    ("continue", None),
]


@pytest.mark.spec(
    "update agent_message_chunk",
    "update agent_thought_chunk",
    "update tool_call",
    "update tool_call_update",
)
async def test_a_turn_is_told_in_acps_words(hub: LinkedHub) -> None:
    session = await hub.new()
    hub.model.script(
        Reply(text="ab", reasoning="hm", calls=[("bash", {"command": "echo one"})]),
        Reply(calls=[("read", {"path": "none"})]),
    )
    await hub.turn(session, "t1")
    await hub.client.update(session, "available_commands_update")
    told = [one for one in hub.client.told if one.method == "session/update"]
    start = (
        f'{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":'
    )
    texts = [one.text.removeprefix(start)[:-2] for one in told]
    ids = list(dict.fromkeys(one.params["update"].get("toolCallId") for one in told))
    bash, read = [one for one in ids if one]

    def chunk(kind: str, text: str) -> str:
        return f'{{"sessionUpdate":"{kind}","content":{{"type":"text","text":"{text}"}}}}'

    assert texts[:4] == [
        chunk("agent_thought_chunk", "hm"),
        chunk("agent_message_chunk", "a"),
        chunk("agent_message_chunk", "b"),
        (
            f'{{"sessionUpdate":"tool_call","toolCallId":"{bash}","title":"echo one","kind":"execute",'
            '"status":"in_progress","rawInput":{"command":"echo one"}}'
        ),
    ]
    content = '"content":[{"type":"content","content":{"type":"text","text":"one\\n"}}]'
    update = f'{{"sessionUpdate":"tool_call_update","toolCallId":"{bash}","status":'
    # what it says while it runs replaces what it said before
    looks = [one for one in texts if one.startswith(update)]
    assert looks[-1] == update + f'"completed",{content}}}'
    assert set(looks[:-1]) <= {update + f'"in_progress",{content}}}'}
    assert (
        f'{{"sessionUpdate":"tool_call","toolCallId":"{read}","title":"read none","kind":"read",'
        in (texts[-4])
    )
    failed = (
        f'{{"sessionUpdate":"tool_call_update","toolCallId":"{read}","status":"failed","content":['
    )
    assert texts[-3].startswith(failed)
    assert texts[-2:] == [chunk("agent_message_chunk", "do"), chunk("agent_message_chunk", "ne")]


@pytest.mark.spec("update current_mode_update")
async def test_a_change_of_the_mode_is_told(hub: LinkedHub) -> None:
    session = await hub.new()
    await hub.client.ask("session/set_mode", named(session, modeId="plan"))
    assert await hub.client.update(session, "current_mode_update") == {
        "sessionUpdate": "current_mode_update",
        "currentModeId": "plan",
    }


def command(name: str, hint: str | None, kind: str) -> dict[str, object]:
    hinted = {} if hint is None else {"input": {"hint": hint}}
    return {"name": name, **hinted, "_meta": {"lembas": {"kind": kind}}}


async def commands(hub: LinkedHub, session: str) -> list[dict[str, object]]:
    """The next set that is told, without the descriptions."""
    update = await hub.client.update(session, "available_commands_update")
    assert set(update) == {"sessionUpdate", "availableCommands"}
    assert all(one.pop("description") for one in update["availableCommands"])
    found: list[dict[str, object]] = update["availableCommands"]
    return found


@pytest.mark.spec(
    "update available_commands_update",
    "commands: told after a turn that changed the set",
    "commands: told to a new link",
    "commands: the built-ins, then custom ones",
    "commands: none that needs a screen of the terminal's",
)
async def test_the_set_is_built_ins_then_custom_commands_and_is_told_when_it_changes() -> None:
    async with linked_hub() as hub:
        agent = hub.project / ".agent"
        (agent / "commands").mkdir(parents=True)
        (agent / "commands" / "port.md").write_text(
            "---\ndescription: Port it\nhint: <what>\n---\nPort $ARGUMENTS."
        )
        # named like a command of the terminal's or a built-in: no command
        for name in ("theme", "quit", "undo", "sessions", "login", "settings"):
            (agent / "commands" / f"{name}.md").write_text("Not this.")
        built = [command(name, hint, "builtin") for name, hint in BUILTINS]
        session = await hub.new()
        told = await commands(hub, session)
        assert told[:7] == built
        assert [(one["name"], one["_meta"]) for one in told[7:]] == [
            ("port", {"lembas": {"kind": "custom"}}),
        ]
        # after a turn that changed it, and after no other
        zap = {"path": ".agent/commands/zap.md", "content": "Zap."}
        await hub.turn(session, "t1")
        hub.model.script(Reply(calls=[("write", zap)]))
        await hub.turn(session, "t2")
        names = [one["name"] for one in await commands(hub, session)]
        assert names[7:] == ["port", "zap"]
        await hub.turn(session, "t3")
        await hub.status(session)
        assert [one for one in hub.client.told if "available_commands_update" in one.text] == []
        # to a new link, for each session it was given
        await hub.again()
        assert [one["name"] for one in await commands(hub, session)] == [
            *(name for name, _ in BUILTINS),
            *("port", "zap"),
        ]
