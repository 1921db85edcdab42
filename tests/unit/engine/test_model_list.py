"""What servers say of their models."""

from typing import Any

import pytest

from lembasd.engine.native.core.levels import ModelInfo, Price
from lembasd.engine.native.core.model_list import MAX_TOKENS, find, read

LLAMA = {
    "id": "qwen.gguf",
    "object": "model",
    "owned_by": "llamacpp",
    "architecture": {"input_modalities": ["text", "image"], "output_modalities": ["text"]},
    "meta": {"n_ctx": 8192, "n_ctx_train": 262144, "n_embd": 64},
}
VLLM = {"id": "qwen", "owned_by": "vllm", "root": "qwen", "max_model_len": 32768}
OPENROUTER = {
    "id": "a/b",
    "name": "A: B",
    "context_length": 200000,
    "architecture": {"input_modalities": ["text"]},
    "pricing": {"prompt": "0.000003", "completion": "0.000015", "input_cache_read": "0.0000003"},
    "top_provider": {"context_length": 200000, "max_completion_tokens": 64000},
    "supported_parameters": ["max_tokens", "tools"],
}


@pytest.mark.parametrize(
    ("entry", "info"),
    [
        (LLAMA, ModelInfo("qwen.gguf", context=8192, vision=True, owned_by="llamacpp")),
        (VLLM, ModelInfo("qwen", context=32768, owned_by="vllm")),
        (
            OPENROUTER,
            ModelInfo(
                "a/b",
                context=200000,
                max_output=64000,
                vision=False,
                tools=True,
                name="A: B",
                price=Price("USD", 3.0, 15.0, 0.3),
            ),
        ),
        (
            {
                "id": "m",
                "context": 1000,
                "meta": {"n_ctx": 7},
                "max_output": 100,
                "efforts": ["low", 7, "high"],
                "default_effort": "low",
                "thinking_switch": True,
                "vision": False,
                "tools": True,
                "supported_parameters": ["seed"],
                "parallel": 4,
                "single_session": False,
                "kind": "chat",
                "price": {"currency": "EUR", "input": 1, "output": 2.5},
            },
            ModelInfo(
                "m",
                context=1000,
                max_output=100,
                efforts=["low", "high"],
                default_effort="low",
                thinking_switch=True,
                vision=False,
                tools=True,
                parallel=4,
                single_session=False,
                kind="chat",
                price=Price("EUR", 1.0, 2.5),
            ),
        ),
    ],
)
def test_a_model_is_known_by_what_its_server_says(entry: dict[str, Any], info: ModelInfo) -> None:
    assert read(entry) == info


@pytest.mark.parametrize(
    "more",
    [
        {"context": -1},
        {"context": "131072"},
        {"context": True},
        {"context": MAX_TOKENS + 1},
        {"context": 1.5},
        {"meta": [], "architecture": 7, "top_provider": None},
        {"efforts": "high", "default_effort": 7, "name": "", "kind": None},
        {"vision": "yes", "tools": 1, "supported_parameters": []},
        {"price": "cheap"},
        {"price": {"input": 7}},
        {"pricing": "cheap"},
        {"pricing": {"prompt": "-1", "completion": "1"}},
        {"pricing": {"prompt": "much", "completion": "1"}},
        {"pricing": {"prompt": True, "completion": "1"}},
        {"pricing": {"prompt": "1", "completion": 10**400}},
        {"pricing": {"prompt": "nan", "completion": "1"}},
        {"pricing": {"prompt": [], "completion": "1"}},
    ],
)
def test_what_has_another_shape_is_passed_over_and_takes_nothing_else_with_it(
    more: dict[str, Any],
) -> None:
    assert read({"id": "m", "parallel": 2, **more}).parallel == 2
    assert read({"id": "m", **more}) == ModelInfo("m")


def test_a_price_without_its_parts_is_none_of_them() -> None:
    assert read({"id": "m", "price": {"currency": "EUR"}}).price == Price("EUR")


def test_the_model_is_found_among_others() -> None:
    listed = {"data": [7, {"id": "other"}, {"id": "m", "context": 7}]}
    assert find(listed, "m") == ModelInfo("m", context=7)
    assert find(listed, "gone") is None
    shapes: list[Any] = [None, [], {}, {"data": 7}, {"data": [{}]}]
    assert [find(odd, "m") for odd in shapes] == [None] * len(shapes)
