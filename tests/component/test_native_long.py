"""A long session with a fault at every tenth request loses nothing and does nothing twice."""

from collections import Counter
from typing import Any

import msgspec
import pytest

from lembasd.engine.api import TurnOutcome
from lembasd.store.records import Assistant
from tests.support.recorder_host import RecorderHost
from tests.support.scripted_model import Reply, ScriptedModel, event

#: a turn may make 200 requests
STEPS, TURNS = 120, 2
ENDED = TurnOutcome(stop_reason="end_turn")


def error(status: int, message: str, **headers: str) -> Reply:
    raw = msgspec.json.encode({"error": {"message": message}})
    return Reply(status=status, raw=raw, headers={"Content-Type": "application/json", **headers})


FAULTS = [
    lambda: Reply(text="half a rep", drop=True),
    lambda: error(429, "slow down", **{"Retry-After": "0"}),
    lambda: error(500, "overloaded"),
    lambda: Reply(raw=event({"content": "half"}) + b'data: {"error":{"message":"upstream"}}\n\n'),
    lambda: error(500, "error parsing tool call: raw='{'"),
    lambda: Reply(raw=b"data: Internal error\n\n"),
    lambda: Reply(calls=[("bash", '{"command": "echo never >> never')]),
    lambda: Reply(raw=b""),
]


@pytest.mark.timeout(120)
async def test_a_session_of_two_hundred_requests_with_faults_does_each_step_once(
    host: RecorderHost, model: ScriptedModel
) -> None:
    done = 0
    asked = 0

    def choose(_body: dict[str, Any]) -> Reply:
        nonlocal done, asked
        asked += 1
        if asked % 10 == 0:
            return FAULTS[(asked // 10) % len(FAULTS)]()
        if done and done % STEPS == 0 and _body["messages"][-1]["role"] == "tool":
            return Reply(text="all done")
        done += 1
        return Reply(text=f"step {done}", calls=[("bash", {"command": f"echo {done} >> outside"})])

    model.choose = choose
    engine = host.engine()
    for turn in range(TURNS):
        assert await host.turn(engine, f"t{turn}") == ENDED
    await engine.aclose()
    assert asked > 200
    # counted outside: each step's effect happened once, and nothing that was cut off ran
    lines = (host.root / "outside").read_text().split()
    assert lines == [str(number) for number in range(1, STEPS * TURNS + 1)]
    assert not (host.root / "never").exists()
    calls = [call.id for one in host.records if isinstance(one, Assistant) for call in one.calls]
    assert Counter(one.call_id for one in host.results()) == Counter(calls)
    assert len(set(calls)) == len(calls)
    last = model.requests[-1]["messages"]
    results = [one["tool_call_id"] for one in last if one["role"] == "tool"]
    named = [call["id"] for one in last for call in one.get("tool_calls", [])]
    assert results == named
