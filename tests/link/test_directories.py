"""link.md, `_lembas/directories`."""

import pytest

from tests.support.linked_hub import LinkedHub, linked_hub

METHOD = "_lembas/directories"


def untrusted(path: object) -> str:
    return f"{path} is not a trusted project; trust it on the device with `lembas trust add {path}`"


@pytest.mark.spec(
    "capability directories",
    "_lembas/directories",
    "directories: places",
    "directories: entries",
    "directories: accepted, reason",
)
async def test_the_directories_are_given_with_what_session_new_would_say() -> None:
    async with linked_hub() as hub:
        root = hub.project
        for name in ("src", "docs", "built", ".git"):
            (root / name).mkdir()
        (root / "file").write_text("")
        assert (await hub.install.run("trust", "add", str(root / "src"))).returncode == 0
        client = await hub.configured(roots=[str(root)], require_trust=True)

        src = f'{{"path":"{root}/src","name":"src","accepted":true}}'
        assert await client.ask(METHOD, "{}") == (
            '{"path":"","places":['
            f'{{"path":"{root}","name":"p","accepted":false,"reason":"{untrusted(root)}"}},{src}]}}'
        )

        def entry(name: str) -> str:
            path = f"{root}/{name}"
            return (
                f'{{"path":"{path}","name":"{name}","accepted":false,"reason":"{untrusted(path)}"}}'
            )

        listed = ",".join((entry("built"), entry("docs"), src, entry(".git")))
        assert await client.ask(METHOD, f'{{"path":"{root}"}}') == (
            f'{{"path":"{root}","name":"p","accepted":false,"parent":null,"entries":[{listed}],'
            f'"reason":"{untrusted(root)}"}}'
        )
        assert await client.ask(METHOD, f'{{"path":"{root}/src"}}') == (
            f'{{"path":"{root}/src","name":"src","accepted":true,"parent":"{root}","entries":[]}}'
        )
        for path, message in (
            (hub.install.base, "is outside the folders this device allows"),
            (f"{root}/../h", "is outside the folders this device allows"),
            ("p", "is no absolute path"),
        ):
            answer = await client.ask(METHOD, f'{{"path":"{path}"}}')
            assert answer.startswith('{"code":-32602,"message":"')
            assert message in answer
            assert answer.endswith('"data":{"reason":"folder"}}')


@pytest.mark.spec("directories: error")
async def test_a_directory_that_cannot_be_listed_says_why(hub: LinkedHub) -> None:
    for path in (hub.project / "none", hub.project / "file"):
        (hub.project / "file").write_text("")
        listed = await hub.client.value(METHOD, f'{{"path":"{path}"}}')
        assert set(listed) == {
            *("path", "name", "accepted", "reason", "parent", "entries", "error")
        }
        assert (listed["accepted"], listed["entries"]) == (False, [])


@pytest.mark.spec("directories: on the link alone")
async def test_a_client_on_this_machine_has_no_directories_to_ask_for(hub: LinkedHub) -> None:
    local = await hub.install.client()
    about = await local.initialize()
    assert "directories" not in about["_meta"]["lembas"]["capabilities"]
    with pytest.raises(Exception, match="_lembas/directories is unknown here"):
        await local.ask(METHOD, {})
    local.hub.close()
