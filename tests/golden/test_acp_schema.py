"""What we send of ACP's is valid by its official schema, and what is valid by it is read."""

from typing import Any

import msgspec
import pytest
from acp import schema
from pydantic import BaseModel

from lembasd.engine.api import Decision
from lembasd.engine.core import card_kinds
from lembasd.protocol.acp import InitializeParams
from lembasd.worker.core import requests
from tests.golden.samples import SETTINGS, samples
from tests.support.acp import METHODS, faults

SAMPLES = dict(samples())
ANSWERS = {
    "initialize, on the link": "initialize",
    "initialize, on this machine": "initialize",
    "session/new": "session/new",
    "session/prompt": "session/prompt",
    "session/prompt, with what it did not take in": "session/prompt",
}


def sent(sample: Any) -> list[dict[str, Any]]:
    """The messages of a sample that ACP has a method for."""
    messages = sample if isinstance(sample, list) else [sample]
    return [one for one in messages if one.get("method") in METHODS]


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_what_is_sent_is_valid(name: str) -> None:
    for message in sent(SAMPLES[name]):
        assert faults(METHODS[message["method"]][0], message["params"]) == []
    if name in ANSWERS:
        model = METHODS[ANSWERS[name]][1]
        assert model is not None
        assert faults(model, SAMPLES[name]) == []


def test_every_answer_and_every_update_is_among_what_is_judged() -> None:
    judged = [message for sample in SAMPLES.values() for message in sent(sample)]
    assert {one["method"] for one in judged} == {"session/update", "session/request_permission"}
    assert ANSWERS.keys() <= SAMPLES.keys()


def wire(model: BaseModel) -> bytes:
    """As an official client sends it, whatever it leaves to its defaults spelled out."""
    return model.model_dump_json(by_alias=True).encode()


def test_an_official_clients_initialize_is_read() -> None:
    asked = schema.InitializeRequest(
        protocol_version=1,
        client_capabilities=schema.ClientCapabilities(terminal=True),
        client_info=schema.Implementation(name="editor", version="1"),
    )
    read = msgspec.json.decode(wire(asked), type=InitializeParams)
    assert (read.protocolVersion, read.lembas) == (1, None)


def test_an_official_clients_session_is_read() -> None:
    server = schema.McpServerStdio(name="s", command="/bin/s", args=["-x"], env=[])
    asked = schema.NewSessionRequest(cwd="/p", mcp_servers=[server])
    settings = msgspec.structs.replace(SETTINGS, model="m")
    read = requests.read_new(wire(asked), settings, local=True)
    assert (read.cwd, [one.name for one in read.servers]) == ("/p", ["s"])


def test_an_official_clients_prompt_is_read() -> None:
    asked = schema.PromptRequest(
        session_id="ses_1",
        prompt=[
            schema.TextContentBlock(type="text", text="look"),
            schema.ResourceContentBlock(type="resource_link", name="a", uri="file:///a"),
        ],
    )
    assert requests.read_prompt(wire(asked)).text == "look\n\n(see file:///a)"


@pytest.mark.parametrize("lembas", [b"null", b'{"turnId":null}', b"{}"])
def test_null_is_as_good_as_nothing_in_what_is_ours(lembas: bytes) -> None:
    text = b'{"sessionId":"s","prompt":[{"type":"text","text":"a"}],"_meta":{"lembas":%s}}'
    assert requests.read_prompt(text % lembas) == requests.Prompt("a", None)


def test_an_official_clients_answer_to_a_card_is_read() -> None:
    allowed = schema.AllowedOutcome(outcome="selected", option_id="once")
    answer = wire(schema.RequestPermissionResponse(outcome=allowed))
    assert card_kinds.read_permission(answer, always=True) == Decision(outcome="once")


def test_an_official_clients_mode_is_read() -> None:
    asked = schema.SetSessionModeRequest(session_id="ses_1", mode_id="plan")
    assert requests.read_set_mode(wire(asked)) == "plan"
