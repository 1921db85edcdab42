"""`lembas acp`, driven by the official SDK as an editor does."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec
import pytest
from acp import PROTOCOL_VERSION, Client, RequestError, spawn_agent_process, text_block
from acp.client.connection import ClientSideConnection
from acp.schema import (
    AllowedOutcome,
    DeniedOutcome,
    PermissionOption,
    RequestPermissionResponse,
    ToolCallUpdate,
)

from tests.support.acp import Judge
from tests.support.daemon import _PERSON, Install
from tests.support.scripted_model import Reply, ScriptedModel

pytestmark = pytest.mark.process


class Editor:
    """Has what an editor without files and terminals of its own needs: keeps what it is told, and answers cards with `option`."""

    def __init__(self) -> None:
        self.updates: asyncio.Queue[Any] = asyncio.Queue()
        self.asked: list[tuple[ToolCallUpdate, list[PermissionOption]]] = []
        self.option = "once"

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        self.updates.put_nowait(update)

    async def request_permission(
        self,
        session_id: str,
        tool_call: ToolCallUpdate,
        options: list[PermissionOption],
        **kwargs: Any,
    ) -> RequestPermissionResponse:
        self.asked.append((tool_call, options))
        if not self.option:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        chosen = AllowedOutcome(outcome="selected", option_id=self.option)
        return RequestPermissionResponse(outcome=chosen)

    async def update(self, kind: str) -> Any:
        """The next update of this kind; what comes before it is dropped."""
        async with asyncio.timeout(20):
            while True:
                update = await self.updates.get()
                if update.session_update == kind:
                    return update


@pytest.fixture
def editor() -> Editor:
    return Editor()


@pytest.fixture
async def agent(
    zygote_install: Install, editor: Editor
) -> AsyncIterator[tuple[ClientSideConnection, Install]]:
    """The bridge, as an editor starts it: no hub runs before."""
    command = (sys.executable, "-c", _PERSON, "acp")
    async with spawn_agent_process(
        cast("Client", editor), *command, env=zygote_install.environment, cwd=zygote_install.project
    ) as (connection, _process):
        yield connection, zygote_install


async def test_an_editor_has_a_session_with_cards_modes_and_commands(
    agent: tuple[ClientSideConnection, Install], editor: Editor, model: ScriptedModel
) -> None:
    connection, install = agent
    about = await connection.initialize(protocol_version=PROTOCOL_VERSION)
    assert about.protocol_version == PROTOCOL_VERSION
    assert about.agent_info is not None
    assert about.agent_info.name == "LLeMbas CLI"
    made = await connection.new_session(cwd=str(install.project), mcp_servers=[])
    assert made.modes is not None
    assert [one.id for one in made.modes.available_modes] == ["plan", "manual", "edit", "auto"]
    commands = await editor.update("available_commands_update")
    assert "review" in [one.name for one in commands.available_commands]

    model.script(Reply(calls=[("bash", {"command": "touch made"})]), Reply("It is made."))
    answer = await connection.prompt(made.session_id, [text_block("make it")])
    assert answer.stop_reason == "end_turn"
    ((call, options),) = editor.asked
    assert [one.option_id for one in options] == ["once", "session", "deny"]
    assert (await editor.update("tool_call")).tool_call_id == call.tool_call_id
    assert (await editor.update("tool_call_update")).status == "completed"
    assert (await editor.update("agent_message_chunk")).content.text in "It is made."
    assert (install.project / "made").exists()

    await connection.set_session_mode(session_id=made.session_id, mode_id="auto")
    assert (await editor.update("current_mode_update")).current_mode_id == "auto"
    model.script(Reply(calls=[("bash", {"command": "touch other"})]), Reply("done"))
    await connection.prompt(made.session_id, [text_block("the other too")])
    assert len(editor.asked) == 1
    assert (install.project / "other").exists()

    hold = asyncio.Event()
    model.script(Reply("thinking", hold=hold))
    turn = asyncio.ensure_future(connection.prompt(made.session_id, [text_block("think")]))
    while (await editor.update("agent_message_chunk")).content.text != "king":
        pass
    await connection.cancel(made.session_id)
    assert (await turn).stop_reason == "cancelled"
    with pytest.raises(RequestError):
        await connection.ext_method("hub/status", {})


async def test_what_is_on_the_wire_is_plain_acp_and_ends_with_the_input(
    zygote_install: Install, model: ScriptedModel
) -> None:
    install, judge = zygote_install, Judge()
    await install.start_hub()
    child = install.spawn(
        _PERSON,
        "serve",
        "--stdio",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    stdin, stdout = child.stdin, child.stdout
    told: list[dict[str, Any]] = []

    def ask(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask, and read on until the answer."""
        text = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        judge("client", msgspec.json.encode(text))
        stdin.write(msgspec.json.encode(text) + b"\n")
        stdin.flush()
        while True:
            line = stdout.readline()
            judge("agent", line)
            message: dict[str, Any] = msgspec.json.decode(line)
            if message.get("id") == number:
                return message
            told.append(message)

    def talk() -> None:
        ask(1, "initialize", {"protocolVersion": 1})
        new = {"cwd": str(install.project), "mcpServers": []}
        session = ask(2, "session/new", new)["result"]["sessionId"]
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "hello"}]}
        assert ask(3, "session/prompt", prompt)["result"]["stopReason"] == "end_turn"
        assert ask(4, "_hub/attach", {"sessionId": session})["error"]["code"] == -32601
        stdin.write(b"this is no message\n")
        stdin.flush()
        line = stdout.readline()
        while b'"error"' not in line:
            line = stdout.readline()
        assert msgspec.json.decode(line)["error"]["code"] == -32700

    model.script(Reply("Hello there."))
    await asyncio.to_thread(talk)
    _out, err = await asyncio.to_thread(child.communicate, None, 20)
    assert (child.returncode, err) == (0, b"")
    assert {one["method"] for one in told} == {"session/update"}
    assert judge.faults == []


async def test_a_bridge_says_that_its_hub_is_gone(zygote_install: Install) -> None:
    await zygote_install.start_hub()
    child = zygote_install.spawn(
        _PERSON, "acp", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n')
    child.stdin.flush()
    await asyncio.to_thread(child.stdout.readline)
    await zygote_install.stop()
    assert await asyncio.to_thread(child.wait, 20) == 3
    assert child.stderr is not None
    assert child.stderr.read() == b"lembasd ended; start it, then this agent again\n"
    bare = await zygote_install.run("serve")
    assert (bare.returncode, bare.stderr) == (2, b"say where, as in `lembas serve --stdio`\n")
