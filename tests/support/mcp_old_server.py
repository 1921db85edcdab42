"""An MCP server of the old protocol, by hand: `initialize` first, and a change of its list told without being asked."""

import json
import os
import sys
from typing import Any

PING = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
CALLS: list[str] = []


def _answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            info = {"name": "old", "version": "1"}
            capabilities = {"tools": {"listChanged": True}}
            version = params["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
            return {"result": result}
        case "tools/list":
            # a list in pages that never ends
            page = int(params.get("cursor", 0))
            description = f"after {sum(map(bool, CALLS))} calls"
            tools = [
                {
                    "name": f"t{page}",
                    "description": description,
                    "inputSchema": {"type": "object"},
                }
            ]
            return {"result": {"tools": tools, "nextCursor": str(page + 1)}}
        case "tools/call" if params["name"] == "t1":
            # no answer that MCP knows
            return {"result": {"content": [{"type": "smell"}]}}
        case "tools/call" if params["name"] == "t2":
            return {"error": {"code": -32602, "message": "not like this"}}
        case "tools/call" if params["name"] == "t3":
            # it asks on, and reads nothing of what it is answered
            while True:
                os.write(1, PING * 1000)
        case "tools/call" if params["name"] == "t4":
            while True:
                os.write(1, b"\n" * 65_536)
        case "tools/call":
            return {"result": {"content": [{"type": "text", "text": "old"}]}}
        case _:
            return {"error": {"code": -32601, "message": "Method not found"}}


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        if message["method"] == "tools/call":
            CALLS.append(message["params"]["name"])
            _say(CHANGED)
        elif message["method"] == "tools/list" and not CALLS:
            # not so: nothing has changed yet
            _say(CHANGED)
            CALLS.append("")
        answer = _answer(message["method"], message.get("params") or {})
        _say({"jsonrpc": "2.0", "id": message["id"], **answer})


if __name__ == "__main__":
    main()
