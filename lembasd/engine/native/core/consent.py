"""What a tool itself says on asking: what a yes for the session covers, and what is asked though the mode allows it."""

from typing import Any, Final

from msgspec import Struct

from lembasd.engine.native.core.mcp_sources import PROJECT_FILE
from lembasd.engine.native.core.web_pages import read_address
from lembasd.harness.tool import Tool

_CONFIRMED: Final = {("settings", "mode")}


class Consent(Struct, frozen=True):
    """`grant`: the key of what a yes for the session covers; `always`: the same in words, None: it is not offered.

    `asked`: why the person is asked in every mode until then. `confirm`: each time, and nothing remembers it.
    """

    grant: str
    always: str | None
    asked: str = ""
    confirm: bool = False


def of(tool: Tool, args: dict[str, Any], path: str | None = None) -> Consent:
    """How a call is asked for. `path`: where its path leads, below the project.

    Raises ValueError for what can never be asked: one sentence for the model.
    """
    name = tool.name
    if tool.confirm == "always" or (name, args.get("key")) in _CONFIRMED:
        return Consent(name, None, confirm=True)
    if name == "web_fetch":
        host = read_address(args["url"]).host
        return Consent(f"{name}:{host}", f"every page of {host}", f"it asks {host} on the web")
    if tool.risk == "write" and path == PROJECT_FILE:
        # else whoever may write in the project might have anything started by its next session
        return Consent(f"{name}:{path}", None, "it says what this project's next sessions start")
    if name == "bash":
        return Consent(f"bash:{args.get('command', '')}", "this command")
    return Consent(name, f"every {name}")
