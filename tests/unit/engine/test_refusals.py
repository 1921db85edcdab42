"""What an error answer of a server means, by the words that real servers use."""

from typing import Any

import msgspec
import pytest

from lembasd.engine.native.core.refusals import (
    BadSample,
    Different,
    Loading,
    Meaning,
    Overflow,
    Passing,
    Refused,
    Unauthorized,
    from_words,
    read,
)
from lembasd.engine.native.core.retry_after import wait_s
from lembasd.engine.native.core.server_facts import FACTS, shaped

NONE: frozenset[str] = frozenset()


def meaning(status: int, error: Any, *, facts: frozenset[str] = NONE, **headers: str) -> Meaning:
    raw = error if isinstance(error, bytes) else msgspec.json.encode({"error": error})
    given = {key.replace("_", "-"): value for key, value in headers.items()}
    return read(status, given, raw, 1_000_000.0, facts)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_what_may_pass_is_asked_again(status: int) -> None:
    assert meaning(status, {"message": "busy"}) == Passing(
        f"the model's server answers {status} (busy)"
    )


@pytest.mark.parametrize("status", [307, 400, 402, 403, 404, 422])
def test_what_does_not_pass_is_not(status: int) -> None:
    refused = meaning(status, {"message": "no"})
    assert refused == Refused(f"the model's server refuses the request with {status} (no)", status)


def test_a_token_that_is_not_taken_is_said_without_the_servers_words() -> None:
    said = meaning(401, {"message": "bad token abc"})
    assert said == Unauthorized("the instance does not accept this device's login")


def test_a_page_of_html_is_not_quoted() -> None:
    assert meaning(502, b"<html><body>Bad gateway</body></html>") == Passing(
        "the model's server answers 502"
    )


@pytest.mark.parametrize(
    ("status", "error", "window"),
    [
        (  # Q52, Q73 llama.cpp
            400,
            {
                "code": 400,
                "message": "the request exceeds the available context size, try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 9000,
                "n_ctx": 8192,
            },
            8192,
        ),
        (500, {"message": "the request exceeds the available context size"}, None),
        (400, {"code": "context_length_exceeded", "message": "Too long"}, None),
        (
            400,
            {
                "message": "This model's maximum context length is 4096 tokens. However, you requested 5000"
            },
            4096,
        ),
        (400, "Trying to keep the first 9000 tokens when n_keep >= n_ctx: 4096", 4096),
        (
            400,
            {
                "message": "The number of tokens to keep from the initial prompt is greater than the context length"
            },
            None,
        ),
        (400, {"message": "prompt is too long: 210000 tokens > 200000 maximum"}, None),
        (400, {"message": "Please reduce the length of the messages"}, None),
        (
            400,
            {"message": "Input token count exceeds the maximum number of tokens allowed 1048576"},
            None,
        ),
        (413, {"message": "Payload Too Large"}, None),
    ],
)
def test_q52_a_conversation_that_is_too_long_is_known(
    status: int, error: Any, window: int | None
) -> None:
    said = meaning(status, error)
    assert isinstance(said, Overflow)
    assert said.window == window


def test_q52_an_overflow_in_a_stream_is_known_too() -> None:
    assert isinstance(from_words("m", "n_keep: 5000 >= n_ctx: 4096", NONE), Overflow)


@pytest.mark.parametrize(
    ("error", "fact"),
    [
        ({"message": "Extra inputs are not permitted: stream_options"}, "no_stream_options"),  # Q28
        ({"message": "Unknown parameter: 'stream_options.include_usage'"}, "no_stream_options"),
        (
            {"message": "Unrecognized request argument supplied: reasoning_effort"},
            "no_effort",
        ),  # Q50
        ({"message": "chat_template_kwargs: unknown field"}, "no_thinking_switch"),  # Q55
        (  # Q39
            {
                "message": "The reasoning_content in the thinking mode must be passed back to the API."
            },
            "keep_reasoning",
        ),
        ({"message": "Missing `reasoning_content` field in the assistant message"}, "no_reasoning"),
        ({"message": "messages.2: unknown field reasoning_content"}, "no_reasoning"),
        (
            {"message": "Invalid 'content': content field must be a string or null, got ''"},
            "null_content",
        ),  # Q43
        ({"message": "messages: content should be a non-empty string"}, "null_content"),
        ({"message": "System role not supported"}, "no_system"),  # Q47
        ({"message": "System message must be at the beginning."}, "no_system"),
        (
            {"message": 'Unknown name "additionalProperties" at tools[0].function_declarations'},
            "plain_schemas",
        ),  # Q56
    ],
)
@pytest.mark.parametrize("status", [400, 422])
def test_what_a_server_does_not_take_is_learnt(status: int, error: Any, fact: str) -> None:
    said = meaning(status, error)
    assert isinstance(said, Different)
    if "Missing" in error["message"]:
        assert said.fact in ("keep_reasoning", fact)
    else:
        assert said.fact == fact


def test_what_was_learnt_and_did_not_help_is_a_refusal() -> None:
    error = {"message": "Unknown parameter: stream_options"}
    assert isinstance(meaning(400, error, facts=frozenset({"no_stream_options"})), Refused)


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (
            500,
            "error parsing tool call: raw='{\"a\": ', err=unexpected end of JSON input",
            BadSample,
        ),  # Q19
        (500, {"message": "Failed to parse tool call arguments as JSON"}, BadSample),  # Q65
        (
            500,
            {
                "message": "The model produced output that does not match the expected peg-native format"
            },
            BadSample,
        ),  # Q66
        (
            503,
            {"message": "Loading model", "type": "unavailable_error", "code": 503},
            Loading,
        ),  # Q57
        (404, {"message": "No endpoints found that support tool use."}, Refused),  # Q58
        (400, {"message": "registry.ollama.ai/library/x does not support tools"}, Refused),
        (
            429,
            {"message": "You exceeded your current quota", "code": "insufficient_quota"},
            Refused,
        ),
        (402, {"message": "Insufficient Balance"}, Refused),
    ],
)
def test_what_asking_again_does_not_help_is_told_apart(status: int, error: Any, kind: type) -> None:
    assert type(meaning(status, error)) is kind


def test_q58_a_model_without_tools_is_said_to_be_one() -> None:
    said = meaning(404, {"message": "No endpoints found that support tool use."})
    assert said.message.endswith("this model takes no tools: choose another model")


# ── how long to wait (Q61) ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "-1"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Mon, 12 Jan 1970 13:46:50 GMT"}, 10.0),
        ({"retry-after": "Mon, 12 Jan 1970 13:46:00 GMT"}, 0.0),
        ({"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-remaining-requests": "0"}, 360.0),
        ({"x-ratelimit-reset-tokens": "20ms", "x-ratelimit-remaining-tokens": "0"}, 0.02),
        ({"x-ratelimit-reset-tokens": "1h2m3.5s", "x-ratelimit-remaining-tokens": "0"}, 3723.5),
        ({"x-ratelimit-reset-tokens": "7", "x-ratelimit-remaining-tokens": "0"}, 7.0),
        ({"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-remaining-tokens": "5"}, None),
        ({"x-ratelimit-reset-tokens": "", "x-ratelimit-remaining-tokens": "0"}, None),
    ],
)
def test_every_form_of_retry_after_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert wait_s(headers, 1_000_000.0) == seconds


# ── the shape of a request ──────────────────────────────────────────────────────────────────────

BODY: dict[str, Any] = {
    "model": "m",
    "stream": True,
    "stream_options": {"include_usage": True},
    "reasoning_effort": "high",
    "chat_template_kwargs": {"enable_thinking": False},
    "messages": [
        {"role": "system", "content": "be good"},
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "hm",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "ok"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "f",
                "description": "d",
                "parameters": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "n": {"type": "integer", "minimum": 1, "description": "n"},
                        "minimum": {"type": "array", "items": {"type": "string", "const": "x"}},
                    },
                    "required": ["n"],
                },
            },
        }
    ],
}


def test_a_server_of_which_nothing_is_known_gets_the_request_as_it_is() -> None:
    assert shaped(BODY, NONE) == BODY


def test_every_fact_changes_its_part_and_nothing_else() -> None:
    before = msgspec.json.encode(BODY)
    changed = {
        fact: {
            key
            for key in {*BODY, *shaped(BODY, frozenset({fact}))}
            if shaped(BODY, frozenset({fact})).get(key) != BODY.get(key)
        }
        for fact in FACTS
    }
    assert changed == {
        "no_stream": {"stream", "stream_options"},
        "no_stream_options": {"stream_options"},
        "no_effort": {"reasoning_effort"},
        "no_thinking_switch": {"chat_template_kwargs"},
        "no_reasoning": {"messages"},
        "null_content": {"messages"},
        "no_system": {"messages"},
        "plain_schemas": {"tools"},
        # the conversation and the reader of replies see to these
        "keep_reasoning": set(),
        "thinks": set(),
        "tells_progress": {"return_progress"},
        # alone it changes nothing
        "no_progress": set(),
        # there is none in these
        "no_images": set(),
    }
    assert msgspec.json.encode(BODY) == before


def test_progress_is_not_asked_for_where_it_was_refused() -> None:
    assert shaped(BODY, frozenset({"tells_progress", "no_progress"})) == BODY


SHOWN: dict[str, Any] = {
    "role": "user",
    "content": [
        {"type": "text", "text": "The image of #0001:"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}},
    ],
}


def test_a_model_that_takes_no_images_is_told_of_them() -> None:
    body = {**BODY, "messages": [*BODY["messages"], SHOWN]}
    messages = shaped(body, frozenset({"no_images"}))["messages"]
    text = "The image of #0001:\n[not shown: this model takes no images]"
    assert messages == [*BODY["messages"], {"role": "user", "content": text}]


def test_a_system_prompt_is_folded_into_a_message_of_parts() -> None:
    body = {**BODY, "messages": [BODY["messages"][0], SHOWN]}
    content = [{"type": "text", "text": "be good"}, *SHOWN["content"]]
    assert shaped(body, frozenset({"no_system"}))["messages"] == [
        {"role": "user", "content": content}
    ]


@pytest.mark.parametrize(
    "words",
    [
        "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
        "This model does not support image input.",
        "Invalid content type. image_url is only supported by certain models. model is not a multimodal model",
        "No endpoints found that support image input",
        "Only 'text' content type is supported",
        "Failed to deserialize: unknown variant `image_url`, expected `text`",
    ],
)
def test_images_that_are_refused_are_left_out_from_then_on(words: str) -> None:
    raw = msgspec.json.encode({"error": {"message": words}})
    meaning = read(500 if "hint" in words else 400, {}, raw, 0.0, NONE)
    assert isinstance(meaning, Different)
    assert meaning.fact == "no_images"


def test_a_folded_system_prompt_begins_the_first_user_message() -> None:
    messages = shaped(BODY, frozenset({"no_system"}))["messages"]
    assert messages == [{"role": "user", "content": "be good\n\ngo"}, *BODY["messages"][2:]]


def test_plain_schemas_keep_the_names_of_properties() -> None:
    (tool,) = shaped(BODY, frozenset({"plain_schemas"}))["tools"]
    assert tool["function"]["parameters"] == {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "description": "n"},
            "minimum": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["n"],
    }
