"""What was learnt of a server and its model, and the shape that a request has because of it.

Facts are words, remembered for the session (they change its prefix, and a prefix stays still):

- `no_stream_options`, `no_effort`, `no_thinking_switch`, `no_reasoning`: the parameter is not sent
- `keep_reasoning`: the reasoning of each message with calls goes back for ever, not in its turn alone
- `null_content`: a message with calls and no text has null as content, not ""
- `no_system`: the system prompt is the beginning of the first user message
- `plain_schemas`: tools' schemas have nothing but types, properties, required, items, enums and descriptions
- `no_images`: it takes no images; the model is told so in their place
- `tells_progress`, `no_progress`: it tells how much of the prompt it has read when it is asked to, or does not take that
- `no_stream`: it streams nothing, and is asked for whole replies
- `thinks`: its template opens the reasoning, so that only the end of it is in the text
"""

from typing import Any, Final

from lembasd.engine.native.core import images

FACTS: Final = frozenset(
    {
        "no_stream_options",
        "no_effort",
        "no_thinking_switch",
        "no_reasoning",
        "keep_reasoning",
        "null_content",
        "no_system",
        "plain_schemas",
        "no_images",
        "tells_progress",
        "no_progress",
        "no_stream",
        "thinks",
    }
)
#: what the person is told when one is learnt that changes what they get
SAID: Final = {
    "no_effort": "the model's server takes no effort level; it is asked without",
    "no_thinking_switch": "the model's server has no switch for thinking; it is asked without",
    "no_images": "this model takes no images; it is asked without",
    "no_stream": "the model's server streams nothing; replies come whole",
}
_PLAIN: Final = frozenset({"type", "properties", "required", "items", "enum", "description"})


def shaped(body: dict[str, Any], facts: frozenset[str]) -> dict[str, Any]:
    """The request as this server takes it. Nothing in `body` is changed."""
    shaped = dict(body)
    if "no_stream" in facts:
        shaped["stream"] = False
    if "no_stream_options" in facts or "no_stream" in facts:
        shaped.pop("stream_options", None)
    if "no_effort" in facts:
        shaped.pop("reasoning_effort", None)
    if "no_thinking_switch" in facts:
        shaped.pop("chat_template_kwargs", None)
    if "plain_schemas" in facts and "tools" in shaped:
        shaped["tools"] = [_plain_tool(tool) for tool in shaped["tools"]]
    if "tells_progress" in facts and not {"no_progress", "no_stream"} & facts:
        shaped["return_progress"] = True
    messages = shaped["messages"]
    if "no_images" in facts:
        messages = [images.without(one) for one in messages]
    if "no_reasoning" in facts:
        messages = [_without_reasoning(one) for one in messages]
    if "null_content" in facts:
        messages = [_null_content(one) for one in messages]
    if "no_system" in facts:
        messages = _folded(messages)
    shaped["messages"] = messages
    return shaped


def _without_reasoning(message: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in message.items() if k not in ("reasoning_content", "reasoning")}


def _null_content(message: dict[str, Any]) -> dict[str, Any]:
    if message.get("tool_calls") and message.get("content") == "":
        return {**message, "content": None}
    return message


def _folded(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The system prompt in front of the first user message."""
    system = [one["content"] for one in messages if one["role"] == "system" and one["content"]]
    rest = [one for one in messages if one["role"] != "system"]
    for index, one in enumerate(rest):
        if one["role"] == "user" and system:
            first = {**one, "content": _in_front(system, one["content"])}
            return [*rest[:index], first, *rest[index + 1 :]]
    return rest


def _in_front(system: list[str], content: Any) -> Any:
    if isinstance(content, str):
        return "\n\n".join([*system, content])
    return [*({"type": "text", "text": text} for text in system), *content]


def _plain_tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    return {**tool, "function": {**function, "parameters": _plain(function["parameters"])}}


def _plain(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key in _PLAIN}
    if isinstance(kept.get("properties"), dict):
        kept["properties"] = {key: _plain(value) for key, value in kept["properties"].items()}
    if "items" in kept:
        kept["items"] = _plain(kept["items"])
    return kept
