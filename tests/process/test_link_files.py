"""link.md, `_lembas/files/search` and `_lembas/directories`: the texts of a bare client against a real device."""

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from tests.support.bare_link import BareLink
from tests.support.daemon import Install
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.sessions import new_session, prompt

pytestmark = pytest.mark.process


def search(message_id: int, where: str, query: str) -> str:
    return (
        f'{{"jsonrpc":"2.0","id":{message_id},"method":"_lembas/files/search",'
        f'"params":{{{where},"query":"{query}"}}}}'
    )


def directories(message_id: int, params: str) -> str:
    return f'{{"jsonrpc":"2.0","id":{message_id},"method":"_lembas/directories","params":{params}}}'


def project(install: Install) -> Path:
    root = install.project
    (root / ".git").mkdir()
    (root / ".gitignore").write_text("built/\n")
    for name in ("src/hub.py", "src/hub_test.py", "docs/the hub.md", "built/hub.o"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("")
    return root


@pytest.mark.spec("_lembas/files/search", "files/search: root")
async def test_a_search_by_directory_and_by_session_gives_the_same(install: Install) -> None:
    root = project(install)
    async with BareLink(install) as link:
        files = (
            '[{"path":"src/hub.py","kind":"file"},{"path":"src/hub_test.py","kind":"file"},'
            '{"path":"docs/the hub.md","kind":"file"}]'
        )
        found = await link.ask(search(5, f'"cwd":"{root}"', "hub"))
        assert (
            found.decode()
            == f'{{"jsonrpc":"2.0","id":5,"result":{{"root":"{root}","files":{files}}}}}'
        )
        new = await link.ask(
            f'{{"jsonrpc":"2.0","id":6,"method":"session/new","params":{{"cwd":"{root}","mcpServers":[]}}}}'
        )
        session = msgspec.json.decode(new)["result"]["sessionId"]
        found = await link.ask(search(7, f'"sessionId":"{session}"', "hub"))
        assert (
            found.decode()
            == f'{{"jsonrpc":"2.0","id":7,"result":{{"root":"{root}","files":{files}}}}}'
        )
        nothing = await link.ask(search(8, f'"sessionId":"{session}"', ""))
        assert (
            nothing.decode()
            == f'{{"jsonrpc":"2.0","id":8,"result":{{"root":"{root}","files":[]}}}}'
        )


async def test_what_session_new_would_refuse_is_refused(zygote_install: Install) -> None:
    install = zygote_install
    project(install)
    install.configure(roots=[str(install.project)], require_trust=True)
    async with BareLink(install) as link:
        refused = await link.ask(search(1, f'"cwd":"{install.base}"', "x"))
        assert refused.decode() == (
            '{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"'
            f"{install.base} is outside the folders this device allows; add it there with "
            f'`lembas remote add {install.base}`","data":{{"reason":"folder"}}}}}}'
        )
        untrusted = await link.ask(search(2, f'"cwd":"{install.project}"', "x"))
        assert msgspec.json.decode(untrusted)["error"]["data"] == {"reason": "trust"}
        done = await install.run("trust", "add", str(install.project))
        assert done.returncode == 0
        allowed = await link.ask(search(3, f'"cwd":"{install.project}"', "hub_test"))
        assert msgspec.json.decode(allowed)["result"]["files"] == [
            {"path": "src/hub_test.py", "kind": "file"}
        ]


@pytest.mark.spec(
    "capability directories",
    "_lembas/directories",
    "directories: places",
    "directories: entries",
    "directories: accepted, reason",
)
async def test_the_directories_are_given_with_what_session_new_would_say(
    zygote_install: Install,
) -> None:
    install = zygote_install
    root = project(install)
    install.configure(roots=[str(root)], require_trust=True)
    done = await install.run("trust", "add", str(root / "src"))
    assert done.returncode == 0
    async with BareLink(install) as link:
        assert "directories" in link.about["capabilities"]
        no = f"{root} is not a trusted project; trust it on the device with `lembas trust add {root}`"
        docs = f"{root}/docs"
        no_docs = f"{docs} is not a trusted project; trust it on the device with `lembas trust add {docs}`"
        src = f'{{"path":"{root}/src","name":"src","accepted":true}}'
        assert (await link.ask(directories(1, "{}"))).decode() == (
            '{"jsonrpc":"2.0","id":1,"result":{"path":"","places":['
            f'{{"path":"{root}","name":"p","accepted":false,"reason":"{no}"}},{src}]}}}}'
        )
        listed = msgspec.json.decode(await link.ask(directories(2, f'{{"path":"{root}"}}')))
        assert listed["result"] == {
            "path": str(root),
            "name": "p",
            "accepted": False,
            "reason": no,
            "parent": None,
            "entries": [
                {"path": f"{root}/built", "name": "built", "accepted": False}
                | {"reason": no_docs.replace("docs", "built")},
                {"path": docs, "name": "docs", "accepted": False, "reason": no_docs},
                {"path": f"{root}/src", "name": "src", "accepted": True},
                {"path": f"{root}/.git", "name": ".git", "accepted": False}
                | {"reason": no_docs.replace("docs", ".git")},
            ],
        }
        inside = (await link.ask(directories(3, f'{{"path":"{root}/src"}}'))).decode()
        assert inside == (
            f'{{"jsonrpc":"2.0","id":3,"result":{{"path":"{root}/src","name":"src",'
            f'"accepted":true,"parent":"{root}","entries":[]}}}}'
        )
        outside = msgspec.json.decode(
            await link.ask(directories(4, f'{{"path":"{install.base}"}}'))
        )
        assert outside["error"]["code"] == -32602


async def test_a_client_on_this_machine_has_no_directories_to_ask_for(
    zygote_install: Install,
) -> None:
    install = zygote_install
    project(install)
    install.configure(roots=[], enabled=False)
    await install.start_hub()
    client = await install.client()
    about = await client.initialize()
    assert "directories" not in about["_meta"]["lembas"]["capabilities"]
    with pytest.raises(Exception, match="_lembas/directories is unknown here"):
        await client.ask("_lembas/directories", {})
    found = await client.ask(
        "_lembas/files/search", {"cwd": str(install.project), "query": "hub_test"}
    )
    assert found["files"] == [{"path": "src/hub_test.py", "kind": "file"}]


async def test_what_a_turn_used_is_what_an_empty_query_gives(
    zygote_install: Install, model: ScriptedModel
) -> None:
    install = zygote_install
    root = project(install)
    await install.start_hub()
    client = await install.client()
    await client.initialize()
    session = await new_session(client, install)
    model.script(Reply(calls=[("read", {"path": "src/hub_test.py"})]), Reply("done"))
    await client.ask("session/prompt", prompt(session, "see @src/ and @gone.py", "t1"))
    empty = {"sessionId": session, "query": ""}
    async with asyncio.timeout(20):
        # it is kept right after the turn's answer
        while not (found := await client.ask("_lembas/files/search", empty))["files"]:
            pass
    assert found == {
        "root": str(root),
        "files": [
            {"path": "src", "kind": "dir"},
            {"path": "src/hub_test.py", "kind": "file"},
        ],
    }


async def test_a_directory_that_does_not_answer_holds_up_nothing_else(
    zygote_install: Install,
) -> None:
    install = zygote_install
    root = project(install)
    (root / ".gitignore").unlink()
    os.mkfifo(root / ".gitignore")  # ripgrep waits for somebody to write into it
    async with BareLink(install) as link:
        link.device.send(search(1, f'"cwd":"{root}"', "hub").encode())
        new = await link.ask(
            f'{{"jsonrpc":"2.0","id":2,"method":"session/new","params":{{"cwd":"{root}","mcpServers":[]}}}}'
        )
        assert b'"result"' in new
        places = await link.ask(directories(3, "{}"))
        assert b'"places"' in places
        late = msgspec.json.decode(await link.answer(1))
        assert late["error"]["code"] == -32603
        assert "did not list its files within" in late["error"]["message"]
