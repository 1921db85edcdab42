"""What git says of a project, without running anything that the project's own settings name.

An agent may write those settings, and a person who asks for a review runs git: no filter, helper, hook or other program
of a repository is started, and nothing outside of the project is shown.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from lembasd.engine.native.searches import Search
from lembasd.engine.native.tools.outcome import Unusable

#: settings that name a program, or a place: each is given another value
_OFF: Final = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.quotePath=false",
    "diff.external=",
    "log.showSignature=false",
)
_VARIABLES: Final = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    # beats protocol.<name>.allow of the repository: no transport has this name
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EXTERNAL_DIFF": "",
    "LC_ALL": "C",
}
_FILTERS: Final = ("clean", "smudge", "process")
#: of every diff
_PLAIN: Final = (
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--ignore-submodules=dirty",
    "--find-renames",
)
#: commits that a changelog goes back at most
MAX_COMMITS: Final = 300


class NoGit(Exception):
    """Git cannot be asked here; the text says why, on one line."""


class Git:
    """Of the project in `root`. `hidden`: paths that no diff shows. Blocks."""

    def __init__(self, search: Search, root: Path, hidden: Iterable[Path]) -> None:
        self._search = search
        self._root = root
        below = (one.relative_to(root) for one in hidden if root in one.parents)
        self._paths = [".", *(f":(exclude,literal){one}" for one in below)]
        self._settings: list[str] = []
        top = next((one for one in (root, *root.parents) if (one / ".git").exists()), None)
        if top is None:
            raise NoGit("this is no repository")
        self._variables = {**_VARIABLES, "GIT_WORK_TREE": str(top)}
        self._settings = list(_OFF)
        names = self._said("config", "--null", "--name-only", "--list").split("\0")
        drivers = {name.rpartition(".")[0] for name in names if name.startswith("filter.")}
        for driver in sorted(drivers):
            self._settings += [f"{driver}.{one}=" for one in _FILTERS]
            self._settings.append(f"{driver}.required=false")

    def _said(self, *args: str, may_be_cut: bool = False) -> str:
        """What git writes; `may_be_cut`: the beginning will do where it is too much or takes too long. Raises NoGit."""
        command = ["git", *(part for one in self._settings for part in ("-c", one)), *args]
        try:
            found = self._search.output(self._root, command, self._variables)
        except Unusable as why:
            raise NoGit(str(why)) from None
        if found.complaint or (found.stopped and not (may_be_cut and found.data)):
            lines = (found.complaint or found.stopped).splitlines()
            raise NoGit(lines[0].removeprefix("fatal: ")[:200])
        return found.data.decode(errors="replace")

    def commit(self, name: str) -> str | None:
        """The commit that a name stands for, None when there is none."""
        if name.startswith("-") or not name.isprintable():
            return None
        try:
            said = self._said(
                "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"
            )
        except NoGit:
            return None
        return said.strip() or None

    def changes(self) -> str:
        """What is not committed, new files by their names."""
        against = ["HEAD"] if self.commit("HEAD") else ["--cached"]
        diff = self._said("diff", *_PLAIN, *against, "--", *self._paths, may_be_cut=True)
        others = ("ls-files", "--others", "--exclude-standard", "-z")
        new = self._said(*others, "--", *self._paths, may_be_cut=True)
        names = [name for name in new.split("\0") if name]
        listed = "".join(f"new file, not known to git: {name!r}\n" for name in names)
        return f"{diff}{listed}"

    def last(self) -> str:
        """What the last commit changed, with its message."""
        show = ("show", *_PLAIN, "--format=medium", "HEAD")
        return self._said(*show, "--", *self._paths, may_be_cut=True)

    def since(self, commit: str) -> str:
        """What has changed since the commit that the project and this one come from."""
        base = self._said("merge-base", commit, "HEAD").strip() or commit
        return self._said("diff", *_PLAIN, base, "--", *self._paths, may_be_cut=True)

    def tag(self) -> str | None:
        """The last tag that the project comes from."""
        try:
            return self._said("describe", "--tags", "--abbrev=0", "HEAD").strip() or None
        except NoGit:
            return None

    def commits(self, since: str | None) -> str:
        """The commits since one, newest first; "" for none."""
        if not self.commit("HEAD"):
            return ""
        reach: Sequence[str] = ["HEAD"] if since is None else ["HEAD", f"^{since}"]
        log = [
            "--no-merges",
            "--no-color",
            f"--max-count={MAX_COMMITS}",
            "--format=- %h %s%n%w(0,2,2)%b",
        ]
        return self._said("log", *log, *reach, "--", *self._paths).strip()
