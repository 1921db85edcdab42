"""`apply_patch`: changes to several files, all of them or none."""

from pathlib import Path
from typing import Any

from lembasd.engine.native.core.diff import unified
from lembasd.engine.native.core.patch import BadPatch, FilePatch, parsed
from lembasd.engine.native.core.patch_apply import Unfitting, added, applied
from lembasd.engine.native.core.text_code import displayed
from lembasd.engine.native.tools.commit import Change
from lembasd.engine.native.tools.files import Target, Use
from lembasd.engine.native.tools.outcome import Outcome, Unusable
from lembasd.engine.native.tools.text_file import TextFile


def apply_patch(use: Use, args: dict[str, Any]) -> Outcome:
    """Blocks; raises Unusable. The answer to the model is one diff of all files."""
    try:
        files = parsed(args["patch"])
    except BadPatch as bad:
        return Outcome(str(bad), is_error=True)
    changes: list[Change] = []
    diffs: list[str] = []
    notes: list[str] = []
    for one in files:
        work = _Work(use, one)
        work.add()
        changes += work.changes
        diffs.append(work.diff)
        notes += work.notes
    files_of = [_identity(one) for one in changes]
    if len(set(files_of)) < len(files_of):
        raise Unusable("two of the patch's paths lead to one file; give each file one name")
    use.files.change(use.call_id, changes)
    diff = displayed("\n".join(one for one in diffs if one))
    return Outcome("\n".join([one for one in [diff] if one] + notes), diff=diff or None)


def _identity(change: Change) -> tuple[int, int] | Path:
    """What a file is known by on the disk, which may have several names; of a new one, its path."""
    if change.before is None:
        return change.path
    about = change.before.raw.about
    return about.st_dev, about.st_ino


class _Work:
    """One file of a patch."""

    def __init__(self, use: Use, patch: FilePatch) -> None:
        self._use = use
        self._patch = patch
        self._target = use.targets[patch.path]
        self.changes: list[Change] = []
        self.diff = ""
        self.notes: list[str] = []

    def add(self) -> None:
        """Raises Unusable."""
        match self._patch.kind:
            case "add":
                self._added()
            case "delete":
                self._deleted()
            case "update":
                self._updated()

    def _added(self) -> None:
        target, text = self._target, added(self._patch.hunks)
        self._must_be_new(target)
        content = text.encode("utf-8", "surrogatepass")
        self.changes.append(Change(target.path, target.name, None, content, self._patch.mode))
        self.diff = _headed(unified("", text, target.name), "--- ", "/dev/null")
        self.notes.append(f"[added {target.name}]")

    def _deleted(self) -> None:
        target = self._target
        file = self._use.files.load(target)
        if self._patch.hunks and self._applied(file)[0]:
            raise Unusable(f"{target.name} has more in it than the patch takes away; read it again")
        self.changes.append(Change(target.path, target.name, file, None))
        self.diff = _headed(unified(file.text, "", target.name), "+++ ", "/dev/null")
        self.notes.append(f"[deleted {target.name}]")

    def _updated(self) -> None:
        target, moved_to = self._target, self._patch.moved_to
        file = self._use.files.load(target)
        text, steps = self._applied(file)
        self.notes += [f"[{target.name}: lines were found but for their {step}]" for step in steps]
        content = file.encode(text, target.name)
        if moved_to is None:
            if text == file.text:
                raise Unusable(f"{target.name} would stay as it is; leave it out of the patch")
            self.changes.append(Change(target.path, target.name, file, content))
            self.diff = unified(file.text, text, target.name)
            return
        new = self._use.targets[moved_to]
        self._must_be_new(new)
        mode = file.raw.about.st_mode & 0o7777
        self.changes.append(Change(new.path, new.name, None, content, mode))
        self.changes.append(Change(target.path, target.name, file, None))
        self.diff = unified(file.text, text, new.name, before=target.name)
        self.notes.append(f"[moved {target.name} to {new.name}]")

    def _applied(self, file: TextFile) -> tuple[str, tuple[str, ...]]:
        found = applied(file.text, self._patch.hunks, self._target.name)
        if isinstance(found, Unfitting):
            raise Unusable(displayed(found.reason))
        return found.text, found.steps

    def _must_be_new(self, target: Target) -> None:
        if self._use.files.is_there(target):
            raise Unusable(
                f"{target.name} is there already; update it instead, or choose another name"
            )


def _headed(diff: str, start: str, name: str) -> str:
    """The diff with another name for the side that is not there."""
    lines = diff.split("\n")
    return "\n".join(
        start + name if line.startswith(start) and n < 2 else line for n, line in enumerate(lines)
    )
