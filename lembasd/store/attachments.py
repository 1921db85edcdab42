"""The files that came with a session's prompts: each under a name of its own, so that two of one name stay two."""

import os
import time
from pathlib import Path
from typing import Final

from lembasd.device import private_file
from lembasd.device.paths import Paths

#: of a name's random part
RANDOM_BYTES: Final = 4


def directory(paths: Paths, session_id: str) -> Path:
    """Where a session's are; it may not be there yet."""
    return paths.attachments / session_id


def write(paths: Paths, session_id: str, name: str, content: bytes, at: float) -> str:
    """Store one and give the name of its file: `<time>-<random>-<name>`. `at`: Unix seconds. Blocks. Raises OSError."""
    when = time.strftime("%Y%m%dT%H%M%S", time.gmtime(at))
    file = f"{when}-{os.urandom(RANDOM_BYTES).hex()}-{name}"
    private_file.write(directory(paths, session_id) / file, content)
    return file


def remove(paths: Paths, session_id: str, file: str) -> None:
    """Take one back that no turn has. Never raises."""
    try:
        (directory(paths, session_id) / file).unlink(missing_ok=True)
    except OSError:
        pass  # it goes with its session
