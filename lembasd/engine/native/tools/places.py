"""Where a search looks, and how its paths are shown."""

import os
import stat
from pathlib import Path

from lembasd.device.held_path import held
from lembasd.engine.native.core.text_code import spelled
from lembasd.engine.native.tools.files import Use
from lembasd.engine.native.tools.outcome import Unusable, kind_of, why


class Places:
    """The folder of a call, and the one `file` in it that is searched where the call names one.

    Made in a thread. Raises Unusable.
    """

    def __init__(self, use: Use) -> None:
        target = use.target
        use.files.check(target)
        try:
            with held(target.path.parent) as above:
                name = target.path.name or "."
                mode = os.stat(name, dir_fd=above, follow_symlinks=False).st_mode
        except OSError as error:
            raise Unusable(why(error, target.name)) from error
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            raise Unusable(f"{target.name} is {kind_of(mode)}, not a file or a directory")
        self.file = None if stat.S_ISDIR(mode) else target.path.name
        self.folder = target.path if self.file is None else target.path.parent
        named = Path(target.name) if self.file is None else Path(target.name).parent
        self._prefix = "" if target.name == "." or str(named) == "." else f"{named}/"
        base = str(self.folder).rstrip("/") + "/"
        self._shut = tuple(one for one in use.files.protected if one.startswith(base))
        self._base = base

    @property
    def hides(self) -> bool:
        """Whether anything protected lies in the folder."""
        return bool(self._shut)

    def may_show(self, path: str) -> bool:
        """Whether a path from the folder is none of what is protected."""
        if not self._shut:
            return True
        whole = self._base + path
        return not any(whole == one or whole.startswith(one + "/") for one in self._shut)

    def shown(self, path: str) -> str:
        """A path from the folder as the model knows it."""
        return spelled(self._prefix + path)
