"""`read`: a text file's lines, numbered; or an image."""

import os
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from lembasd.device.held_path import held
from lembasd.engine.native.core.image_kind import ImageKind, image_kind
from lembasd.engine.native.core.line_window import LineWindow
from lembasd.engine.native.core.text_code import displayed
from lembasd.engine.native.tools.files import Target, Use
from lembasd.engine.native.tools.lines import most_lines, shown_part
from lembasd.engine.native.tools.outcome import NOT_THERE, ImageContent, Outcome, Unusable
from lembasd.engine.native.tools.text_file import Bytes, decoded, rest
from lembasd.harness.loader import LOOP
from lembasd.store.records import Seen

#: a larger image is refused by many servers
MAX_IMAGE_BYTES: Final = 5_000_000
#: names of a directory among which one like the wanted is looked for
MAX_NAMES: Final = 2000


def read(use: Use, args: dict[str, Any]) -> Outcome:
    """Blocks; raises Unusable."""
    target = use.target
    try:
        raw = use.files.read(target)
    except Unusable as unusable:
        if str(unusable).startswith(NOT_THERE):
            raise Unusable(f"{unusable}{_offer(target)}") from None
        raise
    begin = image_kind(raw.pieces[0]) if raw.pieces else None
    if begin is not None:
        content = b"".join(raw.pieces)
        return _image(content, image_kind(content) or begin, target)
    return _text(use, raw, args)


def _text(use: Use, raw: Bytes, args: dict[str, Any]) -> Outcome:
    target, offset = use.target, max(1, int(args.get("offset") or 1))
    file = decoded(raw, target.name)
    window = LineWindow(offset, most_lines(args.get("limit")), LOOP.read.max_line_chars)
    for text in file.texts:
        window.feed(text)
        if len(file.texts) > 2:
            rest()
    total = window.finish()
    if offset > total > 0:
        return Outcome(f"{target.name} has {total} lines, none from {offset} on", is_error=True)
    use.files.saw(target, raw)
    if not total:
        return Outcome(f"{target.name} is empty")
    part = shown_part(window.lines, offset, total, _numbered, "read")
    named = str(args.get("path", target.name))
    return Outcome(part.text, seen=Seen(named, raw.digest, part.first, part.last))


def _numbered(number: int, line: str) -> str:
    return f"{number:6}\t{displayed(line)}"


def _image(content: bytes, kind: ImageKind, target: Target) -> Outcome:
    if not kind.width or not kind.height:
        return Outcome(f"{target.name} is a damaged {kind.name} image", is_error=True)
    about = f"{kind.name}, {kind.width}x{kind.height} pixels, {len(content):,} bytes"
    if len(content) > MAX_IMAGE_BYTES:
        most = f"{MAX_IMAGE_BYTES:,}"
        return Outcome(
            f"{target.name} is an image ({about}), too large to be shown; make it smaller than {most} bytes",
            is_error=True,
        )
    return Outcome(f"{target.name} is an image ({about})", image=ImageContent(kind.mime, content))


def _offer(target: Target) -> str:
    """What may have been meant: the nearest name in the last directory that is there."""
    missing = target.path
    while not (above := _names(missing.parent)):
        if missing.parent == missing:
            return ""
        missing = missing.parent
    wanted = missing.name
    close = [name for name in above if name.lower() == wanted.lower()]
    close = close or get_close_matches(wanted, above, 3, 0.6)
    # what follows the name must be there under the new one
    rest_of = target.path.relative_to(missing)
    found = [name for name in close if _is_there(missing.parent / name / rest_of)]
    if not found:
        return ""
    prefix = target.name[
        : len(target.name) - len(str(missing.relative_to(missing.parent) / rest_of))
    ]
    names = [
        displayed(f"{prefix}{name}" if rest_of == Path() else f"{prefix}{name}/{rest_of}")
        for name in found
    ]
    return f". There is {' and '.join(names)}"


def _names(directory: Path) -> list[str]:
    try:
        with held(directory) as above:
            handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=above)
            try:
                with os.scandir(handle) as scan:
                    return [entry.name for entry, _ in zip(scan, range(MAX_NAMES), strict=False)]
            finally:
                os.close(handle)
    except OSError:
        return []


def _is_there(path: Path) -> bool:
    try:
        os.stat(path, follow_symlinks=False)  # noqa: PTH116 - of a link, whether it is there is enough
    except OSError:
        return False
    return True
