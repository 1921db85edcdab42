"""A hub and its workers in one process, whose engines do what a test says; clients on both sides are text."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from lembasd.hub.link_client import LinkSink
from lembasd.protocol.control import Account, Remote, Settings
from lembasd.worker.runner import Worker
from tests.support import scripted_engine
from tests.support.bare_client import LEMBAS, BareClient
from tests.support.hub_process import RunningHub, running_hub
from tests.support.scripted_engine import Models, Workbench

LEMBAS_2: Final = LEMBAS.replace('"protocol":3', '"protocol":2')
#: a client that knows of nothing beyond protocol 1, and one that is no LLeMbas client
LEMBAS_1: Final = '{"protocolVersion":1,"clientCapabilities":{"_meta":{"lembas":true}}}'
EDITOR: Final = '{"protocolVersion":1}'


class Socket:
    """Both ends of one client's connection: the client's, and the hub's (a lembasd.hub.link_client.Connection)."""

    def __init__(self, hub: RunningHub, *, local: bool) -> None:
        self._hub = hub
        #: None after the last one
        self._said: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.closed = asyncio.Event()
        self.close_reason = ""
        sink = LinkSink(_FarEnd(self._said))
        pid = os.getpid() if local else None
        self._number = hub.hub.client_joined(sink, local=local, pid=pid)

    def send(self, text: bytes, /) -> None:
        self._hub.hub.client_said(self._number, text)

    async def messages(self) -> AsyncIterator[bytes]:
        while (message := await self._said.get()) is not None:
            yield message

    def drop(self) -> None:
        if not self.closed.is_set():
            self.closed.set()
            self._said.put_nowait(None)
            self._hub.hub.client_left(self._number)


class _FarEnd:
    """What the hub sees."""

    has_room = True

    def __init__(self, said: "asyncio.Queue[bytes | None]") -> None:
        self._said = said

    def send(self, payload: bytes) -> None:
        self._said.put_nowait(payload)

    def close(self, code: int, reason: str) -> None: ...


class AskingSession:
    """`link` and `local` make clients that have said initialize; `open` makes a session whose engine interacts."""

    def __init__(self, hub: RunningHub, project: Path) -> None:
        self.hub = hub
        self.project = project
        self.bench = Workbench(scripted_engine.interact)
        self._clients: list[BareClient] = []

    def set_remote(self, **fields: Any) -> None:
        """Change the limits, as the device's file has them from now on."""
        settings = self.hub.settings.settings
        remote = msgspec.structs.replace(settings.remote, **fields)
        self.hub.settings.settings = msgspec.structs.replace(settings, remote=remote)

    async def link(self, lembas: str = LEMBAS) -> BareClient:
        return await self._client(lembas, local=False)

    async def local(self, lembas: str = LEMBAS) -> BareClient:
        return await self._client(lembas, local=True)

    async def _client(self, lembas: str, *, local: bool) -> BareClient:
        client = BareClient(Socket(self.hub, local=local))
        self._clients.append(client)
        await client.ask("initialize", lembas)
        return client

    async def close(self) -> None:
        """End every connection. Nothing that passed was against ACP's schema."""
        for client in self._clients:
            client.device.drop()
            await client.closed()
        faults = [fault for client in self._clients for fault in client.judge.faults]
        assert faults == [], faults

    async def open(self, client: BareClient) -> str:
        """A session that the client has made; its id."""
        made = await client.value("session/new", f'{{"cwd":"{self.project}","mcpServers":[]}}')
        session: str = made["sessionId"]
        return session

    def outcome(self) -> Any:
        """What the engine of the last session was told, as JSON values."""
        return msgspec.to_builtins(self.bench.engine.outcomes[-1])

    async def serve(self) -> None:
        """Run a worker for each that the hub starts."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                assignment = await self.hub.starter.started.get()
                self.hub.hub.children.process_started(assignment.spawn, os.getpid())
                worker = Worker(assignment, self.hub.paths, self.bench, Models())
                tasks.create_task(worker.run())


def prompt(session: str, text: str) -> str:
    """The params of a prompt."""
    return f'{{"sessionId":"{session}","prompt":[{{"type":"text","text":"{text}"}}]}}'


@asynccontextmanager
async def asking_session(base: Path, **remote: Any) -> AsyncIterator[AskingSession]:
    project = (base / "project").resolve()
    project.mkdir()
    limits = Remote(enabled=True, roots=[str(project)], require_trust=False)
    settings = Settings(
        remote=msgspec.structs.replace(limits, **remote),
        account=Account(base_url="http://127.0.0.1:1", token="t", default_model="served"),
    )
    async with running_hub(base, settings) as hub:
        scene = AskingSession(hub, project)
        serving = asyncio.create_task(scene.serve())
        try:
            yield scene
            await scene.close()
        finally:
            serving.cancel()
            await asyncio.wait({serving})
