"""What the command line lends the terminal program: starting a hub, the login's account, and other commands."""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from lembasd.ipc.client import HubClient


class Model(Struct, frozen=True):
    """A model that a session can run on. `levels`: the efforts that it takes."""

    name: str
    about: str
    levels: tuple[str, ...] = ()


class Setting(Struct, frozen=True):
    """`whose`: the account, or this device."""

    key: str
    value: str
    whose: str


class Defaults(Struct, frozen=True):
    """What a new session begins with, as far as config.yaml says."""

    model: str
    mode: str
    effort: str


class Ports(Protocol):
    """Everything here may raise LembasError, whose text is for the person."""

    async def connect(self, client: HubClient, say: Callable[[str], None]) -> None:
        """Connect to the hub, starting one when none runs; `say` gets what the person is told meanwhile."""

    async def usage(self) -> str:
        """What the month took, a line each."""

    async def month(self) -> str:
        """The month's cost, each currency by itself; "" where nobody is logged in or nothing was priced."""

    async def models(self) -> list[Model]: ...

    async def settings(self) -> list[Setting]: ...

    async def change(self, key: str, value: str) -> str:
        """Set one setting, and only that; what the person is told."""

    def defaults(self) -> Defaults: ...

    def command(self, arguments: tuple[str, ...]) -> int:
        """Run a command of `lembas` in this terminal; its exit code."""
