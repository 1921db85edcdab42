"""What process tests say to open a session and to prompt it."""

from typing import Any

from tests.support.daemon import Client, Install


def prompt(session: str, text: str, turn_id: str) -> dict[str, Any]:
    return {
        "sessionId": session,
        "prompt": [{"type": "text", "text": text}],
        "_meta": {"lembas": {"turnId": turn_id}},
    }


async def new_session(
    client: Client, install: Install, mode: str = "auto", model: str | None = None
) -> str:
    """Open a session in the project; `model` as the server lists it, None: the one of the configuration."""
    meta = {"mode": mode} if model is None else {"mode": mode, "lembas_model": model}
    params = {"cwd": str(install.project), "mcpServers": [], "_meta": meta}
    return str((await client.ask("session/new", params))["sessionId"])


async def worker_pid(install: Install, session: str) -> int:
    workers = (await install.status())["workers"]
    return next(int(one["pid"]) for one in workers if one["session_id"] == session)
