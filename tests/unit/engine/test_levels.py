"""The effort levels of a model, and what each sends."""

import pytest

from lembasd.engine.native.core.levels import ModelInfo, offered, parameters, start

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
