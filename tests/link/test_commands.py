"""link.md, `_lembas/commands`."""

import pytest

from tests.support.linked_hub import UNKNOWN, LinkedHub, linked_hub, named

METHOD = "_lembas/commands"


@pytest.mark.spec("_lembas/commands", "capability commands")
async def test_a_directory_and_a_session_have_the_set_that_is_told(hub: LinkedHub) -> None:
    folder = hub.project / ".agent" / "commands"
    folder.mkdir(parents=True)
    (folder / "port.md").write_text("Port $ARGUMENTS.")
    session = await hub.new()
    told = (await hub.client.update(session, "available_commands_update"))["availableCommands"]
    assert told[-1] == {
        "name": "port",
        "description": "Port $ARGUMENTS.",
        "_meta": {"lembas": {"kind": "custom"}},
    }
    for asked in ({"sessionId": session}, {"cwd": str(hub.project)}):
        assert await hub.client.value(METHOD, asked) == {"commands": told}


async def test_a_directory_is_judged_as_that_of_a_new_session() -> None:
    async with linked_hub() as hub:
        client = await hub.configured(roots=[str(hub.project)])
        base = hub.install.base
        assert await client.ask(METHOD, f'{{"cwd":"{base}"}}') == (
            f'{{"code":-32602,"message":"{base} is outside the folders this device allows; add it there with '
            f'`lembas remote add {base}`","data":{{"reason":"folder"}}}}'
        )


async def test_one_of_session_and_directory_is_named(hub: LinkedHub) -> None:
    neither = '{"code":-32602,"message":"_lembas/commands needs either a sessionId or a cwd; send one of them"}'
    both = named("ses_" + "0" * 26, cwd=str(hub.project))
    for params in ("{}", both):
        assert await hub.client.ask(METHOD, params) == neither
    assert await hub.client.ask(METHOD, named("ses_" + "0" * 26)) == UNKNOWN
