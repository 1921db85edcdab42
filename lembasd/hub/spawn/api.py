"""What the hub sees of both ways to start a process."""

from collections.abc import Callable
from typing import Final, Literal, Protocol

from msgspec import Struct

from lembasd.protocol.spawn import Assignment, SpawnRole
from lembasd.protocol.takeover import Helper

#: of a helper (a zygote or a spare): what is made of it
Kind = Literal["worker", "pty"]
KINDS: Final[tuple[Kind, ...]] = ("worker", "pty")


def kind_of(role: SpawnRole) -> Kind:
    return "pty" if role == "pty" else "worker"


class HelperStatus(Struct, frozen=True):
    """A zygote, or a spare that waits for its assignment, for `lembasd status`.

    `earlier`: it was another version's before a reload, starts nothing any more, and ends with its last child.
    """

    kind: Kind
    pid: int
    ready: bool
    spare: bool
    version: str = ""
    earlier: bool = False


class SpawnerHandler(Protocol):
    """Told of what comes of a start. Called from the loop, never from within `Spawner.watch`."""

    def process_started(self, spawn: int, pid: int) -> None:
        """The process of this spawn number runs as `pid`. May come after its hello, and from within `start`."""

    def process_failed(self, spawn: int, reason: str) -> None:
        """It was not started; `reason` is one sentence. Nothing more comes of this number."""

    def process_ended(self, pid: int, status: int | None) -> None:
        """The process is gone and so are its tools. `status` is waitpid's, None when nobody could learn it."""


class Spawner(Protocol):
    """Starts processes. Made before the loop: its helpers warm up while the hub does."""

    #: called when a helper came, went or is ready
    on_change: Callable[[], None]
    #: called when helpers of a kind end again and again (True), and when they do not any more; set before `begin`
    on_loop: Callable[[Kind, bool], None]

    def begin(self, handler: SpawnerHandler) -> None:
        """Serve from now on, in the running loop."""

    def start(self, assignment: Assignment) -> None:
        """Start one process, at once or as soon as a helper is there."""

    def watch(self, pid: int, channel: str = "") -> None:
        """Tell `process_ended` of a process that another hub started. `channel`: its session, whose tools end with it."""

    def reap_strangers(self, known: set[int]) -> None:
        """Look through what became this process' own child (the hub is a subreaper) and is not in `known`."""

    def helpers(self) -> list[HelperStatus]:
        """The helpers that run now."""

    def helper_pids(self) -> list[int]:
        """Their pids."""

    @property
    def settled(self) -> bool:
        """Whether the pid of everything that was asked for is known."""

    @property
    def persons(self) -> bool:
        """Whether what persons started in their terminals may be among this process' children."""

    def left(self) -> list[Helper]:
        """The helpers that whoever goes on in this process has to reap."""

    def guest(self, pid: int) -> None:
        """A child of this process that somebody else waits for: it is no orphan."""

    def guest_ended(self, pid: int) -> None:
        """It was waited for."""

    def release(self) -> None:
        """Start nothing any more and let the helpers go. Ends are still told."""

    def close(self) -> None:
        """Stop listening. Zygotes stay until their last child is gone; unused spares go."""
