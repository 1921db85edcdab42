"""A session as a text of its own: Markdown for people, JSON for programs."""

import re
from typing import Any, Final

import msgspec

from lembasd.protocol.lembas import AssistantTurn, HistoryTool, UserTurn
from lembasd.store.core.fold import SessionView

#: characters of a tool's output in Markdown; the JSON has all of it
MAX_OUTPUT_CHARS: Final = 4000
_TICKS: Final = re.compile("`{3,}")


def as_value(session_id: str, view: SessionView) -> dict[str, Any]:
    """The session as one JSON object; `turns` as in `_lembas/session/history`."""
    return {
        "session_id": session_id,
        "title": view.title,
        "root": view.root,
        "model": view.model,
        "mode": view.mode,
        "effort": view.effort,
        "created": view.created.t if view.created is not None else None,
        "turns": msgspec.to_builtins(view.history),
    }


def as_markdown(session_id: str, view: SessionView, *, outputs: bool = True) -> str:
    """The session as Markdown. `outputs`: with what the tools gave, cut where it is long."""
    title = " ".join(view.title.split()) or session_id
    parts = [f"# {title}", f"`{view.root}` · {view.model} · {session_id}"]
    for turn in view.history:
        parts += _user(turn) if isinstance(turn, UserTurn) else _assistant(turn, outputs=outputs)
    return "\n\n".join(parts) + "\n"


def _user(turn: UserTurn) -> list[str]:
    files = [f"- {one.name} ({one.mimeType}, {one.size} bytes)" for one in turn.attachments]
    return ["## You", turn.text, *(["\n".join(files)] if files else [])]


def _assistant(turn: AssistantTurn, *, outputs: bool) -> list[str]:
    parts = ["## Assistant"]
    if turn.text.strip():
        parts.append(turn.text)
    for tool in turn.tools:
        parts += _tool(tool, outputs=outputs)
    return parts if len(parts) > 1 else []


def _tool(tool: HistoryTool, *, outputs: bool) -> list[str]:
    args = msgspec.json.format(msgspec.json.encode(tool.args)).decode()
    parts = [f"**{tool.name}**{' (failed)' if tool.isError else ''}", _fenced(args, "json")]
    if outputs and tool.output:
        text = tool.output
        if len(text) > MAX_OUTPUT_CHARS:
            half = MAX_OUTPUT_CHARS // 2
            text = f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"
        parts.append(_fenced(text, ""))
    return parts


def _fenced(text: str, language: str) -> str:
    """A code block that nothing in the text ends."""
    longest = max((len(one) for one in _TICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
