"""Whether a call may run: mode by risk class, the floor below every mode, what a person granted for the session.

Deny beats ask beats allow; the floor beats all; a wider mode never turns allow into deny. Paths come in judged.
"""

from collections.abc import Iterable
from typing import Final, Literal

from msgspec import Struct

from lembasd.harness.loader import MODES
from lembasd.protocol.control import Mode

ALLOW: Final = "allow"
ASK: Final = "ask"
DENY: Final = "deny"


class PathFacts(Struct, frozen=True):
    """Where a call's path leads, symlinks followed."""

    path: str
    inside_project: bool
    protected: bool


class CallFacts(Struct, frozen=True):
    """What is judged. `grant` is what an "allow for this session" would cover, as a key and in words.

    `asked`: why the person is asked though the mode may allow it. `confirm`: each time, and nothing remembers it.
    """

    tool: str
    risk: str
    grant: str
    path: PathFacts | None = None
    asked: str = ""
    confirm: bool = False


class Verdict(Struct, frozen=True):
    """`rule` names what decided; `by` is the event's word for it when it is a denial."""

    kind: Literal["allow", "ask", "deny"]
    reason: str
    rule: str
    by: Literal["rule", "floor", "mode"] = "mode"


def judge(call: CallFacts, mode: Mode, grants: frozenset[str]) -> Verdict:
    """The decision on one call."""
    path = call.path
    if path is not None and path.protected:
        return Verdict(
            kind="deny",
            reason=f"{path.path} is protected: no tool may touch it in any mode",
            rule="floor.protected_path",
            by="floor",
        )
    rule = MODES[mode].get(call.risk, ASK)
    where = f"modes.{mode}.{call.risk}"
    if rule == DENY:
        return Verdict(
            kind="deny", reason=f"the {mode} mode allows no {call.risk} calls", rule=where
        )
    if call.confirm:
        return Verdict(kind="ask", reason="this is asked each time", rule="tool.confirm")
    if call.asked and call.grant not in grants:
        return Verdict(kind="ask", reason=call.asked, rule="tool.asked")
    if rule == ALLOW:
        return Verdict(kind="allow", reason=f"the {mode} mode allows it", rule=where)
    if call.grant in grants:
        return Verdict(kind="allow", reason="allowed for this session", rule="session.grant")
    if rule == "allow_inside":
        if path is not None and path.inside_project:
            return Verdict(kind="allow", reason=f"the {mode} mode allows it", rule=where)
        return Verdict(kind="ask", reason="it writes outside the project", rule=f"{where}.outside")
    return Verdict(kind="ask", reason=f"the {mode} mode asks before {call.risk} calls", rule=where)


def strictest(verdicts: Iterable[Verdict]) -> Verdict:
    """Of several paths' verdicts the one that holds for the call: deny beats ask beats allow, the first of equals."""
    return min(verdicts, key=lambda one: (DENY, ASK, ALLOW).index(one.kind))
