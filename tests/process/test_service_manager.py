"""A hub that a service manager runs: handed its socket, heard, restarted, watched, stopped."""

import os
import signal

import pytest

from lembasd.device.lock import all_gone
from lembasd.ipc.client import HubClient
from tests.support.daemon import Install, gone
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.service_manager import SOON_S, ServiceManager
from tests.support.sessions import new_session, prompt, worker_pid

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]


@pytest.fixture
def install(zygote_install: Install, model: ScriptedModel) -> Install:
    model.choose = lambda _body: Reply(text="done")
    return zygote_install


async def test_a_hub_serves_on_the_socket_it_was_given_and_leaves_it_there(
    install: Install,
) -> None:
    async with ServiceManager(install) as manager:
        inode = install.paths.socket.stat().st_ino
        pid = await manager.start()
        assert manager.heard == [f"STATUS=version 0.1.0, {install.paths.socket}"]
        client = await install.client()
        assert (await client.ask("_hub/status", {}))["hub"]["pid"] == pid
        # what it says goes to the journal as well
        assert '"event":"hub_listening"' in install.output()
        client.hub.close()
        await manager.stop()
        assert manager.ends == [0]
        await manager.told("STOPPING=1")
        assert install.paths.socket.stat().st_ino == inode


async def test_a_restart_leaves_sessions_at_work(install: Install) -> None:
    async with ServiceManager(install) as manager:
        first = await manager.start()
        client = await install.client()
        await client.initialize()
        session = await new_session(client, install)
        worker = await worker_pid(install, session)
        client.hub.close()
        await manager.stop()
        second = await manager.start()
        assert second != first
        await install.milestones.wait("hub.adopted", session_id=session, pid=second)
        assert await worker_pid(install, session) == worker
        client = await install.client()
        await client.initialize()
        answer = await client.ask("session/prompt", prompt(session, "one", "t1"))
        assert answer["stopReason"] == "end_turn"
        client.hub.close()
        await install.stop()
        assert manager.ends == [0, 0]


async def test_nobody_who_looks_for_the_hub_starts_one_that_was_stopped(install: Install) -> None:
    async with ServiceManager(install) as manager:
        await manager.start()
        client = await install.client()
        await client.initialize()
        await new_session(client, install)
        await client.ask("_lembas/terminal/open", {"cwd": str(install.project)})
        client.hub.close()
        await manager.stop()
        # the manager still listens; a worker or terminal that looks for its hub must not connect to it
        for _ in range(2):
            await install.milestones.wait("worker.found_no_hub")
            await install.milestones.wait("pty.found_no_hub")
        assert not manager.has_callers()
        done = await install.run("status", service=True)
        assert (done.returncode, manager.has_callers()) == (3, False)
        await install.stop()


async def test_a_hub_that_hangs_is_replaced_and_its_sessions_are_adopted(install: Install) -> None:
    async with ServiceManager(install, watchdog_s=1.5) as manager:
        first = await manager.start()
        client = await install.client()
        await client.initialize()
        session = await new_session(client, install)
        worker = await worker_pid(install, session)
        os.kill(first, signal.SIGSTOP)
        adopted = await install.milestones.wait("hub.adopted", 60.0, session_id=session)
        assert (manager.ends, adopted["pid"] == first) == ([-signal.SIGKILL], False)
        assert await worker_pid(install, session) == worker
        client.hub.close()
        await install.stop()


async def test_a_hub_that_is_killed_is_started_again(install: Install) -> None:
    async with ServiceManager(install) as manager:
        first = await manager.start()
        os.kill(first, signal.SIGKILL)
        await manager.told("READY=1")
        client = HubClient()
        hello = await client.connect(install.paths.socket)
        assert hello.pid != first
        client.close()
        await install.stop()


async def test_stop_under_a_manager_ends_everything_and_is_no_failure(install: Install) -> None:
    async with ServiceManager(install) as manager:
        first = await manager.start()
        client = await install.client()
        await client.initialize()
        session = await new_session(client, install)
        worker = await worker_pid(install, session)
        client.hub.close()
        # as `systemctl stop` after the marker was written
        install.paths.stopping.touch()
        await manager.stop()
        await gone(worker, SOON_S)
        await gone(first, SOON_S)
        assert manager.ends == [0]
        assert install.paths.socket.exists()
        assert all_gone(install.paths)
