"""What the strictest servers refuse is never sent, whatever came before; by the numbers of the quirks."""

import asyncio
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lembasd.harness import validation
from lembasd.protocol import events
from lembasd.store.records import ToolStarted
from tests.support.recorder_host import RecorderHost
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.strict_server import refused

TESTS = Path(__file__).parent.parent
SYSTEM = {"role": "system", "content": "s"}
USER = {"role": "user", "content": "u"}


def call(call_id: str = "abcdefghi", arguments: str = "{}") -> dict[str, Any]:
    function = {"name": "list", "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def calling(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": "", "tool_calls": list(calls)}


def result(call_id: str = "abcdefghi") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "ok"}


@pytest.mark.parametrize(
    ("messages", "more", "quirks"),
    [
        ([SYSTEM, USER, calling(call()), result(), USER], {}, set()),
        ([SYSTEM], {}, {"Q72"}),
        ([USER, USER], {}, {"Q67", "Q46", "Q68"}),
        ([SYSTEM, USER, SYSTEM], {}, {"Q67"}),
        ([SYSTEM, USER, calling(call()), USER], {}, {"Q33"}),
        ([SYSTEM, USER, calling(call())], {}, {"Q33"}),
        ([SYSTEM, USER, result()], {}, {"Q33"}),
        ([SYSTEM, USER, calling()], {}, {"Q44", "Q45"}),
        ([SYSTEM, USER, {"role": "assistant", "content": ""}], {}, {"Q45"}),
        ([SYSTEM, {"role": "developer", "content": "x"}], {}, {"Q48", "Q75"}),
        ([SYSTEM, USER, calling(call("call_1")), result("call_1")], {}, {"Q69"}),
        ([SYSTEM, USER, calling(call(arguments="{")), result()], {}, {"Q65"}),
        ([SYSTEM, USER], {"max_tokens": 7}, {"Q49"}),
        ([SYSTEM, USER], {"parallel_tool_calls": False}, {"Q51"}),
        ([SYSTEM, USER], {"tool_choice": "required"}, {"Q64", "Q71"}),
        ([SYSTEM, USER], {"seed": 7}, {"Q50"}),
    ],
)
def test_the_strict_server_finds_each(
    messages: list[dict[str, Any]], more: dict[str, Any], quirks: set[str]
) -> None:
    assert refused({"model": "m", "messages": messages, **more}) == quirks


def raw(*calls: dict[str, Any], content: str = "") -> Reply:
    """A reply whose calls come without ids of the server's."""
    pieces = [{**one, "index": index} for index, one in enumerate(calls)]
    delta: dict[str, Any] = {"content": content}
    if pieces:
        delta["tool_calls"] = pieces
    chunk = {"choices": [{"delta": delta, "finish_reason": "stop"}]}
    return Reply(raw=b"data: " + msgspec.json.encode(chunk) + b"\n\ndata: [DONE]\n\n")


def use(name: str, arguments: str = "{}") -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}}


HARD = [
    raw(use("list"), use("list"), content="two"),
    raw(),  # nothing at all
    raw(use("read", '{"path": "a')),  # cut off
    raw(use("read", "no json")),
    raw(use("fly")),  # no such tool
    raw(use("")),
    Reply(reasoning="only thought"),
    Reply(text="half", finish="length"),
    Reply(text="part of it", drop=True),
    raw(use("bash", '{"command":"exit 3"}'), use("read", '{"path":"gone"}')),
    Reply(text="done"),
]


async def test_q33_to_q75_nothing_that_a_strict_server_refuses_is_ever_sent(
    short_tmp: Path, model: ScriptedModel
) -> None:
    host = RecorderHost(short_tmp, model.base_url)
    engine = host.engine()
    model.script(*HARD)
    await host.turn(engine, "t1")
    # a turn that fails, and one that is cancelled in the middle of its call
    model.script(Reply(status=400, raw=b'{"error":{"message":"no"}}'))
    await host.turn(engine, "t2", "fail")
    model.script(raw(use("bash", '{"command":"sleep 60"}'), use("list")))
    turn = asyncio.ensure_future(host.turn(engine, "t3", "stop"))
    started = len([one for one in host.said if isinstance(one, ToolStarted)])
    await host.until(ToolStarted, started + 1)
    engine.cancel()
    await turn
    await host.turn(engine, "t4", "go on")
    await engine.compact()
    await host.turn(engine, "t5", "and on")
    await engine.aclose()
    again = RecorderHost(host.root, model.base_url)
    reopened = again.engine(records=host.records)
    await again.turn(reopened, "t6", "later")
    await reopened.aclose()
    assert len(model.requests) > len(HARD)
    assert [refused(body) for body in model.requests] == [set()] * len(model.requests)
    assert [one for one in host.events if isinstance(one, events.Retract)]


def test_each_quirk_of_the_list_is_named_by_a_test() -> None:
    named: set[int] = set()
    for path in TESTS.rglob("test_*.py"):
        named |= {int(number) for number in re.findall(r"[qQ](\d+)(?!\d)", path.read_text())}
    assert {int(one.id.removeprefix("Q")) for one in validation.quirks()} - named == set()
