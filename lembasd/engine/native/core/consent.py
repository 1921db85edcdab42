"""What a tool itself says on asking: what a yes for the session covers, and what is asked though the mode allows it."""

from typing import Any, Final

from msgspec import Struct

from lembasd.engine.native.core.arity import Grant
from lembasd.engine.native.core.web_pages import read_address
from lembasd.harness.tool import Tool

_CONFIRMED: Final = {("settings", "mode")}


class Consent(Struct, frozen=True):
    """`covers`: what a yes for the session is for; None: the call's paths, or the whole tool.

    `asked`: why the person is asked in every mode until then. `confirm`: each time, and nothing remembers it.
    """

    covers: Grant | None = None
    asked: str = ""
    confirm: bool = False


#: of a tool that says nothing
NO_CONSENT: Final = Consent()


def of(tool: Tool, args: dict[str, Any]) -> Consent:
    """How a call is asked for. Raises ValueError for what can never be asked: one sentence for the model."""
    name = tool.name
    if tool.confirm == "always" or (name, args.get("key")) in _CONFIRMED:
        return Consent(confirm=True)
    if name == "web_fetch":
        host = read_address(args["url"]).host
        return Consent(Grant(name, host=host), f"it asks {host} on the web")
    return NO_CONSENT
