"""Reading the MCP servers of a project."""

from pathlib import Path
from typing import Final

from lembasd.engine.native.core.mcp_sources import PROJECT_FILE, Sources, read_project
from lembasd.engine.native.tools.outcome import Unusable
from lembasd.engine.native.tools.text_file import read_bytes
from lembasd.protocol.limits import KIB

#: of a project's file; a larger one is a mistake
MAX_BYTES: Final = 256 * KIB


def find(root: Path) -> Sources | None:
    """The servers that the project's file names, None without such a file. Blocks."""
    try:
        path = (root / PROJECT_FILE).resolve(strict=True)
        if root not in path.parents:
            return Sources(problems=[f"{PROJECT_FILE} leads out of the project; remove the link"])
        content = b"".join(read_bytes(path, PROJECT_FILE, MAX_BYTES).pieces)
    except FileNotFoundError:
        return None
    except (OSError, RuntimeError, Unusable) as error:
        return Sources(problems=[f"{PROJECT_FILE} cannot be read ({error}); correct it"])
    try:
        return read_project(content.decode())
    except UnicodeDecodeError:
        return Sources(problems=[f"{PROJECT_FILE} is not UTF-8; save it as UTF-8"])
