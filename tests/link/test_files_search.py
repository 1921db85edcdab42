"""link.md, `_lembas/files/search`."""

import asyncio
import os

import msgspec
import pytest

from tests.support.linked_hub import UNKNOWN, LinkedHub, linked_hub, named
from tests.support.scripted_model import Reply

METHOD = "_lembas/files/search"


def project(hub: LinkedHub) -> None:
    root = hub.project
    (root / ".git").mkdir(exist_ok=True)
    (root / ".gitignore").write_text("built/\n")
    for name in ("src/hub.py", "src/hub_test.py", "docs/the hub.md", "built/hub.o"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("")


@pytest.mark.spec(
    "_lembas/files/search", "files/search: root", "files/search: gitignored files are left out"
)
async def test_a_search_by_directory_and_by_session_gives_the_same(hub: LinkedHub) -> None:
    project(hub)
    root, session = hub.project, await hub.new()
    files = (
        '[{"path":"src/hub.py","kind":"file"},{"path":"src/hub_test.py","kind":"file"},'
        '{"path":"docs/the hub.md","kind":"file"}]'
    )
    for where in ({"cwd": str(root)}, {"sessionId": session}):
        assert (
            await hub.client.ask(METHOD, {**where, "query": "hub"})
            == f'{{"root":"{root}","files":{files}}}'
        )
    nothing = await hub.client.ask(METHOD, named(session, query=""))
    assert nothing == f'{{"root":"{root}","files":[]}}'
    # what it gives is what @path reads
    hub.model.script(Reply("done"))
    (root / "docs" / "the hub.md").write_text("of bread\n")
    await hub.turn(session, "t1", "see @docs/the\\ hub.md")
    assert "of bread" in str(hub.messages())


@pytest.mark.spec("files/search: one of sessionId and cwd")
async def test_one_of_session_and_directory_is_named(hub: LinkedHub) -> None:
    session = await hub.new()
    for where in ({}, {"sessionId": session, "cwd": str(hub.project)}):
        answer = await hub.client.ask(METHOD, {**where, "query": "x"})
        assert answer.startswith('{"code":-32602,"message":"'), answer
    assert await hub.client.ask(METHOD, named("ses_" + "0" * 26, query="x")) == UNKNOWN


@pytest.mark.spec("files/search: limit")
async def test_twenty_are_given_and_at_most_fifty(hub: LinkedHub) -> None:
    many = hub.project / "many"
    many.mkdir()
    for number in range(60):
        (many / f"m{number}.txt").write_text("")
    for limit, count in (({}, 20), ({"limit": 3}, 3), ({"limit": 50}, 50), ({"limit": 51}, 50)):
        found = await hub.client.value(METHOD, {"cwd": str(many), "query": "m", **limit})
        assert len(found["files"]) == count, limit


async def test_what_session_new_would_refuse_is_refused() -> None:
    async with linked_hub() as hub:
        project(hub)
        client = await hub.configured(roots=[str(hub.project)], require_trust=True)
        base = hub.install.base
        assert await client.ask(METHOD, f'{{"cwd":"{base}","query":"x"}}') == (
            f'{{"code":-32602,"message":"{base} is outside the folders this device allows; add it there with '
            f'`lembas remote add {base}`","data":{{"reason":"folder"}}}}'
        )
        here = f'{{"cwd":"{hub.project}","query":"hub_test"}}'
        untrusted = msgspec.json.decode(await client.ask(METHOD, here))
        assert untrusted["data"] == {"reason": "trust"}
        assert (await hub.install.run("trust", "add", str(hub.project))).returncode == 0
        allowed = await client.value(METHOD, here)
        assert allowed["files"] == [{"path": "src/hub_test.py", "kind": "file"}]


@pytest.mark.spec("files/search: an empty query gives the recent ones")
async def test_what_a_turn_used_is_what_an_empty_query_gives(own_hub: LinkedHub) -> None:
    hub = own_hub
    project(hub)
    session = await hub.new()
    hub.model.script(Reply(calls=[("read", {"path": "src/hub_test.py"})]), Reply("done"))
    await hub.turn(session, "t1", "see @src/ and @gone.py")
    async with asyncio.timeout(20):
        # it is kept right after the turn's answer
        while not (found := await hub.client.value(METHOD, named(session, query="")))["files"]:
            pass
    assert found == {
        "root": str(hub.project),
        "files": [{"path": "src", "kind": "dir"}, {"path": "src/hub_test.py", "kind": "file"}],
    }


async def test_a_directory_that_does_not_answer_holds_up_nothing_else(own_hub: LinkedHub) -> None:
    hub, root = own_hub, own_hub.project
    (root / ".git").mkdir()
    os.mkfifo(root / ".gitignore")  # ripgrep waits for somebody to write into it
    hanging = hub.client.start(METHOD, f'{{"cwd":"{root}","query":"hub"}}')
    assert await hub.new()
    assert '"places"' in await hub.client.ask("_lembas/directories", "{}")
    late = msgspec.json.decode(await hub.client.answer(hanging))
    assert late["code"] == -32603
    assert "did not list its files within" in late["message"]
