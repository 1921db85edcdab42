"""The file tools on a folder, as a session's calls use them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lembasd.engine.native.core.named_paths import named_paths
from lembasd.engine.native.core.patch import BadPatch
from lembasd.engine.native.searches import Searches
from lembasd.engine.native.tools.apply_patch import apply_patch
from lembasd.engine.native.tools.edit import edit, multiedit
from lembasd.engine.native.tools.files import Files, Target, Use
from lembasd.engine.native.tools.glob import glob
from lembasd.engine.native.tools.grep import grep
from lembasd.engine.native.tools.list import list_directory
from lembasd.engine.native.tools.outcome import Outcome, Unusable
from lembasd.engine.native.tools.read import read
from lembasd.engine.native.tools.write import write
from lembasd.store.pre_images import PreImages

Tool = Callable[[Use, dict[str, Any]], Outcome]


class Desk:
    """`said` is what a call answers, error or not; its pre-images lie beside the folder."""

    def __init__(
        self, root: Path, protected: tuple[Path, ...] = (), session_dir: Path | None = None
    ) -> None:
        self.root = root
        self.session_dir = session_dir or root.parent / f"{root.name}-session"
        self.files = Files(lambda: protected, self.session_dir)
        self.calls = 0

    def use(self, name: str, args: dict[str, Any]) -> Use:
        """Paths lead where their words say."""
        self.calls += 1
        targets = {one: Target(self._path(one), one) for one in named_paths(name, args)}
        return Use(self.files, f"call_{self.calls}", targets)

    def _path(self, named: str) -> Path:
        return self.root if named == "." else self.root / named

    def _run(self, tool: Tool, args: dict[str, Any]) -> Outcome:
        try:
            return tool(self.use(tool.__name__, args), args)
        except (Unusable, BadPatch) as problem:
            return Outcome(str(problem), is_error=True)

    def read(self, path: str, **args: Any) -> Outcome:
        return self._run(read, {"path": path, **args})

    def write(self, path: str, content: str) -> Outcome:
        return self._run(write, {"path": path, "content": content})

    def edit(self, path: str, old: str, new: str, **args: Any) -> Outcome:
        return self._run(edit, {"path": path, "old": old, "new": new, **args})

    def multiedit(self, path: str, *edits: tuple[str, str]) -> Outcome:
        pairs = [{"old": old, "new": new} for old, new in edits]
        return self._run(multiedit, {"path": path, "edits": pairs})

    def patch(self, text: str) -> Outcome:
        return self._run(apply_patch, {"patch": text})

    def listing(self, path: str = ".") -> Outcome:
        return self._run(list_directory, {"path": path})

    async def glob(self, searches: Searches, pattern: str, **args: Any) -> Outcome:
        return await self._search(glob, searches, {"pattern": pattern, **args})

    async def grep(self, searches: Searches, pattern: str, **args: Any) -> Outcome:
        return await self._search(grep, searches, {"pattern": pattern, **args})

    async def _search(self, tool: Any, searches: Searches, args: dict[str, Any]) -> Outcome:
        try:
            found: Outcome = await tool(searches, self.use(tool.__name__, args), args)
        except Unusable as unusable:
            return Outcome(str(unusable), is_error=True)
        return found

    def kept(self) -> PreImages:
        """What lies for /undo, as a later process finds it."""
        return PreImages(self.session_dir)

    def names(self) -> list[str]:
        """Everything below the folder."""
        return sorted(str(one.relative_to(self.root)) for one in self.root.rglob("*"))
