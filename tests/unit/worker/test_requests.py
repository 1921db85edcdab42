"""Reading what clients ask."""

from typing import Any

import msgspec
import pytest

from lembasd.protocol.context import Base, Library, Personalization, Prototypes, SaidContext
from lembasd.protocol.control import Account, Mode, Remote, Settings
from lembasd.protocol.errors import INVALID_PARAMS, RequestRefused
from lembasd.protocol.lembas import CommandsParams
from lembasd.protocol.limits import MAX_BLOCK_BYTES
from lembasd.protocol.mcp import McpServer
from lembasd.worker.core.requests import (
    MAX_CONTEXT_BYTES,
    MAX_NAME_CHARS,
    MAX_STEER_BYTES,
    MAX_TITLE_CHARS,
    MAX_TURN_ID_CHARS,
    NewSession,
    Prompt,
    new_result,
    read_commands,
    read_configure,
    read_new,
    read_prompt,
    read_rewind,
    read_set_mode,
    read_share,
    read_steer,
    read_title,
)

ACCOUNT = Account(base_url="http://127.0.0.1:1", token="x", default_model="default")
SETTINGS = Settings(account=ACCOUNT, remote=Remote(max_mode="manual"), effort="high")


def params(prompt: list[dict[str, Any]], turn_id: Any = None) -> bytes:
    meta = {} if turn_id is None else {"_meta": {"lembas": {"turnId": turn_id}}}
    return msgspec.json.encode({"sessionId": "s", "prompt": prompt, **meta})


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


@pytest.mark.spec("session/prompt: text", "session/prompt: resource_link")
def test_blocks_are_joined_by_a_blank_line_and_links_are_named() -> None:
    link = {"type": "resource_link", "uri": "file:///a", "name": "a"}
    assert read_prompt(params([text("see"), link], "t1")) == Prompt("see\n\n(see file:///a)", "t1")


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (params([]), "the prompt is empty"),
        (params([text(" \n")]), "the prompt is empty"),
        (params([text("x")], ""), "a turnId has"),
        (params([text("x")], "x" * (MAX_TURN_ID_CHARS + 1)), "a turnId has"),
        (params([text("x")], 5), "cannot be read"),
        (params([{"type": "audio", "data": ""}]), "of type 'audio' is not taken"),
        (params([{"type": "resource_link"}]), "needs a uri"),
        (params([text("x" * (MAX_BLOCK_BYTES + 1))]), "a prompt block holds at most 10 MB"),
        (params([text("x" * MAX_BLOCK_BYTES)] * 3), "a prompt holds at most 25 MB"),
        (b"", "cannot be read"),
        (b"[]", "cannot be read"),
    ],
)
@pytest.mark.spec("session/prompt: 10 MB a block, 25 MB a prompt")
def test_a_prompt_that_cannot_be_taken_is_refused(asked: bytes, says: str) -> None:
    with pytest.raises(RequestRefused, match=says) as refused:
        read_prompt(asked)
    assert refused.value.code == INVALID_PARAMS


def new(meta: dict[str, Any] | None = None, **fields: Any) -> bytes:
    return msgspec.json.encode({"cwd": "/project", "_meta": meta or {}, **fields})


@pytest.mark.parametrize(
    ("meta", "settings", "local", "expected"),
    [
        ({}, SETTINGS, True, NewSession("/project", "manual", "default", "high")),
        (
            {"mode": "auto", "lembas_model": "a", "model": "b", "effort": "low"},
            SETTINGS,
            False,
            NewSession("/project", "manual", "a", "low"),
        ),
        (
            {"mode": "unrestricted", "model": "b"},
            SETTINGS,
            True,
            NewSession("/project", "auto", "b", "high"),
        ),
        (
            {},
            msgspec.structs.replace(SETTINGS, model="mine"),
            True,
            NewSession("/project", "manual", "mine", "high"),
        ),
    ],
)
@pytest.mark.spec("session/new: lembas_model", "session/new: model", "session/new: effort")
def test_what_a_new_session_leaves_open_comes_from_the_settings(
    meta: dict[str, Any], settings: Settings, local: bool, expected: NewSession
) -> None:
    assert read_new(new(meta), settings, local=local) == expected


@pytest.mark.parametrize(
    ("asked", "settings", "says"),
    [
        (new(mcpServers=[{"name": "x"}]), SETTINGS, "an MCP server must be given either"),
        (new({"mode": "wild"}), SETTINGS, "'wild' is no mode"),
        (new(), Settings(), "not logged in"),
        (new(), Settings(account=msgspec.structs.replace(ACCOUNT, default_model=None)), "no model"),
        (b"{}", SETTINGS, "cannot be read"),
    ],
)
def test_a_new_session_that_cannot_be_is_refused(
    asked: bytes, settings: Settings, says: str
) -> None:
    with pytest.raises(RequestRefused, match=says):
        read_new(asked, settings, local=True)


def test_the_servers_of_a_client_on_this_machine_are_taken_and_those_of_the_link_are_refused() -> (
    None
):
    asked = new(mcpServers=[{"name": "x", "command": "run", "args": [], "env": []}])
    taken = read_new(asked, SETTINGS, local=True)
    assert taken.servers == [McpServer(name="x", command="run")]
    with pytest.raises(RequestRefused, match="send an empty mcpServers") as caught:
        read_new(asked, SETTINGS, local=False)
    assert caught.value.code == -32602


def test_commands_are_asked_for_of_a_session_or_of_a_directory() -> None:
    assert read_commands(b'{"sessionId":"s"}') == CommandsParams(sessionId="s")
    assert read_commands(b'{"cwd":"/p"}') == CommandsParams(cwd="/p")
    for asked in (b"", b'{"sessionId":"s","cwd":"/p"}', b'{"cwd":5}'):
        with pytest.raises(RequestRefused, match="_lembas/commands"):
            read_commands(asked)


def test_a_mode_is_read() -> None:
    assert read_set_mode(b'{"sessionId":"s","modeId":"edit"}') == "edit"


@pytest.mark.parametrize(("ceiling", "count"), [("plan", 1), ("auto", 4)])
@pytest.mark.spec("session/new: the result's modes")
def test_the_result_offers_the_modes_up_to_the_widest_allowed(ceiling: Mode, count: int) -> None:
    made = new_result("ses_1", NewSession("/project", "plan", "m", "default"), ceiling)
    assert len(made["modes"].availableModes) == count
    assert made["_meta"]["lembas"]["model"] == "m"


def steer(said: Any, **more: Any) -> bytes:
    return msgspec.json.encode({"sessionId": "s", "text": said, **more})


def test_a_message_for_a_running_turn_is_read() -> None:
    assert read_steer(steer("in French", messageId="m")) == ("in French", "m")
    assert read_steer(steer("in French")) == ("in French", "")


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (steer(" \n"), "the message is empty"),
        (steer(7), "cannot be read"),
        (steer("x", messageId="x" * (MAX_TURN_ID_CHARS + 1)), "a messageId has at most"),
        (steer("x" * (MAX_STEER_BYTES + 1)), "holds at most 200 kB"),
    ],
)
def test_a_message_that_cannot_be_taken_is_refused(asked: bytes, says: str) -> None:
    with pytest.raises(RequestRefused, match=says):
        read_steer(asked)


# ── what a client holds ─────────────────────────────────────────────────────────────────────────


def with_context(context: str) -> bytes:
    return f'{{"sessionId":"s","prompt":[{{"type":"text","text":"x"}}],"_meta":{{"lembas":{context}}}}}'.encode()


def test_a_prompts_context_is_read_and_what_it_leaves_out_is_left_out() -> None:
    said = (
        '{"turnId":"t","system_prompt":"S","personalization":{"personality":"brief","new":1},'
        '"library":{"bases":[{"id":"b","name":"B"}]},"prototypes":{"offered":true,"sources":"none"}}'
    )
    assert read_prompt(with_context(said)).context == SaidContext(
        "S",
        Personalization("brief"),
        Library([Base("b", "B")]),
        Prototypes(offered=True, sources="none"),
    )
    assert read_prompt(with_context('{"personalization":null}')).context == SaidContext(
        personalization=None
    )
    assert read_prompt(with_context('{"agents":{"min":1}}')).context == SaidContext()


@pytest.mark.parametrize(
    ("context", "says"),
    [
        ('{"system_prompt":5}', "cannot be read"),
        ('{"library":{"bases":"all"}}', "cannot be read"),
        ('{"prototypes":{}}', "cannot be read"),
        ('{"system_prompt":"%s"}' % ("x" * MAX_CONTEXT_BYTES), "may have 200 kB"),
    ],
)
def test_a_context_that_cannot_be_taken_is_refused(context: str, says: str) -> None:
    for read in (
        lambda: read_prompt(with_context(context)),
        lambda: read_new(
            f'{{"cwd":"/p","_meta":{{"lembas":{context}}}}}'.encode(), SETTINGS, local=False
        ),
    ):
        with pytest.raises(RequestRefused, match=says) as refused:
            read()
        assert refused.value.code == INVALID_PARAMS


def test_a_title_is_read_as_one_line() -> None:
    assert read_title(b'{"sessionId":"s","title":" a\\n b\\u001b[31m "}') == "a b [31m"
    for title, says in (("x" * (MAX_TITLE_CHARS + 1), "at most 200"), (" ", "is empty")):
        with pytest.raises(RequestRefused, match=says):
            read_title(msgspec.json.encode({"sessionId": "s", "title": title}))


def test_configure_reads_what_is_there() -> None:
    assert read_configure(b'{"sessionId":"s"}') == (None, None)
    assert read_configure(b'{"sessionId":"s","model":"m","effort":"low"}') == ("m", "low")
    for model in ("", "x" * (MAX_NAME_CHARS + 1)):
        with pytest.raises(RequestRefused, match="the name of model has"):
            read_configure(msgspec.json.encode({"sessionId": "s", "model": model}))


def test_a_rewind_names_its_turn() -> None:
    assert read_rewind(b'{"sessionId":"s","turnId":"t"}') == "t"
    for turn in ("", "x" * (MAX_TURN_ID_CHARS + 1)):
        with pytest.raises(RequestRefused, match="no such turn"):
            read_rewind(msgspec.json.encode({"sessionId": "s", "turnId": turn}))


def test_a_person_shares_or_does_not() -> None:
    assert read_share(b'{"sessionId":"s","shared":true}')
    assert not read_share(b'{"sessionId":"s","shared":false}')
    with pytest.raises(RequestRefused, match="_hub/share cannot be read"):
        read_share(b'{"sessionId":"s"}')
