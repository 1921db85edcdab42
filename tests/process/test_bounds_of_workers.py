"""How many workers run, and what one may have in memory."""

import asyncio
import resource

import psutil
import pytest

from lembasd.device.config import MIN_WORKER_MEMORY_BYTES
from lembasd.device.runtime import MAX_DESCRIPTORS
from lembasd.protocol.errors import RequestRefused
from tests.support.daemon import Client, Install, gone
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.sessions import new_session, prompt, worker_pid

pytestmark = [pytest.mark.process, pytest.mark.timeout(90)]


def set_hub(install: Install, **values: int) -> None:
    lines = "".join(f"  {key}: {value}\n" for key, value in values.items())
    with install.paths.config_file.open("a", encoding="utf-8") as file:
        file.write(f"hub:\n{lines}")


async def person(install: Install) -> Client:
    client = await install.client()
    await client.initialize()
    return client


async def opened(client: Client, install: Install) -> str:
    """A session, as soon as the hub knows that somebody else has left."""
    async with asyncio.timeout(20):
        while True:
            try:
                return await new_session(client, install)
            except RequestRefused as refused:
                if not (refused.data or {}).get("retryable"):
                    raise


async def test_an_idle_session_makes_room_and_opens_again_and_one_that_is_looked_at_stays(
    zygote_install: Install,
) -> None:
    install = zygote_install
    set_hub(install, max_workers=2)
    await install.start_hub()
    first = await person(install)
    sessions = [await new_session(first, install) for _ in range(2)]
    pids = [await worker_pid(install, one) for one in sessions]
    second = await person(install)
    with pytest.raises(RequestRefused) as refused:
        await new_session(second, install)
    assert refused.value.data == {"reason": "busy", "retryable": True}
    first.hub.close()

    third = await opened(second, install)
    await gone(pids[0])
    assert psutil.pid_exists(pids[1])
    answer = await second.ask("session/prompt", prompt(sessions[0], "hello", "t1"))
    assert answer["stopReason"] == "end_turn"
    await gone(pids[1])
    assert {one["session_id"] for one in (await install.status())["workers"]} == {
        sessions[0],
        third,
    }
    second.hub.close()


async def test_a_worker_over_its_memory_ends_as_a_crash_and_its_turn_says_why(
    install: Install, model: ScriptedModel
) -> None:
    set_hub(install, worker_memory=MIN_WORKER_MEMORY_BYTES)
    never = asyncio.Event()
    # it is kept whole, and most of it several times
    model.choose = lambda _body: Reply(text="\U0001d11e" * 3_900_000, hold=never)
    await install.start_hub()
    client = await person(install)
    session, other = await new_session(client, install), await new_session(client, install)
    pid = await worker_pid(install, session)
    with pytest.raises(RequestRefused) as ended:
        await client.ask("session/prompt", prompt(session, "look", "t1"))
    assert "hub.worker_memory: 96 MiB" in ended.value.message
    assert ended.value.data == {"reason": "worker_ended"}
    await gone(pid)
    # it is answered so again, and never runs again
    asked = len(model.requests)
    with pytest.raises(RequestRefused) as again:
        await client.ask("session/prompt", prompt(session, "look", "t1"))
    assert again.value.message == ended.value.message
    assert len(model.requests) == asked
    assert (await client.ask("_lembas/session/status", {"sessionId": other}))["held"] != "none"
    never.set()
    client.hub.close()


async def test_a_command_has_the_persons_bound_of_descriptors_and_the_hub_all_there_are(
    install: Install, model: ScriptedModel
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    try:
        await install.start_hub()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    client = await person(install)
    session = await new_session(client, install)
    model.script(Reply(calls=[("bash", {"command": "ulimit -Sn > bound"})]), Reply(text="done"))
    await client.ask("session/prompt", prompt(session, "look", "t1"))
    assert (install.project / "bound").read_text() == "512\n"
    most = hard if hard != resource.RLIM_INFINITY else MAX_DESCRIPTORS
    assert (await install.status())["hub"]["max_fds"] == min(most, MAX_DESCRIPTORS)
    client.hub.close()
