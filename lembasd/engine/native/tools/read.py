"""`read`: a text file's lines, numbered."""

from pathlib import Path
from typing import Any

from lembasd.engine.native.tools.outcome import Outcome
from lembasd.engine.native.tools.text_file import load
from lembasd.harness.loader import LOOP


def read(path: Path, name: str, args: dict[str, Any]) -> Outcome:
    """Blocks; raises Unusable."""
    file = load(path, name)
    # a line ends where an editor ends it: not at a form feed or a Unicode separator
    lines = file.text.replace("\r\n", "\n").removesuffix("\n").split("\n") if file.text else []
    offset = max(1, int(args.get("offset") or 1))
    limit = max(1, int(args.get("limit") or LOOP.read.limit))
    if not lines:
        return Outcome(f"{name} is empty")
    if offset > len(lines):
        return Outcome(f"{name} has {len(lines)} lines, none from {offset} on", is_error=True)
    part = lines[offset - 1 : offset - 1 + limit]
    longest = LOOP.read.max_line_chars
    shown = [
        f"{number:6}\t{line if len(line) <= longest else line[:longest] + ' [line cut]'}"
        for number, line in enumerate(part, offset)
    ]
    last = offset + len(part) - 1
    if last < len(lines):
        shown.append(f"[lines {offset}-{last} of {len(lines)}; read on with offset {last + 1}]")
    return Outcome("\n".join(shown))
