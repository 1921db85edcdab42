"""What goes over the link stays as it was, or changes on purpose."""

from typing import Any

import msgspec
import pytest

from lembasd.protocol.events import AnyEvent
from tests.golden.samples import EVENTS, FILE, samples

KEPT: dict[str, Any] = msgspec.json.decode(FILE.read_bytes())
NOW = dict(samples())


@pytest.mark.parametrize("name", sorted(NOW))
@pytest.mark.spec(
    "event session",
    "event prompt",
    "event step",
    "event title",
    "event text",
    "event reasoning",
    "event tool_call_delta",
    "event progress",
    "event tool_start",
    "event tool_end",
    "event tool_denied",
    "event usage",
    "event inbox",
    "event steered",
    "event task",
    "event notice",
    "event flash",
    "event retract",
    "event compacted",
    "event mode",
    "event model",
    "event setting",
    "event error",
    "event done",
    "initialize: authMethods",
    "initialize: agentInfo",
    "initialize: harness_spec",
    "initialize: promptCapabilities",
    "initialize: mcpCapabilities",
    "hello: version",
    "hello: harness_spec",
    "hello: device",
    "initialize: protocolVersion",
)
def test_a_message_is_on_the_wire_as_it_was(name: str) -> None:
    assert NOW[name] == KEPT[name]


def test_no_sample_is_left_of_what_is_sent_no_more() -> None:
    assert sorted(KEPT) == sorted(NOW)


def test_every_event_has_a_sample() -> None:
    assert {type(one) for one in EVENTS} == set(AnyEvent.__args__)
