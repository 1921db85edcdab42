"""`/undo`: what the file tools changed in a turn is as it was before, but where somebody has changed it since.

Everything here blocks. Each file is judged alone, by what it holds now; one that is as it was already stays as it is, so
that an undo that was cut off can be made again.
"""

from collections.abc import Collection, Iterable
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from lembasd.engine.native.tools.commit import Change
from lembasd.engine.native.tools.files import Files, Target
from lembasd.engine.native.tools.outcome import Unusable, shown
from lembasd.engine.native.tools.text_file import TextFile, decoded
from lembasd.store.pre_images import PreImage, digest_of


class Restored(Struct, frozen=True):
    """Files that are as they were, and files that were left as they are; as the model knows them."""

    files: list[str] = []
    left: list[str] = []


def restore(files: Files, root: Path, calls: Collection[str]) -> Restored:
    """Undo what these calls changed. Raises OSError when it cannot be known what that was."""
    changes: dict[Path, list[PreImage]] = {}
    for one in files.kept():
        if one.call_id in calls:
            changes.setdefault(one.where, []).append(one)
    restored = Restored([], [])
    for path, images in changes.items():
        name = shown(path, root)
        try:
            change = _change(files, Target(path, name), images)
            if change is not None:
                files.change("", [change])
                restored.files.append(name)
        except (Unusable, OSError, ValueError):
            restored.left.append(name)
    return restored


def _change(files: Files, target: Target, images: list[PreImage]) -> Change | None:
    """What makes the file what it was before the first of the changes; None when it is that. Raises Unusable where it is another."""
    first, last = images[0], images[-1]
    now = _now(files, target)
    digest = None if now is None else digest_of(now.content)
    if digest == first.content:
        return None
    if digest != last.after or _has_gap(images):
        raise Unusable(f"{target.name} has changed since")
    return Change(target.path, target.name, now, files.kept_content(first), first.mode)


def _has_gap(images: Iterable[PreImage]) -> bool:
    """Whether somebody else changed the file between two of the calls."""
    return any(one.after != other.content for one, other in pairwise(images))


def _now(files: Files, target: Target) -> TextFile | None:
    if not files.is_there(target):
        return None
    return decoded(files.read(target), target.name)
