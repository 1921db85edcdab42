"""Reading a project's instruction files."""

from pathlib import Path, PurePath

from lembasd.engine.native.core.instructions import Instruction, stacked
from lembasd.engine.native.tools.outcome import Unusable
from lembasd.engine.native.tools.text_file import load


def find(root: Path) -> list[Instruction]:
    """The instruction files of the session in `root`: from its repository's root, else its own, down to it. Blocks."""
    boundary = next((one for one in (root, *root.parents) if (one / ".git").exists()), root)

    def read(path: PurePath) -> str | None:
        try:
            real = Path(path).resolve(strict=True)
            if boundary != real and boundary not in real.parents:
                return None  # a link that leads out of the project is no word of the project's
            return load(real, path.name).text
        except (OSError, RuntimeError, Unusable):
            return None

    return stacked(boundary, root, read)
