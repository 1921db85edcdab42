"""`read`: a text file's lines, numbered."""

import hashlib
from pathlib import Path
from typing import Any

from lembasd.engine.native.tools.lines import part_of
from lembasd.engine.native.tools.outcome import Outcome
from lembasd.engine.native.tools.text_file import load
from lembasd.harness.loader import LOOP
from lembasd.store.records import Seen


def read(path: Path, name: str, args: dict[str, Any]) -> Outcome:
    """Blocks; raises Unusable."""
    file = load(path, name)
    # a line ends where an editor ends it: not at a form feed or a Unicode separator
    lines = file.text.replace("\r\n", "\n").removesuffix("\n").split("\n") if file.text else []
    offset = max(1, int(args.get("offset") or 1))
    if not lines:
        return Outcome(f"{name} is empty")
    if offset > len(lines):
        return Outcome(f"{name} has {len(lines)} lines, none from {offset} on", is_error=True)
    part = part_of(lines, offset, args.get("limit"), _numbered, "read")
    digest = hashlib.sha256(file.text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return Outcome(part.text, seen=Seen(str(args.get("path", name)), digest, part.first, part.last))


def _numbered(number: int, line: str) -> str:
    longest = LOOP.read.max_line_chars
    return f"{number:6}\t{line if len(line) <= longest else line[:longest] + ' [line cut]'}"
