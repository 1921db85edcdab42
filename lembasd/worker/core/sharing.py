"""Whether a session of this machine is shown to the instance, and what the instance is told of it (link.md, announce, left).

It is shared while a client of this machine is there: because a person said so, because `share` is `always` and the limits
let it, or because it was shared before and its terminal is back. What the instance made itself is not shared: it has it.
"""

from collections.abc import Iterable
from typing import Final

from lembasd.protocol.control import Attached, Share
from lembasd.protocol.errors import INVALID_PARAMS
from lembasd.protocol.lembas import AnnounceParams
from lembasd.store.records import TurnError
from lembasd.worker.core.effects import Announce, Effect, JudgeLeft, JudgeShare, SayLeft, SetTimer

#: how long a terminal has to come (back) to a shared session after its hub was gone, or a command shared it; then none has it
BACK_S: Final = 10.0
BACK: Final = "back"
OFF: Final = TurnError(
    INVALID_PARAMS,
    "sessions are not shown to the instance here; `lembas config set share ask` allows it",
    {"reason": "share"},
)


class Sharing:
    """`by_link`: the instance made the session."""

    def __init__(self, *, by_link: bool) -> None:
        self.by_link = by_link
        self.is_on = False
        self.setting: Share = "ask"

    @property
    def refusal(self) -> TurnError | None:
        """Why a person cannot share it."""
        return OFF if self.setting == "never" else None

    def begin(self, clients: Iterable[Attached], announced: AnnounceParams) -> list[Effect]:
        """It is shared from now on."""
        if self.is_on:
            return []
        self.is_on = True
        return [Announce(one.client, announced) for one in clients if not one.local]

    def opened(self, attached: Attached, *, given: bool) -> tuple[bool, list[Effect]]:
        """A client of this machine is there; whether the session is shared with that, or what is to be judged first."""
        ours = attached.opened and attached.protocol > 0 and not self.is_on and not self.by_link
        if not ours or self.setting == "never":
            return False, []
        if given:
            return True, []
        return False, [JudgeShare()] if self.setting == "always" else []

    def let_go(self) -> list[Effect]:
        """No client of this machine is there any more."""
        if not self.is_on:
            return []
        self.is_on = False
        return [JudgeLeft()]

    def left(self, clients: Iterable[Attached], *, available: bool) -> list[Effect]:
        """It is known whether the instance can go on with it."""
        if self.is_on:
            return []
        return [SayLeft(one.client, available) for one in clients if not one.local]

    def nobody_here(self, now: float) -> list[Effect]:
        """No client of this machine is there, but one may be on its way."""
        return [SetTimer(BACK, now + BACK_S)] if self.is_on else []
