"""Sessions and turns on disk, so that a new start of the instance still collects their answers."""

from pathlib import Path

from lembasd.instance.core.rows import Rows, decode
from lembasd.instance.state_file import StateFile, read


class RowsFile(StateFile):
    """The file and what is in it."""

    def __init__(self, file: Path | None) -> None:
        """Raises ConfigError for a file that cannot be used."""
        self.rows = read(file, decode, Rows())
        super().__init__(file, self.rows.encode)
