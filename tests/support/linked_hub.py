"""A real hub that is linked to a bare client, with a scripted model behind the instance: what the tests of the link stand on."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from lembasd.device import credentials
from lembasd.device.credentials import Credentials
from tests.support.bare_client import LEMBAS, BareClient, Message
from tests.support.daemon import Install
from tests.support.fake_instance import TOKEN, FakeInstance
from tests.support.scripted_model import Reply, ScriptedModel

MODELS: Final[list[dict[str, Any]]] = [
    {"id": "plain"},
    {"id": "deepseek/flash", "kind": "chat", "efforts": ["low", "high"], "default_effort": "low"},
    {"id": "eyes", "vision": True, "thinking_switch": True},
    {"id": "blind", "vision": False},
    {"id": "words", "kind": "embedding"},
]
UNKNOWN: Final = '{"code":-32602,"message":"unknown session"}'
CHAT: Final = "/v1/chat/completions"


class LinkedHub:
    """`client` is the link that is up. The device is logged in to "Moria" as the connection "moria"."""

    def __init__(self, install: Install, instance: FakeInstance, model: ScriptedModel) -> None:
        self.install = install
        self.instance = instance
        self.model = model
        self.client: BareClient
        #: every client that there was
        self.clients: list[BareClient] = []

    @property
    def project(self) -> Path:
        return self.install.project

    async def linked(self, initialize: str = LEMBAS) -> BareClient:
        """The next link, which is `client` from then on."""
        self.client = await BareClient.of(self.instance, initialize)
        self.clients.append(self.client)
        return self.client

    async def again(self, initialize: str = LEMBAS) -> BareClient:
        """Drop the link as a network does; the next one. More than once and the device waits before it dials."""
        self.client.device.drop()
        return await self.linked(initialize)

    async def configured(self, initialize: str = LEMBAS, **remote: Any) -> BareClient:
        """Change what hello says: the device dials again at once, however often."""
        self.install.configure(**remote)
        return await self.linked(initialize)

    async def new(self, mode: str = "auto", model: str = "plain", **meta: Any) -> str:
        """A session of the client's in the project."""
        asked = {
            "cwd": str(self.project),
            "mcpServers": [],
            "_meta": {"mode": mode, "lembas_model": model, **meta},
        }
        return str((await self.client.value("session/new", asked))["sessionId"])

    def prompt(
        self, session: str, turn: str, text: str = "", *blocks: dict[str, Any], **lembas: Any
    ) -> int:
        """Send a prompt, "say <turn>" where no text is given; its request's id."""
        asked = {
            "sessionId": session,
            "prompt": [{"type": "text", "text": text or f"say {turn}"}, *blocks],
            "_meta": {"lembas": {"turnId": turn, **lembas}},
        }
        return self.client.start("session/prompt", asked)

    async def turn(
        self, session: str, turn: str, text: str = "", *blocks: dict[str, Any], **lembas: Any
    ) -> str:
        """A whole turn; the text of its answer."""
        return await self.client.answer(self.prompt(session, turn, text, *blocks, **lembas))

    async def commands(self, *lines: str, mode: str = "manual") -> tuple[str, int]:
        """A session and its turn, in which the model runs these commands, one a step; its request's id."""
        session = await self.new(mode=mode)
        self.model.script(*(Reply(calls=[("bash", {"command": one})]) for one in lines))
        self.model.script(Reply("done"))
        return session, self.prompt(session, "t1")

    def ran(self, name: str) -> list[str]:
        """The words in a file of the project, which commands left there."""
        path = self.project / name
        return path.read_text().split() if path.exists() else []

    async def working(self, session: str, turn: str) -> tuple[int, asyncio.Event]:
        """A turn that has said "thinking" and goes on once the event is set; its request's id."""
        hold = asyncio.Event()
        self.model.script(Reply(text="thinking", hold=hold))
        asked = self.prompt(session, turn)
        await self.client.event(session, "step")
        await self.client.event(session, "text", '"text":"king"')
        return asked, hold

    async def status(self, session: str) -> str:
        return await self.client.ask("_lembas/session/status", named(session))

    async def history(self, session: str) -> Any:
        return await self.client.value("_lembas/session/history", named(session))

    def messages(self, number: int = -1) -> list[dict[str, Any]]:
        """What the model was sent in one of its requests, the last one by default."""
        found: list[dict[str, Any]] = self.model.requests[number]["messages"]
        return found

    def judged(self) -> None:
        """Nothing that passed was against ACP's schema."""
        faults = [fault for client in self.clients for fault in client.judge.faults]
        assert faults == [], faults


def named(session: str, **more: Any) -> dict[str, Any]:
    """Params that name a session."""
    return {"sessionId": session, **more}


def call_of(card: Message) -> str:
    """The tool call that a card is of."""
    return str(card.params["toolCall"]["toolCallId"])


@asynccontextmanager
async def linked_hub(**remote: Any) -> AsyncIterator[LinkedHub]:
    """All of it, with these keys of `remote:` beside those of `Install.configure`."""
    base = Path(tempfile.mkdtemp(prefix="lb", dir="/tmp"))
    try:
        async with (
            ScriptedModel() as model,
            FakeInstance() as instance,
            Install(base) as install,
        ):
            instance.model_port = model.port
            instance.models = list(MODELS)
            install.configure(**remote)
            install.paths.make()
            login = Credentials(
                server=instance.url,
                token=TOKEN,
                default_model="plain",
                connection="moria",
                instance_name="Moria",
            )
            credentials.store(install.paths.credentials_file, login)
            await install.start_hub()
            hub = LinkedHub(install, instance, model)
            await hub.linked()
            yield hub
            hub.judged()
    finally:
        shutil.rmtree(base, ignore_errors=True)
