"""What an open session is made with: the way to the hub, and the making of its engine."""

from typing import Protocol

from lembasd.engine.api import Engine, Host, ListKeeper
from lembasd.protocol.control import Account, Mode
from lembasd.protocol.envelope import Envelope
from lembasd.store.records import AnyRecord


class EngineFactory(Protocol):
    """Makes a session's engine. `records`: everything its journal holds."""

    def __call__(
        self,
        host: Host,
        records: list[AnyRecord],
        *,
        mode: Mode,
        model: str,
        effort: str,
        epoch: int,
    ) -> Engine: ...


class ModelChooser(Protocol):
    """Finds what a client asks for among the models of the login's instance."""

    async def __call__(
        self, keeper: ListKeeper, account: Account, model: str, effort: str
    ) -> tuple[str, str]:
        """The model as it is served, and the effort or the one it starts with. Raises RequestRefused (-32602)."""


class Wire(Protocol):
    """The way to the hub."""

    @property
    def ready(self) -> bool: ...

    def send(self, message: Envelope) -> None: ...

    def control(self, frame: Envelope) -> None: ...
