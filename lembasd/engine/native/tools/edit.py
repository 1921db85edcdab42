"""`edit` and `multiedit`: pieces of a file, each of which stands in it exactly once."""

from typing import Any

from lembasd.engine.native.core.diff import unified
from lembasd.engine.native.core.edit_match import Edited, Refused, edited
from lembasd.engine.native.core.text_code import displayed
from lembasd.engine.native.tools.files import Use
from lembasd.engine.native.tools.outcome import Outcome
from lembasd.engine.native.tools.write import change_of


def edit(use: Use, args: dict[str, Any]) -> Outcome:
    """Blocks; raises Unusable. The answer to the model is the diff, and in which way `old` was found."""
    return _made(use, [args])


def multiedit(use: Use, args: dict[str, Any]) -> Outcome:
    """Several edits of one file, each on what the one before left: all or none. Blocks; raises Unusable."""
    if not args["edits"]:
        return Outcome("`edits` is empty: nothing to change", is_error=True)
    return _made(use, args["edits"])


def _made(use: Use, edits: list[dict[str, Any]]) -> Outcome:
    target = use.target
    file = use.files.load(target)
    before = text = file.text
    notes = []
    for number, one in enumerate(edits, 1):
        which = f"edit {number} of {len(edits)}: " if len(edits) > 1 else ""
        found = edited(
            text, one["old"], one["new"], target.name, everywhere=bool(one.get("replace_all"))
        )
        if isinstance(found, Refused):
            nothing = "\n[nothing was changed]" if which else ""
            return Outcome(which + displayed(found.reason) + nothing, is_error=True)
        text = found.text
        notes += _notes(found, which)
    if text == before:
        return Outcome(f"{target.name} would stay as it is: nothing to change", is_error=True)
    use.files.change(use.call_id, [change_of(use, file, text)])
    diff = displayed(unified(before, text, target.name))
    return Outcome("\n".join([diff, *notes]), diff=diff)


def _notes(found: Edited, which: str) -> list[str]:
    """What the model should know of how it was done."""
    notes = []
    if len(found.lines) > 1:
        notes.append(f"[{which}replaced in {len(found.lines)} places]")
    if found.step not in ("exact", "line endings"):
        notes.append(f"[{which}`old` was not exact: it was found but for its {found.step}]")
    return notes
