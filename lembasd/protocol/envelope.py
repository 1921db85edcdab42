"""The envelope of a frame on the local sockets, and the kinds of frame.

A frame is a 4-byte big-endian length and one msgpack `Envelope`; its `payload` is a msgpack `bin`, which the
decoder skips by its length. The hub reads the envelope and passes the payload on untouched.
"""

from typing import Final

from msgspec import Struct, field

# both ways
HELLO: Final = "hello"  # payload: hello.Hello as JSON; the first frame each way
RPC: Final = "rpc"  # payload: one finished JSON-RPC message
PING: Final = "ping"  # answered with PONG at once, whatever else is queued
PONG: Final = "pong"
UNKNOWN: Final = (
    "unknown"  # payload: control.Unknown; the answer to a kind not known, never itself answered
)

# worker or pty to hub
STATE: Final = "state"  # payload: control.SessionState (worker) or control.TerminalState (pty)
CARD: Final = "card"  # payload: control.CardInfo; sent before the card's request goes to a client
SETTLED: Final = (
    "settled"  # envelope.card names it; payload: the finished _lembas/permission/settled message
)
OUTDATED: Final = (
    "outdated"  # envelope.client does not know a question or a plan: it is one of protocol 1
)
RESENT: Final = "resent"  # envelope.client and seq: the resend asked for is complete up to seq
LEAVING: Final = "leaving"  # payload: control.Leaving; "I am idle: may I end?"; answered LEAVE, or not at all if there is work for it
#: payload: output of the terminal as it is, for a local client that asked for it so; `offset`: where it begins
OUTPUT: Final = "output"
DISCARD: Final = "discard"  # what is queued of the terminal's output, and may be left out, is not wanted any more
NEED: Final = (
    "need"  # payload: control.Need; asks the hub for something it holds (the account after a 401)
)

# hub to worker or pty
ATTACHED: Final = "attached"  # payload: control.Attached
DETACHED: Final = "detached"  # envelope.client
SETTINGS: Final = (
    "settings"  # payload: control.Settings; before the first request and at every change
)
RESEND: Final = (
    "resend"  # envelope.client and seq: send again what came after seq, to this client alone
)
CREDIT: Final = (
    "credit"  # envelope.client, payload: control.Credit; what that viewer's socket has taken
)
DISCARDED: Final = (
    "discarded"  # envelope.client, payload: control.Credit; what of its output was left out
)
#: payload: keys as they are, of a local client (which sends it without `client`) for the terminal
INPUT: Final = "input"
#: "another session needs the room": a worker that is idle says LEAVING, another one nothing
YIELD: Final = "yield"
LEAVE: Final = "leave"  # the answer to LEAVING: nothing more will come, end
TIDY: Final = "tidy"  # to the utility worker: remove what is kept no longer, if it is time
STOP: Final = "stop"  # payload: control.Stop; cancel the turn and end

# audiences of what a worker says of its session
ALL: Final = "all"  # every attached client
LEMBAS: Final = "lembas"  # attached clients that said clientCapabilities._meta.lembas
LOCAL: Final = "local"  # those of them that are on this machine
ONE: Final = "one"  # the one named in `client`


class Envelope(Struct, frozen=True, omit_defaults=True, gc=False):
    """What a hub must know of a frame without decoding its payload.

    `message` numbers the messages of one connection and direction from 1; frames of one message share it and
    `total` (the whole payload's bytes), and all but the last say `more`. A message of one frame may leave all three out.
    """

    kind: str = field(name="k")
    payload: bytes = field(name="p", default=b"")
    #: the session or terminal it belongs to; "" when it belongs to the connection
    channel: str = field(name="c", default="")
    #: (epoch, seq) number a session's messages; epoch grows with each life of its worker
    epoch: int = field(name="e", default=0)
    seq: int = field(name="s", default=0)
    message: int = field(name="n", default=0)
    total: int = field(name="l", default=0)
    more: bool = field(name="m", default=False)
    #: the client's connection, a number the hub never uses twice, not even over its own restarts (it is
    #: connection and generation in one): a reply to a connection that is gone finds nobody and is dropped
    client: int = field(name="i", default=0)
    #: hub's number of the request this frame carries (hub to worker) or answers (worker to hub); 0: none
    request: int = field(name="r", default=0)
    #: who gets it: ALL, LEMBAS, LOCAL or ONE ("" for frames that are for the hub itself)
    audience: str = field(name="a", default="")
    #: text or output that may be left out for a slow client and come back merged
    delta: bool = field(name="d", default=False)
    #: the toolCallId of the card that an RPC frame asks or a SETTLED frame takes down (a file that is shown is no card)
    card: str = field(name="t", default="")
    #: set on an answer that is a JSON-RPC error, so that the hub need not decode it to know
    failed: bool = field(name="f", default=False)
    #: hub to worker: a client on this machine says this, whom the limits do not bind
    local: bool = field(name="h", default=False)
    #: of OUTPUT: the bytes of the terminal's output before it
    offset: int = field(name="o", default=0)
