"""`list`: a directory as a tree."""

import os
from collections.abc import Collection
from pathlib import Path
from typing import Final

from lembasd.engine.native.tools.outcome import Outcome, Unusable, why

DEPTH: Final = 3
#: entries shown; the rest is counted
MAX_ENTRIES: Final = 500
#: shown as a name, never gone into
_CLOSED: Final = frozenset({".git", "node_modules", ".venv", "__pycache__", ".hg", ".svn"})


def list_directory(path: Path, name: str, protected: Collection[Path]) -> Outcome:
    """Blocks; raises Unusable. A protected directory is a name in the tree, never gone into."""
    if path.is_file():
        raise Unusable(f"{name} is a file, not a directory; read it")
    lines: list[str] = []
    left_out = _walk(path, name, 0, lines, frozenset(map(str, protected)))
    if left_out:
        lines.append(f"[{left_out} more entries; list a folder of it]")
    return Outcome("\n".join(lines) or f"{name} is empty")


def _walk(path: Path, name: str, depth: int, lines: list[str], shut: frozenset[str]) -> int:
    try:
        with os.scandir(path) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
    except OSError as error:
        if depth == 0:
            raise Unusable(why(error, name)) from error
        lines.append("  " * depth + "[may not be read]")
        return 0
    left_out = 0
    for entry in entries:
        if len(lines) >= MAX_ENTRIES:
            left_out += 1
            continue
        shown = entry.name.encode("utf-8", "backslashreplace").decode()
        is_link, is_dir = entry.is_symlink(), entry.is_dir(follow_symlinks=False)
        mark = "@" if is_link else "/" if is_dir else ""
        lines.append("  " * depth + shown + mark)
        is_open = entry.name not in _CLOSED and entry.path not in shut
        if is_dir and depth + 1 < DEPTH and is_open:
            left_out += _walk(Path(entry.path), name, depth + 1, lines, shut)
    return left_out
