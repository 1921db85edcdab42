"""The effort levels of a model, and what each sends."""

import pytest

from lembasd.engine.native.core.levels import ModelInfo, Price, cost, offered, parameters, start
from lembasd.engine.native.core.reply import Usage

PLAIN = ModelInfo("m")
SWITCH = ModelInfo("m", thinking_switch=True)
EFFORTS = ModelInfo("m", efforts=["low", "high"], default_effort="high")
BOTH = ModelInfo("m", efforts=["low", "high"], thinking_switch=True)
OFF = {"chat_template_kwargs": {"enable_thinking": False}}


@pytest.mark.parametrize(
    ("info", "levels", "first"),
    [
        (PLAIN, ["default"], "default"),
        (SWITCH, ["off", "default"], "default"),
        (EFFORTS, ["low", "high"], "high"),
        (BOTH, ["off", "low", "high"], "low"),
        (ModelInfo("m", efforts=["low"], default_effort="max"), ["low"], "low"),
    ],
)
def test_the_levels_of_a_model(info: ModelInfo, levels: list[str], first: str) -> None:
    assert (offered(info), start(info)) == (levels, first)


@pytest.mark.parametrize(
    ("level", "info", "sent"),
    [
        ("default", None, {}),
        ("high", None, {"reasoning_effort": "high"}),
        ("off", None, OFF),
        ("off", SWITCH, OFF),
        ("off", PLAIN, {}),
        ("off", EFFORTS, {"reasoning_effort": "high"}),
        ("high", PLAIN, {}),
        ("low", BOTH, {"reasoning_effort": "low"}),
        ("max", BOTH, {"reasoning_effort": "low"}),
    ],
)
def test_what_a_level_sends(level: str, info: ModelInfo | None, sent: dict[str, object]) -> None:
    assert parameters(level, info) == sent


def test_a_model_of_one_session_serves_one_request_at_once() -> None:
    assert (ModelInfo("m", single_session=True, parallel=4).capacity, PLAIN.capacity) == (1, None)


@pytest.mark.parametrize(
    ("usage", "price", "expected"),
    [
        (Usage(input=10), None, None),
        (Usage(input=10, cost=0.5), Price("EUR", 1.0), (0.5, "USD")),
        (Usage(input=1_000_000, output=500_000), Price("EUR", 1.0, 4.0), (3.0, "EUR")),
        (Usage(input=1_000_000, cached=500_000), Price("EUR", 1.0), (1.0, "EUR")),
        (Usage(input=1_000_000, cached=500_000), Price("EUR", 1.0, cached=0.0), (0.5, "EUR")),
    ],
)
def test_what_a_request_cost(
    usage: Usage, price: Price | None, expected: tuple[float, str] | None
) -> None:
    assert cost(usage, price) == expected
