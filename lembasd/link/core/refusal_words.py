"""The one sentence that an HTTP answer of refusal carries, wherever its server puts it. Pure."""

from typing import Any

import msgspec

from lembasd.link.core.faults import plain


def detail(body: bytes) -> str:
    """`detail` (a text, or a list whose entries have `msg`), else `error.message`; "" for a body without either."""
    try:
        said: Any = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        return ""
    if not isinstance(said, dict):
        return ""
    found = said.get("detail")
    if isinstance(found, list):
        found = found[0].get("msg") if found and isinstance(found[0], dict) else None
    if found is None and isinstance(said.get("error"), dict):
        found = said["error"].get("message")
    return plain(found) if isinstance(found, str) else ""
