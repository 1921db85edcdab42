"""Tool calls that a model wrote into its text, because its server did not read them out of it.

A text is taken for calls only when all of it is calls: each names a tool that was offered, nothing stands between them,
and none is in a code fence. A text that shows how a call looks is left alone.
"""

import json
import re
from collections.abc import Collection
from typing import Any, Final

from msgspec import Struct

from lembasd.engine.native.core import call_arguments

_BLOCK: Final = re.compile(r"\s*<tool_call>(.*?)</tool_call>", re.DOTALL)
_FUNCTION: Final = re.compile(r"\s*<function=([\w.-]+)>(.*?)</function>", re.DOTALL)
_PARAMETER: Final = re.compile(r"\s*<parameter=([\w.-]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
#: control tokens of the harmony format that a server let through
_CHANNEL: Final = re.compile(r"<\|(?:channel|message|start|end|call|return|constrain)\|>")


class TextCall(Struct, frozen=True):
    name: str
    arguments: str


def find(text: str, offered: Collection[str]) -> list[TextCall]:
    """The calls that the text is made of; none when it is anything else."""
    stripped = text.strip()
    if not stripped or "```" in stripped:
        return []
    found = _blocks(stripped, offered) or _functions(stripped, offered)
    if not found and stripped[0] == "{":
        one = _json_call(stripped, offered)
        found = [one] if one is not None else []
    return found


def without_tokens(text: str) -> str:
    """The text without a chat format's control tokens."""
    return _CHANNEL.sub("", text) if "<|" in text else text


def _all(pattern: re.Pattern[str], text: str) -> list[re.Match[str]] | None:
    """The matches when they make up the whole text."""
    found: list[re.Match[str]] = []
    at = 0
    while at < len(text):
        match = pattern.match(text, at)
        if match is None:
            return found if found and not text[at:].strip() else None
        found.append(match)
        at = match.end()
    return found or None


def _blocks(text: str, offered: Collection[str]) -> list[TextCall]:
    calls: list[TextCall] = []
    for match in _all(_BLOCK, text) or []:
        inner = match[1].strip()
        one = _json_call(inner, offered)
        several = [one] if one is not None else _functions(inner, offered)
        if not several:
            return []
        calls += several
    return calls


def _functions(text: str, offered: Collection[str]) -> list[TextCall]:
    calls: list[TextCall] = []
    for match in _all(_FUNCTION, text) or []:
        parameters = _all(_PARAMETER, match[2].strip()) if match[2].strip() else []
        if parameters is None or match[1] not in offered:
            return []
        values = {one[1]: _value(one[2]) for one in parameters}
        calls.append(TextCall(match[1], json.dumps(values)))
    return calls


def _value(text: str) -> Any:
    """A parameter's value: JSON where it is a number, a truth value, a list or an object; else the text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, str) or value is None else value


def _json_call(text: str, offered: Collection[str]) -> TextCall | None:
    read = call_arguments.read(text)
    if read.problem is not None or len(read.values) != 1:
        return None
    said = read.values[0]
    name = said.get("name")
    arguments = said.get("arguments", said.get("parameters"))
    if not isinstance(name, str) or name not in offered:
        return None
    if not isinstance(arguments, dict) or len(said) > 3:
        return None
    return TextCall(name, json.dumps(arguments))
