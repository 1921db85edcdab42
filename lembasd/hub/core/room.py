"""Which worker makes room for another when as many run as may."""

from collections.abc import Iterable
from typing import Final

from lembasd.hub.core.table import Channel, State, Table

#: an idle worker that was asked to end does so at once; what waits for its room longer than this is refused
ROOM_WAIT_S: Final = 5.0
_RUNS: Final = (State.STARTING, State.LIVE, State.AWAITED)


def _workers(table: Table) -> Iterable[Channel]:
    return (one for one in table.channels.values() if one.role == "worker" and one.state in _RUNS)


def is_left(table: Table, starting: Channel) -> bool:
    """Whether one more worker may run, for `starting`."""
    return sum(one is not starting for one in _workers(table)) < table.settings.max_workers


def least_used(table: Table) -> Channel | None:
    """The worker that was used least lately of those that have nothing to do and were not asked to end yet."""
    idle = [one for one in _workers(table) if _is_idle(table, one)]
    return min(idle, key=lambda one: one.used, default=None)


def _is_idle(table: Table, channel: Channel) -> bool:
    """As far as the hub can see: the worker is asked all the same."""
    said = channel.session
    return (
        channel.state is State.LIVE
        and not (channel.asked_to_end or channel.unresponsive)
        and not (said.busy or said.queued or table.approvals.cards(channel.id))
        and not table.requests.of_process(channel.id)
        and not any(one.local for one in table.attachments.of(channel.id))
    )
