"""link.md, `_lembas/event`, with the shapes that decisions.md gives where link.md names a type alone."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from tests.support.bare_client import Message
from tests.support.linked_hub import LinkedHub, named
from tests.support.scripted_model import Reply, event

#: every type that link.md lists
TYPES = {
    *("session", "prompt", "step", "title", "text", "reasoning", "tool_call_delta", "progress"),
    *("tool_start", "tool_end", "tool_denied", "usage", "inbox", "steered", "task", "notice"),
    *("retract", "plan", "compacted", "sub_tool", "job", "job_note", "phase", "team", "mode"),
    *("model", "flash", "setting", "error", "done"),
}


def events(session: str, told: Iterable[Message]) -> list[str]:
    """The session's events as text, ids numbered in the order of their coming and times made 0."""
    found = [one for one in told if one.method == "_lembas/event"]
    start = (
        f'{{"jsonrpc":"2.0","method":"_lembas/event","params":{{"sessionId":"{session}","event":'
    )
    assert all(one.text.startswith(start) for one in found if session in one.text)
    text = "\n".join(one.text.removeprefix(start)[:-2] for one in found if session in one.text)
    for kind in ("msg", "call"):
        for number, name in enumerate(
            dict.fromkeys(re.findall(rf"{kind}_[0-9a-f]{{16}}", text)), 1
        ):
            text = text.replace(name, f"{kind}{number}")
    text = re.sub(r'"duration_ms":\d+', '"duration_ms":0', text)
    return text.replace(session, "SESSION").split("\n")


@pytest.mark.spec(
    "event session",
    "event title",
    "event prompt",
    "event task",
    "event step",
    "event reasoning",
    "event text",
    "event tool_call_delta",
    "event usage",
    "event tool_start",
    "event tool_end",
    "event tool_denied",
    "event setting",
    "event done",
    "events: a turn's in their order",
)
async def test_a_turn_tells_all_of_itself_in_its_order(own_hub: LinkedHub) -> None:
    hub = own_hub
    (hub.project / "a").write_text("one\n")
    session = await hub.new("edit")
    both: list[tuple[str, dict[str, Any] | str]] = [
        ("read", {"path": "a"}),
        ("bash", {"command": "rm -rf /", "purpose": "to see"}),
    ]
    hub.model.script(
        Reply(text="I see.", reasoning="look first", calls=both),
        Reply(calls=[("settings", {"key": "verbosity", "value": "low"})]),
    )
    await hub.turn(session, "t1", "look")
    reason = "it deletes a system directory or a whole home: refused in every mode"
    assert events(session, hub.client.told) == [
        f'{{"type":"session","title":"","root":"{hub.project}","model":"plain","mode":"edit","effort":"default"}}',
        '{"type":"title","id":"SESSION","title":"look"}',
        '{"type":"prompt","text":"look","turnId":"t1"}',
        '{"type":"task","state":"start","turnId":"t1"}',
        '{"type":"step","n":1,"model":"plain"}',
        '{"type":"reasoning","text":"look first","messageId":"msg1"}',
        '{"type":"text","text":"I s","messageId":"msg1"}',
        '{"type":"text","text":"ee.","messageId":"msg1"}',
        '{"type":"tool_call_delta","toolCallId":"call1","name":"read","arguments":"{\\"path\\":\\"a\\"}"}',
        '{"type":"tool_call_delta","toolCallId":"call2","name":"bash","arguments":"{\\"command\\":\\"rm -rf /\\",\\"purpose\\":\\"to see\\"}"}',
        '{"type":"usage","input":7,"output":3,"cached":0,"context":10}',
        '{"type":"tool_start","toolCallId":"call1","name":"read","title":"read a","block":"read","args":{"path":"a"}}',
        '{"type":"tool_end","toolCallId":"call1","resultId":"#0001","isError":false,"output":"     1\\tone","duration_ms":0}',
        '{"type":"tool_start","toolCallId":"call2","name":"bash","title":"rm -rf /","block":"shell","args":{"command":"rm -rf /","purpose":"to see"},"purpose":"to see"}',
        f'{{"type":"tool_denied","toolCallId":"call2","name":"bash","reason":"{reason}","by":"floor"}}',
        '{"type":"step","n":2,"model":"plain"}',
        '{"type":"tool_call_delta","toolCallId":"call3","name":"settings","arguments":"{\\"key\\":\\"verbosity\\",\\"value\\":\\"low\\"}"}',
        '{"type":"usage","input":7,"output":3,"cached":0,"context":10}',
        '{"type":"tool_start","toolCallId":"call3","name":"settings","title":"settings verbosity low","block":"tool","args":{"key":"verbosity","value":"low"}}',
        '{"type":"setting","key":"verbosity","value":"low"}',
        '{"type":"tool_end","toolCallId":"call3","resultId":"#0003","isError":false,"output":"verbosity is now low. From now on answer in a few words.","duration_ms":0}',
        '{"type":"step","n":3,"model":"plain"}',
        '{"type":"text","text":"do","messageId":"msg2"}',
        '{"type":"text","text":"ne","messageId":"msg2"}',
        '{"type":"usage","input":7,"output":3,"cached":0,"context":10}',
        '{"type":"done","turnId":"t1","stopReason":"end_turn"}',
        '{"type":"task","state":"end","turnId":"t1"}',
    ]


@pytest.mark.spec("event retract", "event notice", "event error", "event progress", "event usage")
async def test_what_goes_wrong_with_a_reply_is_told(hub: LinkedHub) -> None:
    session = await hub.new()
    reading = msgspec.json.encode(
        {"choices": [], "prompt_progress": {"total": 90, "cache": 0, "processed": 32}}
    )
    whole = event({"content": "whole"}, "stop")
    usage = msgspec.json.encode(
        {
            "choices": [],
            "usage": {
                "prompt_tokens": 10,
                "completion_tokens": 20,
                "prompt_tokens_details": {"cached_tokens": 4},
                "completion_tokens_details": {"reasoning_tokens": 5},
            },
        }
    )
    hub.model.script(
        Reply(text="half", drop=True),
        Reply(
            raw=b"data: " + reading + b"\n\n" + whole + b"data: " + usage + b"\n\ndata: [DONE]\n\n"
        ),
    )
    await hub.turn(session, "t1")
    told = events(session, hub.client.told)
    at = told.index('{"type":"retract","messageId":"msg1"}')
    notice: dict[str, Any] = msgspec.json.decode(told[at + 1])
    assert notice.pop("text").startswith("the model's reply was cut off; asking again in ")
    assert notice == {"type": "notice", "level": "warning"}
    assert told[at + 2 :] == [
        '{"type":"progress","read":32,"total":90}',
        '{"type":"text","text":"whole","messageId":"msg2"}',
        '{"type":"usage","input":10,"output":20,"cached":4,"reasoning":5,"context":30}',
        '{"type":"done","turnId":"t1","stopReason":"end_turn"}',
        '{"type":"task","state":"end","turnId":"t1"}',
    ]

    hub.model.script(Reply(status=400, raw=b'{"error":{"message":"no"}}'))
    hub.client.told.clear()
    refused = msgspec.json.decode(await hub.turn(session, "t2"))
    error, end = events(session, hub.client.told)[-2:]
    said = msgspec.json.encode(refused["message"]).decode()
    assert error == f'{{"type":"error","message":{said},"reason":"model","retryable":false}}'
    assert end == '{"type":"task","state":"end","turnId":"t2"}'


async def test_a_tool_that_changed_a_file_tells_the_difference(hub: LinkedHub) -> None:
    session = await hub.new()
    hub.model.script(Reply(calls=[("write", {"path": "b", "content": "x\n"})]))
    await hub.turn(session, "t1")
    (end,) = [one for one in events(session, hub.client.told) if '"type":"tool_end"' in one]
    assert end == (
        '{"type":"tool_end","toolCallId":"call1","resultId":"#0001","isError":false,'
        '"output":"Wrote b (new, 1 line)","duration_ms":0,"diff":"--- a/b\\n+++ b/b\\n@@ -0,0 +1 @@\\n+x"}'
    )


@pytest.mark.spec("event task", "events: every turn has a task")
async def test_every_turn_has_a_task_that_starts_and_ends_one_made_here_too(
    hub: LinkedHub,
) -> None:
    session = await hub.new()
    prompt = named(session, prompt=[{"type": "text", "text": "x"}])
    made = (await hub.client.value("session/prompt", prompt))["_meta"]["lembas"]["turnId"]
    await hub.turn(session, "t2", "/plan")
    tasks = [one for one in events(session, hub.client.told) if '"type":"task"' in one]
    assert tasks == [
        f'{{"type":"task","state":"{state}","turnId":"{turn}"}}'
        for turn in (made, "t2")
        for state in ("start", "end")
    ]


@pytest.mark.spec("events: none that the spec does not list")
async def test_no_type_is_told_that_the_spec_does_not_list(hub: LinkedHub) -> None:
    session = await hub.new()
    hub.model.script(Reply(calls=[("bash", {"command": "echo a; sleep 0.3; echo b"})]))
    await hub.turn(session, "t1")
    told = [one for one in hub.client.told if one.method == "_lembas/event"]
    assert {one.params["event"]["type"] for one in told} <= TYPES
    assert {one.method for one in hub.client.told} == {"_lembas/event", "session/update"}
    # nothing is numbered for a client that did not ask for it
    assert {key for one in told for key in one.params} == {"sessionId", "event"}
