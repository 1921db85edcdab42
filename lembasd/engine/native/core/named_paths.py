"""The paths that a call names: what is judged before it runs."""

from typing import Any

from lembasd.engine.native.core import patch


def named_paths(tool: str, args: dict[str, Any]) -> list[str]:
    """Every path a call would read or write, as it names them. Raises patch.BadPatch for a patch that is none."""
    if tool == "apply_patch":
        return patch.paths(args["patch"])
    return [str(args.get("path") or ".")]
