"""What is wrong with the service now: said once in the log when it begins and when it is over, and shown in between."""

from typing import Final, Literal, assert_never

from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from lembasd.protocol.ids import is_session_id

#: crash_loop: a process that is started again and again. disk: hardly any room is left where sessions are kept.
#: descriptors, terminals: of the hub's descriptors, or the machine's pseudo-terminals, most are in use
AlarmKind = Literal["crash_loop", "disk", "descriptors", "terminals"]

_HELPERS: Final = {
    "worker": "what starts sessions ends again and again, it is tried once a minute; look at crash.log",
    "pty": "what starts terminals ends again and again, it is tried once a minute; look at crash.log",
}


class Alarm(Struct, frozen=True):
    """`channel`: the session, helper or the like that it is about; `text` is one sentence for a person."""

    kind: AlarmKind
    channel: str
    text: str


class Alarms:
    """Those of one hub."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log
        self._raised: dict[tuple[AlarmKind, str], Alarm] = {}

    @property
    def raised(self) -> list[Alarm]:
        """Those that are not over, the oldest first."""
        return list(self._raised.values())

    def begin(self, kind: AlarmKind, channel: str, text: str) -> None:
        """Say that it begins; nothing when it has already."""
        if (kind, channel) in self._raised:
            return
        self._raised[kind, channel] = Alarm(kind, channel, text)
        match kind:
            case "crash_loop":
                self._log.error("crash_loop", channel=channel, error=text)
            case "disk":
                self._log.error("disk_low", error=text)
            case "descriptors" | "terminals":
                self._log.warning("budget_low", kind=kind, error=text)
            case _:
                assert_never(kind)

    def over(self, kind: AlarmKind, channel: str) -> None:
        """Say that it is over; nothing when it had not begun."""
        if self._raised.pop((kind, channel), None) is not None:
            self._log.info("alarm_over", kind=kind, channel=channel)

    def loop(self, channel: str, *, loops: bool) -> None:
        """A process of this session, helper or reader ends again and again, or does not any more."""
        if loops:
            self.begin("crash_loop", channel, _said(channel))
        else:
            self.over("crash_loop", channel)


def _said(channel: str) -> str:
    if is_session_id(channel):
        return (
            f"the process of {channel} ended three times within a minute; it is closed until its next prompt, "
            "look at crash.log"
        )
    return _HELPERS.get(
        channel,
        "what reads sessions that are not open ends again and again, it is tried once a minute; look at crash.log",
    )
