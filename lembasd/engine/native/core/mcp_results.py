"""What an MCP server answered to a call, as text for the model."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

#: characters of one result; of more, head and tail are kept (a message has a bound of its own)
MAX_CHARS: Final = 2_000_000
NO_CONTENT: Final = "(no content)"


def text_of(content: list[Any], structured: Any = None) -> str:
    """The parts of an answer in their order; structured content counts where no text stands beside it."""
    parts = [part for part in map(_part, content) if part]
    has_text = any(isinstance(one, Mapping) and one.get("type") == "text" for one in content)
    if structured is not None and not has_text:
        parts.append(msgspec.json.format(msgspec.json.encode(structured)).decode())
    return _bounded("\n".join(parts).encode(errors="replace").decode()) or NO_CONTENT


def _part(block: Any) -> str:
    if not isinstance(block, Mapping):
        return ""
    kind = block.get("type")
    match kind:
        case "text":
            return str(block.get("text", ""))
        case "image" | "audio":
            return f"[{kind} {block.get('mimeType', '')}, {_bytes(block.get('data'))} bytes]"
        case "resource_link":
            return f"[resource {block.get('name', '')}: {block.get('uri', '')}]"
        case "resource":
            return _resource(block.get("resource"))
        case _:
            return f"[{kind}]"


def _resource(resource: Any) -> str:
    if not isinstance(resource, Mapping):
        return "[resource]"
    if isinstance(resource.get("text"), str):
        return f"[resource {resource.get('uri', '')}]\n{resource['text']}"
    kind, size = resource.get("mimeType") or "binary", _bytes(resource.get("blob"))
    return f"[resource {resource.get('uri', '')}, {kind}, {size} bytes]"


def _bytes(data: Any) -> int:
    """Bytes that a base64 text stands for."""
    return len(data.rstrip("=")) * 3 // 4 if isinstance(data, str) else 0


def _bounded(text: str) -> str:
    if len(text) <= MAX_CHARS:
        return text
    half = MAX_CHARS // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
