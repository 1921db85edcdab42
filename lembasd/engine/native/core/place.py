"""Where a session works, as a model is told it, and where the paths it names lead."""

from collections.abc import Mapping
from pathlib import PurePosixPath


def environment(root: PurePosixPath, platform: str) -> dict[str, str]:
    """The prompt's variables for the place: the project's name, and no absolute path."""
    return {"project": root.name or "/", "platform": platform}


def absolute(root: PurePosixPath, path: str, homes: Mapping[str, str]) -> PurePosixPath:
    """Where a path leads by its words alone: relative to the project, `~` as in a shell; links are not followed.

    `homes`: by user name, "" for the person's own. Raises RuntimeError for the home of nobody.
    """
    if path.startswith("~"):
        user, _, rest = path[1:].partition("/")
        if user not in homes:
            raise RuntimeError(f"there is no user {user}")
        return PurePosixPath(homes[user]) / rest
    return root / path
