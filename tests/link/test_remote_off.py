"""A card that waits while a person turns remote work off by the command: over a real link, hub and worker."""

import pytest

from tests.support.linked_hub import LinkedHub


@pytest.mark.spec("limits: judged at each request")
async def test_a_yes_after_remote_off_runs_nothing(own_hub: LinkedHub) -> None:
    hub = own_hub
    session, turn = await hub.commands("echo a > ran")
    client = hub.client
    card = await client.card(session)
    off = await hub.install.run("remote", "off")
    assert off.returncode == 0, off.stderr.decode()
    client.allow(card)
    assert (await client.result(turn))["stopReason"] == "end_turn"
    # nothing works any more: the device says its new limits on another link
    await hub.linked()
    history = await hub.history(session)
    (tool,) = [tool for one in history["turns"] for tool in one.get("tools", [])]
    assert tool["isError"]
    assert "remote work is off" in tool["output"]
    assert hub.ran("ran") == []
