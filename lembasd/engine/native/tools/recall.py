"""`recall`: an earlier result of the session, whole."""

import re
from typing import Any, Final

from lembasd.engine.api import Host
from lembasd.engine.native.tools.lines import part_of
from lembasd.engine.native.tools.outcome import Outcome

_ID: Final = re.compile(r"#?([0-9a-fA-F]{1,12})")


async def recall(host: Host, args: dict[str, Any]) -> Outcome:
    """Give the result of args["id"] back, from args["offset"] on."""
    match = _ID.fullmatch(str(args["id"]).strip())
    result_id = f"#{int(match[1], 16):04x}" if match is not None else ""
    output = await host.result(result_id) if result_id else None
    if output is None:
        return Outcome(f"there is no result {args['id']}; ids look like #0001", is_error=True)
    lines = output.removesuffix("\n").split("\n")
    offset = max(1, int(args.get("offset") or 1))
    if offset > len(lines):
        return Outcome(f"{result_id} has {len(lines)} lines, none from {offset} on", is_error=True)
    return Outcome(part_of(lines, offset, args.get("limit"), lambda _, line: line, "recall").text)
