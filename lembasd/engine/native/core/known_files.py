"""What the model knows of files: the content each had when it last read or wrote it.

A file whose content is another by now was changed by somebody else, and is not written over.
"""

from typing import Final

#: files remembered; the one that was not touched for longest is forgotten, and is to be read again
MAX_FILES: Final = 10_000


class KnownFiles:
    """By path, links followed: a hash of the content. None: the file was taken away by the model itself."""

    def __init__(self) -> None:
        self._digests: dict[str, str | None] = {}

    def learn(self, path: str, digest: str | None) -> None:
        """The model has seen the file as it is, or left it so."""
        self._digests.pop(path, None)
        self._digests[path] = digest
        if len(self._digests) > MAX_FILES:
            del self._digests[next(iter(self._digests))]

    def objection(self, path: str, digest: str, name: str, *, whole: bool) -> str | None:
        """Why a file with this content may not be changed; None: it may. `whole`: nothing of it would stay.

        A piece of a file that was never read may be changed: it was named by what stands there.
        """
        known = self._digests.get(path)
        if known == digest:
            return None
        if known is not None:
            return f"{name} has changed since it was read; read it again, then change it"
        if whole:
            return f"{name} is there already and was not read; read it before you replace it"
        return None
