"""`write`: a whole file."""

from pathlib import Path
from typing import Any

from lembasd.engine.native.tools.outcome import Outcome
from lembasd.engine.native.tools.text_file import TextFile, load, replace, unified


def write(path: Path, name: str, args: dict[str, Any]) -> Outcome:
    """Blocks; raises Unusable. A file that is there keeps its encoding, BOM, line endings and mode."""
    content: str = args["content"]
    before: TextFile | None = load(path, name) if path.exists() else None
    if before is None:
        replace(path, name, content.encode("utf-8", "surrogatepass"), None)
        return Outcome(f"Wrote {name} (new, {_lines(content)})", diff=unified("", content, name))
    if before.newline == "\r\n" and "\r\n" not in content:
        content = content.replace("\n", "\r\n")
    replace(path, name, before.encode(content), before.mode)
    return Outcome(f"Wrote {name} ({_lines(content)})", diff=unified(before.text, content, name))


def _lines(text: str) -> str:
    count = len(text.splitlines())
    return f"{count} line{'' if count == 1 else 's'}"
