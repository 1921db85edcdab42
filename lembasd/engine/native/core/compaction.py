"""Summing a conversation up: what is asked, what is left out when even that is too long, what stands in its place."""

from collections.abc import Sequence
from typing import Any, Final

from lembasd.harness.loader import Compaction
from lembasd.harness.tool import fill

#: messages at the end whose results stay whole when older ones are left out
KEPT_MESSAGES: Final = 8
#: a shorter result is not worth leaving out
MIN_CHARS: Final = 500
#: ways to ask for a summary, each with less of the conversation
LADDER: Final = 3


def asked(messages: list[dict[str, Any]], rung: int, texts: Compaction) -> list[dict[str, Any]]:
    """The request for a summary: the next turn of the same conversation.

    `rung` 0 has all of it, 1 is without long old results, 2 has the system prompt and the last messages alone. A call and
    its results are never parted.
    """
    if rung == 1:
        old = len(messages) - KEPT_MESSAGES
        messages = [
            _shortened(one, texts.left_out) if index < old else one
            for index, one in enumerate(messages)
        ]
    elif rung >= 2:
        messages = [
            messages[0],
            *_last_whole([_shortened(one, texts.left_out) for one in messages[1:]]),
        ]
    said = list(messages)
    if said and said[-1]["role"] == "user":
        # the roles alternate
        said.append({"role": "assistant", "content": texts.left_out})
    return [*said, {"role": "user", "content": texts.ask}]


def _shortened(message: dict[str, Any], left_out: str) -> dict[str, Any]:
    content = message.get("content")
    if message["role"] != "tool" or not isinstance(content, str) or len(content) < MIN_CHARS:
        return message
    return {**message, "content": left_out}


def _last_whole(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last messages, from a user's on."""
    for at in range(max(0, len(messages) - KEPT_MESSAGES), len(messages)):
        if messages[at]["role"] == "user":
            return messages[at:]
    users = [at for at, one in enumerate(messages) if one["role"] == "user"]
    return messages[users[-1] :] if users else []


def message(
    summary: str, task: str, reads: Sequence[tuple[str, int, int, str]], texts: Compaction
) -> str:
    """The one message that stands for the conversation so far."""
    table = "\n".join(f"- {path} {first}-{last} {digest}" for path, first, last, digest in reads)
    # the texts are put in last of all: what they hold is nobody's variable
    parts = {
        "reads": texts.reads.replace("{{table}}", table) if reads else "",
        "task": texts.task.replace("{{task}}", task) if task else "",
        "summary": summary.strip(),
    }
    return fill(texts.message, parts)
