"""A service whose own files are all something else when it starts: it runs, and says where each is kept."""

import os
from pathlib import Path

import msgspec
import pytest

from tests.support.daemon import Install
from tests.support.scripted_model import ScriptedModel
from tests.support.sessions import new_session, prompt

pytestmark = [pytest.mark.process, pytest.mark.timeout(60)]


def _spoil(path: Path, how: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    match how:
        case "directory":
            path.mkdir()
            (path / "in it").touch()
        case "pipe":
            os.mkfifo(path)
        case _:
            path.write_bytes(b"\x00garbage")
            path.chmod(0o600)


def _is_there(name: str) -> bool:
    return os.path.lexists(name)


async def test_no_file_of_its_own_keeps_the_service_from_running(
    zygote_install: Install, model: ScriptedModel
) -> None:
    install, paths = zygote_install, zygote_install.paths
    paths.make()
    spoilt = {
        paths.hub_lock: "directory",
        paths.members_lock: "pipe",
        paths.stopping: "directory",
        paths.socket: "directory",
        paths.log / "lembasd.jsonl": "pipe",
        paths.log / "crash.log": "pipe",
        paths.state / "models.json": "pipe",
        paths.state / "servers.json": "garbage",
    }
    for path, how in spoilt.items():
        _spoil(path, how)
    _spoil(paths.log / "rotate.lock", "directory")
    _spoil(paths.trust_file, "garbage")
    _spoil(paths.outbox, "garbage")

    await install.start_hub()
    client = await install.client()
    await client.initialize()
    session = await new_session(client, install)
    assert (await client.ask("session/prompt", prompt(session, "run", "t1")))[
        "stopReason"
    ] == "end_turn"
    deleted = await client.ask("_lembas/session/delete", {"sessionId": session})
    assert deleted == {"deleted": True}
    assert str(paths.trust_file) in (await install.status())["config_problem"]
    client.hub.close()

    lines = [
        msgspec.json.decode(line)
        for line in (paths.log / "lembasd.jsonl").read_bytes().splitlines()
    ]
    said = {Path(one["path"]): one["kept"] for one in lines if one["event"] == "record_damaged"}
    wanted = {*spoilt, paths.outbox}
    assert said == {path: f"{path}.damaged" for path in wanted}
    assert all(_is_there(kept) for kept in said.values())
