"""What goes over the link stays as it was, or changes on purpose."""

from typing import Any

import msgspec
import pytest

from lembasd.protocol.events import AnyEvent
from tests.golden.samples import EVENTS, FILE, samples

KEPT: dict[str, Any] = msgspec.json.decode(FILE.read_bytes())
NOW = dict(samples())


@pytest.mark.parametrize("name", sorted(NOW))
def test_a_message_is_on_the_wire_as_it_was(name: str) -> None:
    assert NOW[name] == KEPT[name]


def test_no_sample_is_left_of_what_is_sent_no_more() -> None:
    assert sorted(KEPT) == sorted(NOW)


def test_every_event_has_a_sample() -> None:
    assert {type(one) for one in EVENTS} == set(AnyEvent.__args__)
