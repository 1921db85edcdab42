"""What is attached to a prompt: the files that came with it, and those that it names with `@`. Everything here blocks.

Only what is inside the project and the device's roots, links followed, and not protected, is opened; every other
`@word` stays what it is, a word.
"""

import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from lembasd.device.limits import is_inside
from lembasd.engine.native.core.ground import Ground
from lembasd.engine.native.core.image_kind import image_kind
from lembasd.engine.native.core.mentions import Mention, mentions
from lembasd.engine.native.core.text_code import displayed, spelled
from lembasd.engine.native.tools.files import Files, Target, Use
from lembasd.engine.native.tools.list import list_directory
from lembasd.engine.native.tools.outcome import ImageContent, Outcome, Unusable, shown
from lembasd.engine.native.tools.read import read
from lembasd.harness.loader import LOOP
from lembasd.harness.tool import fill
from lembasd.protocol.limits import MAX_PROMPT_BYTES
from lembasd.store.records import Attachment, Seen

_TEXTS: Final = LOOP.attach.texts
#: the protections of what is never attached: no tool may touch it, or none may change it
_PROTECTED: Final = frozenset({"none", "read"})


class Place(Struct, frozen=True):
    """Where mentions may lead. `roots`: the device's, resolved; None: a person at this machine is bound by none."""

    root: Path
    roots: list[Path] | None
    ground: Ground

    def takes(self, path: Path) -> bool:
        """Whether a resolved path may be attached."""
        kept = self.ground.access(str(path))
        if not is_inside(path, self.root) or (kept is not None and kept.access in _PROTECTED):
            return False
        return self.roots is None or any(is_inside(path, one) for one in self.roots)


class Attached:
    """What the model is shown beside the prompt's text. `images`: what each is called, and it."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.seen: list[Seen] = []
        self.images: list[tuple[str, ImageContent]] = []
        self._chars = 0
        self._image_bytes = 0
        self.is_full = False

    def add(self, kind: str, target: Target, outcome: Outcome) -> None:
        """Take a file or a directory in as it is shown by its tool."""
        name, image = spelled(target.name), outcome.image
        size = 0 if image is None else len(image.data)
        if outcome.is_error:
            self.note("problem", why=spelled(outcome.output))
        elif self._chars + len(outcome.output) > LOOP.attach.chars:
            self.is_full = True
            self.note("full", path=name)
        elif self._image_bytes + size > MAX_PROMPT_BYTES:
            self.note("full", path=name)
        elif image is not None:
            self._image_bytes += size
            self.note("image", path=name, what=outcome.output.rpartition("(")[2].rstrip(")"))
            self.images.append((name, image))
        else:
            self._chars += len(outcome.output)
            self.parts.append(f"{fill(_TEXTS[kind], {'path': name})}\n{outcome.output}")
            if outcome.seen is not None:
                self.seen.append(outcome.seen)

    def note(self, text: str, **values: str) -> None:
        """Say something in a line of its own."""
        self.parts.append(fill(_TEXTS[text], values))


def attach(
    files: Files, place: Place, text: str, directory: Path, uploads: Sequence[Attachment]
) -> Attached:
    """What comes with a prompt. `text`: what was typed; `directory`: where the uploads are. Raises OSError."""
    attached = Attached()
    for upload in uploads:
        _upload(files, attached, directory.resolve() / upload.file, upload)
    more, done = 0, set[Mention]()
    for target, mention in _found(files, place, text):
        same = Mention(target.name, mention.first, mention.last)
        if same in done:
            continue
        done.add(same)
        if len(done) > LOOP.attach.files:
            more += 1
        elif attached.is_full:
            attached.note("full", path=spelled(target.name))
        else:
            _mention(files, attached, target, mention)
    if more:
        attached.note("many", count=str(more))
    return attached


def _upload(files: Files, attached: Attached, path: Path, upload: Attachment) -> None:
    target = Target(path, str(path))
    try:
        if upload.kind == "text" or _is_image(files, target):
            attached.add("file", target, _read(files, target, Mention("")))
        else:
            attached.note("blob", path=spelled(str(path)), size=str(upload.size))
    except Unusable as why:
        attached.note("problem", why=spelled(str(why)))


def _is_image(files: Files, target: Target) -> bool:
    raw = files.read(target)
    return bool(raw.pieces) and image_kind(raw.pieces[0]) is not None


def _read(files: Files, target: Target, mention: Mention) -> Outcome:
    args: dict[str, Any] = {"path": displayed(target.name)}
    if mention.first is not None:
        args["offset"] = mention.first
    if mention.first is not None and mention.last is not None:
        args["limit"] = mention.last - mention.first + 1
    return read(Use(files, "", {target.name: target}), args)


def _mention(files: Files, attached: Attached, target: Target, mention: Mention) -> None:
    try:
        if target.path.is_dir():
            listing = list_directory(Use(files, "", {target.name: target}), {})
            attached.add("directory", target, listing)
        else:
            attached.add("file", target, _read(files, target, mention))
    except Unusable as why:
        attached.note("problem", why=spelled(str(why)))


def _found(files: Files, place: Place, text: str) -> Iterator[tuple[Target, Mention]]:
    """What the words name that is there and may be attached, in their order."""
    known: dict[str, Target | None] = {}
    for readings in mentions(text):
        for one in readings:
            if one.path not in known:
                if len(known) >= LOOP.attach.words:
                    return
                known[one.path] = _target(files, place, one.path)
            target = known[one.path]
            if target is not None:
                yield target, one
                break


def _target(files: Files, place: Place, named: str) -> Target | None:
    try:
        path = (place.root / named).resolve(strict=True)
        mode = path.stat().st_mode
        is_directory = stat.S_ISDIR(mode)
        usable = is_directory or (stat.S_ISREG(mode) and not named.endswith("/"))
        if not usable or not place.takes(path):
            return None
        target = Target(path, shown(path, place.root))
        files.check(target)
    except (OSError, RuntimeError, ValueError, Unusable):
        return None  # a word, not a path; or a path that is nobody's business
    return target
