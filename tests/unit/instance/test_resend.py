"""Sending a turn again: only what the device did not take in, only so often."""

from typing import Any

import pytest

from lembasd.instance.core.resend import PAUSES_S, pause_s

BUSY = {"retryable": True, "reason": "busy"}


def test_a_turn_that_was_not_taken_in_is_sent_again_after_longer_and_longer_pauses() -> None:
    pauses = [pause_s(BUSY, sent) for sent in range(1, len(PAUSES_S) + 2)]
    assert pauses == [*PAUSES_S, None]


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"reason": "busy"},
        {"retryable": True},
        {"retryable": True, "reason": "worker_ended"},
    ],
)
def test_every_other_error_is_the_turn_s_end(data: dict[str, Any] | None) -> None:
    assert pause_s(data, 1) is None
