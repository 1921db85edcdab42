"""What the strictest servers refuse in a request, by the number of the quirk."""

from typing import Any, Final

import msgspec

#: of a request; no server refuses these, but for those that a fact leaves out
KNOWN: Final = frozenset({"model", "messages", "tools", "stream", "stream_options"})
_ROLES: Final = frozenset({"system", "user", "assistant", "tool"})


def refused(body: dict[str, Any]) -> set[str]:
    """The quirks that this request would run into; none for a good one."""
    messages = body["messages"]
    found = {"Q72"} if len(messages) < 2 else set()
    if set(body) & {"max_tokens", "max_completion_tokens"}:
        found.add("Q49")
    if "parallel_tool_calls" in body:
        found.add("Q51")
    if "tool_choice" in body:
        found |= {"Q64", "Q71"}
    if (
        set(body)
        - KNOWN
        - {"max_tokens", "max_completion_tokens", "parallel_tool_calls"}
        - {"tool_choice"}
    ):
        found.add("Q50")
    if [one["role"] for one in messages[:1]] != ["system"]:
        found.add("Q67")
    for one in messages:
        found |= _message(one)
    return found | _order(messages)


def _message(one: dict[str, Any]) -> set[str]:
    found: set[str] = set()
    if one["role"] not in _ROLES:
        found |= {"Q48", "Q75"}
    calls = one.get("tool_calls")
    if calls == []:
        found.add("Q44")
    if one["role"] == "assistant" and not calls and not one.get("content"):
        found.add("Q45")
    for call in calls or []:
        if not (call["id"].isascii() and call["id"].isalnum() and len(call["id"]) == 9):
            found.add("Q69")
        try:
            msgspec.json.decode(call["function"]["arguments"], type=dict)
        except msgspec.MsgspecError:
            found.add("Q65")
    return found


def _order(messages: list[dict[str, Any]]) -> set[str]:
    found: set[str] = set()
    waiting: list[str] = []
    last = ""
    for one in messages:
        if one["role"] == "tool":
            if one["tool_call_id"] not in waiting:
                return found | {"Q33"}
            waiting.remove(one["tool_call_id"])
            continue
        if waiting:
            found.add("Q33")
        if one["role"] == "system" and last:
            found.add("Q67")
        if one["role"] == last == "user":
            found |= {"Q46", "Q68"}
        waiting = [call["id"] for call in one.get("tool_calls") or []]
        last = one["role"]
    return found | ({"Q33"} if waiting else set())
