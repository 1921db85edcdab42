"""The moments of a chaos run: where a process is stopped, so that something can be done exactly there."""

from typing import Final

from msgspec import Struct


class Moment(Struct, frozen=True):
    """`milestone`: where a process stops itself; "": the model's server has the request and says nothing yet."""

    name: str
    milestone: str
    #: what the prompt that leads there has to be
    flavour: str = "plain"
    #: only a session that asks leads there
    asks: bool = False
    #: what leads there is another hub, not a prompt
    of_hub: bool = False


REQUEST_SENT: Final = Moment("request sent", "")
MOMENTS: Final = [
    Moment("accepted", "worker.turn_accepted"),
    Moment("synced", "worker.turn_synced"),
    Moment("started", "worker.turn_started"),
    REQUEST_SENT,
    Moment("first token", "worker.first_token"),
    Moment("card open", "worker.card_asked", asks=True),
    Moment("tool started", "worker.tool_started"),
    Moment("tool ended", "worker.tool_ended"),
    Moment("compaction", "worker.compacted", flavour="full"),
    Moment("end line", "worker.end_written"),
    Moment("turns file", "worker.turn_kept"),
    Moment("answered", "worker.turn_ended"),
    Moment("hello", "worker.connected", of_hub=True),
    Moment("adoption", "hub.adopted", of_hub=True),
]
