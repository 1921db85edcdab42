"""What the instance may open here: judged at each request, in the process that will use the directory.

Paths may hang (a dead network mount), so these are called in a thread of a worker or PTY, never in the hub.
"""

import os
import stat
from pathlib import Path
from typing import Final

from lembasd.protocol.control import Settings
from lembasd.protocol.errors import INVALID_PARAMS, RequestRefused

REASON_REMOTE_OFF: Final = "remote_off"
REASON_FOLDER: Final = "folder"
REASON_TRUST: Final = "trust"


def _refuse(reason: str, message: str) -> RequestRefused:
    return RequestRefused(INVALID_PARAMS, message, {"reason": reason})


def is_inside(path: Path, directory: Path) -> bool:
    """Whether resolved `path` is `directory` or below it."""
    return path == directory or directory in path.parents


def resolved_roots(settings: Settings) -> list[Path]:
    """`remote.roots` with ~ and symlinks followed, [] when remote work is off; one that cannot be followed counts as written."""
    if not settings.remote.enabled:
        return []
    return [_resolved(Path(root).expanduser()) for root in settings.remote.roots]


def _resolved(root: Path) -> Path:
    try:
        return root.resolve()
    except (OSError, RuntimeError):  # RuntimeError: a loop of symlinks
        return root


def judge_root(cwd: str, settings: Settings, *, local: bool) -> Path:
    """The directory a session or terminal may work in, symlinks followed.

    `local`: a person on this machine asks, whom `remote.*` does not bind.
    Raises RequestRefused (-32602) with one sentence and `data.reason`.
    """
    _judge_text(cwd)
    if not local:
        judge_remote(settings)
    try:
        path = Path(cwd).resolve(strict=True)
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise _refuse(REASON_FOLDER, f"{cwd} is not there; make it, or name another") from None
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of symlinks
        raise _refuse(REASON_FOLDER, f"{cwd} cannot be opened: {error}") from None
    if not stat.S_ISDIR(mode):
        raise _refuse(REASON_FOLDER, f"{cwd} is not a directory; name one")
    if not os.access(path, os.R_OK | os.X_OK):
        raise _refuse(REASON_FOLDER, f"{cwd} may not be read by this user; change its rights")
    if not local:
        judge_opened(path, settings)
    return path


def _judge_text(cwd: str) -> None:
    if "\0" in cwd or not os.path.isabs(cwd):  # noqa: PTH117 - it is text from outside
        raise _refuse(REASON_FOLDER, f"{cwd!r} is no absolute path; name a directory from / on")


def judge_remote(settings: Settings) -> None:
    """Whether the link may ask for anything at all; reads no disk. Raises RequestRefused (-32602)."""
    if not settings.remote.enabled:
        raise _refuse(
            REASON_REMOTE_OFF,
            "remote work is off on this device; turn it on there with `lembas remote on`",
        )
    if not settings.remote.roots:
        raise _refuse(
            REASON_FOLDER,
            "this device allows no folder yet; add one there with `lembas remote add DIR`",
        )


def judge_inside(path: str, settings: Settings) -> Path:
    """A path inside the roots, symlinks followed, be it trusted and there or not.

    Raises RequestRefused (-32602) with one sentence and `data.reason`.
    """
    _judge_text(path)
    judge_remote(settings)
    try:
        resolved = Path(path).resolve()
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of symlinks
        raise _refuse(REASON_FOLDER, f"{path} cannot be opened: {error}") from None
    _judge_place(resolved, settings)
    return resolved


def judge_opened(root: Path, settings: Settings, *, shared: bool = False) -> None:
    """Judge a resolved directory against the limits as they are now.

    `shared`: a person here shows the instance this very session, which needs no folder while none is allowed.
    Raises RequestRefused (-32602) with one sentence and `data.reason`.
    """
    if not (shared and settings.remote.enabled and not settings.remote.roots):
        judge_remote(settings)
        _judge_place(root, settings)
    if settings.remote.require_trust and not is_trusted(root, settings.trusted):
        raise _refuse(
            REASON_TRUST,
            f"{root} is not a trusted project; trust it on the device with `lembas trust add {root}`",
        )


def is_plainly_open(root: Path, settings: Settings) -> bool:
    """Whether `judge_opened` accepts a resolved directory, as far as that can be said without a look at the disk."""
    remote = settings.remote
    return (
        remote.enabled
        and any(is_inside(root, Path(one).expanduser()) for one in remote.roots)
        and (not remote.require_trust or is_trusted(root, settings.trusted))
    )


def judge_deleted(root: Path, settings: Settings) -> None:
    """Judge whether the instance may delete a session that it was never given: by its root, which need not be there.

    Trust is not asked: deleting runs nothing in the directory. Raises RequestRefused (-32602) with `data.reason`.
    """
    judge_remote(settings)
    if not is_allowed(root, settings):
        raise _refuse(
            REASON_FOLDER,
            f"this session is of {root}, outside the folders this device allows; "
            "delete it there with `lembas sessions delete`",
        )


def _judge_place(root: Path, settings: Settings) -> None:
    if not is_allowed(root, settings):
        raise _refuse(
            REASON_FOLDER,
            f"{root} is outside the folders this device allows; "
            f"add it there with `lembas remote add {root}`",
        )


def is_allowed(path: Path, settings: Settings) -> bool:
    """Whether resolved `path` is in, or below, one of `remote.roots`; never while remote work is off.

    A path without links that begins with a root as it is written is below it: so no other root is looked at, which may be
    on a disk that hangs.
    """
    if not settings.remote.enabled:
        return False
    roots = [Path(root).expanduser() for root in settings.remote.roots]
    return any(is_inside(path, root) for root in roots) or any(
        is_inside(path, _resolved(root)) for root in roots
    )


def is_trusted(root: Path, trusted: list[str]) -> bool:
    """Whether resolved `root` is in, or below, a trusted directory."""
    return any(is_inside(root, Path(one)) for one in trusted)
