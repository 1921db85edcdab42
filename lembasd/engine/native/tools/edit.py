"""`edit`: replace a piece of a file that stands in it exactly once."""

from pathlib import Path
from typing import Any

from lembasd.engine.native.tools.outcome import Outcome
from lembasd.engine.native.tools.text_file import load, replace, unified


def edit(path: Path, name: str, args: dict[str, Any]) -> Outcome:
    """Blocks; raises Unusable. The answer to the model is the diff."""
    old: str = args["old"]
    new: str = args["new"]
    if not old:
        return Outcome("`old` is empty; use write for a whole file", is_error=True)
    if old == new:
        return Outcome("`old` and `new` are the same: nothing to change", is_error=True)
    file = load(path, name)
    # the model saw lines without their endings: the file's own are put back on both sides
    if old not in file.text and "\r\n" in file.text:
        old = _crlf(old)
    if file.newline == "\r\n" or "\r\n" in old:
        new = _crlf(new)
    count = file.text.count(old)
    if count == 0:
        return Outcome(
            f"`old` does not stand in {name}; read it again and copy the text exactly",
            is_error=True,
        )
    if count > 1 and not args.get("replace_all"):
        return Outcome(
            f"`old` stands in {name} {count} times; give more lines around it, or set replace_all",
            is_error=True,
        )
    changed = file.text.replace(old, new)
    replace(path, name, file.encode(changed), file.mode)
    diff = unified(file.text, changed, name)
    return Outcome(diff or f"Changed line endings or spaces in {name}", diff=diff)


def _crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")
