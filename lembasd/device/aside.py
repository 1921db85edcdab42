"""Putting what lies in the place of one of our files out of the way, without losing it."""

import shutil
import stat
from pathlib import Path
from typing import Final

#: what is put aside has this at the end of its name; of two the newer one stays
SUFFIX: Final = ".damaged"


def is_regular(path: Path) -> bool:
    """Whether there is a file of that name, and no directory, pipe or the like. Raises OSError for what cannot be looked at."""
    return stat.S_ISREG(path.stat().st_mode)


def put_aside(path: Path) -> Path | None:
    """Give what is at `path` another name, which is returned; None when that cannot be done. Blocks, never raises."""
    aside = path.with_name(f"{path.name}{SUFFIX}")
    try:
        if aside.is_dir() and not aside.is_symlink():
            shutil.rmtree(aside, ignore_errors=True)
        elif path.is_dir():
            aside.unlink(missing_ok=True)
        path.replace(aside)
    except OSError:
        return None
    return aside
