"""Whose hello is accepted. The agent's processes run as the same user as the hub: they are let in as clients only."""

from msgspec import Struct

from lembasd.protocol.hello import PROTOCOL, Hello, common_protocol
from lembasd.protocol.ids import is_session_id, is_terminal_id


class Facts(Struct, frozen=True):
    """What the kernel, the hub's own starts and the session's lock say of a peer."""

    #: the peer's pid by its credentials; None where the platform does not tell
    pid: int | None
    #: a worker of ours is among the peer's ancestors, or the process that connected is gone
    below_worker: bool = False
    #: the pid of the process that the hub itself started for this channel; None: none
    started_pid: int | None = None
    #: the pid in the session's lock file while the lock is held; None: it is not held, or not a session
    lock_pid: int | None = None
    #: the pid of the process that is connected for this channel; None: none
    connected_pid: int | None = None


def refusal(hello: Hello, facts: Facts) -> str:
    """Why this peer is refused, as a sentence for its log; "" when it is welcome."""
    if common_protocol(PROTOCOL, hello.protocol) is None:
        low, high = hello.protocol
        remedy = (
            "the hub is the older one: end it with `lembasd stop`, then start it again"
            if low > PROTOCOL[1]
            else "that is older than the hub: end it, or install its version again"
        )
        return (
            f"this hub speaks protocol {PROTOCOL[0]} to {PROTOCOL[1]} and the {hello.role} that "
            f"connects {low} to {high}; {remedy}"
        )
    match hello.role:
        case "client":
            return ""
        case "worker" if hello.session is None or not is_session_id(hello.session.session_id):
            return "a worker's hello names its session"
        case "pty" if hello.terminal is None or not is_terminal_id(hello.terminal.terminal_id):
            return "a terminal's hello names its terminal"
        case "worker" | "utility" | "pty":
            return _process_refusal(hello, facts)
        case _:
            return "a hub takes no hub's hello"


def _process_refusal(hello: Hello, facts: Facts) -> str:
    pid = facts.pid if facts.pid is not None else hello.pid
    if facts.below_worker:
        return "a process below a worker cannot be one"
    if facts.connected_pid not in (None, pid):
        return "this channel has its process already"
    if facts.started_pid == pid:
        return ""
    if hello.role == "worker" and facts.lock_pid != pid:
        return "the process does not hold the lock of its session"
    if hello.role == "utility":
        return "this hub did not ask for the process"
    return ""
