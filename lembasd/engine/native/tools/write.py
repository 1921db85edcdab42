"""`write`: a whole file."""

from typing import Any

from lembasd.engine.native.core.diff import unified
from lembasd.engine.native.core.line_endings import Body, plain
from lembasd.engine.native.core.text_code import displayed
from lembasd.engine.native.tools.commit import Change
from lembasd.engine.native.tools.files import Use
from lembasd.engine.native.tools.outcome import Outcome
from lembasd.engine.native.tools.text_file import TextFile


def write(use: Use, args: dict[str, Any]) -> Outcome:
    """Blocks; raises Unusable. A file that is there keeps its encoding, BOM, line endings, mode and final newline."""
    target, content = use.target, str(args["content"])
    before = use.files.load(target, whole=True) if use.files.is_there(target) else None
    if before is None:
        data = content.encode("utf-8", "surrogatepass")
        use.files.change(use.call_id, [Change(target.path, target.name, None, data)])
        diff = displayed(unified("", content, target.name))
        return Outcome(f"Wrote {target.name} (new, {_lines(content)})", diff=diff)
    old = before.text
    new = _like(old, content.removeprefix("\ufeff") if before.code.bom else content)
    if new == old:
        return Outcome(f"{target.name} has this content already: nothing to change")
    use.files.change(use.call_id, [change_of(use, before, new)])
    diff = displayed(unified(old, new, target.name))
    return Outcome(f"Wrote {target.name} ({_lines(new)})", diff=diff)


def change_of(use: Use, before: TextFile, text: str) -> Change:
    """A file's new text as a change, in its own encoding. Raises Unusable."""
    target = use.target
    return Change(target.path, target.name, before, before.encode(text, target.name))


def _like(old: str, content: str) -> str:
    """The content with the line endings and the final newline that the file has."""
    content = plain(content)
    if old.endswith("\n") and content and not content.endswith("\n"):
        content += "\n"
    return Body(old).with_text(content)


def _lines(text: str) -> str:
    count = text.count("\n") + (not text.endswith("\n") and bool(text))
    return f"{count} line{'' if count == 1 else 's'}"
