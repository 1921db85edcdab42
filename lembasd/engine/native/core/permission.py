"""Whether a call may run: the floor, rules, mode by risk class, what a person granted for the session.

The floor beats all. Deny beats ask beats allow, in whatever order the rules stand; where no rule speaks, the mode decides,
and a grant turns what the mode asks into allow. A wider mode never turns allow into deny. Paths come in judged.
"""

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from lembasd.engine.native.core import rules as speaking
from lembasd.engine.native.core.arity import Grant
from lembasd.engine.native.core.ground import Ground
from lembasd.engine.native.core.rules import Rulebook
from lembasd.harness.loader import MODES
from lembasd.protocol.acp import lowered
from lembasd.protocol.control import Mode
from lembasd.protocol.permission import Rule

ALLOW: Final = "allow"
ASK: Final = "ask"
DENY: Final = "deny"
Kind = Literal["allow", "ask", "deny"]


class PathFacts(Struct, frozen=True):
    """Where a call's path leads, symlinks followed. `protected`, `asked`: for what the call does with it; `why` it is."""

    path: str
    inside_project: bool
    protected: bool
    why: str = ""
    asked: bool = False


class CallFacts(Struct, frozen=True):
    """What is judged. `confirm`: the person is asked in every mode, and nothing remembers the answer.

    `asked`: why the person is asked in every mode, until a yes for the session. `covers`: what such a yes is for, where
    it is neither the call's paths nor the whole tool.
    """

    tool: str
    risk: str
    paths: tuple[PathFacts, ...] = ()
    confirm: bool = False
    asked: str = ""
    covers: Grant | None = None


class Place(Struct, frozen=True):
    """Where a session works: its project and the person's home, absolute."""

    root: str
    home: str


class Verdict(Struct, frozen=True):
    """`rule` names what decided; `by` is the event's word for it when it is a denial.

    `always`: what a session's "allow" would cover; nothing: it is not offered.
    """

    kind: Kind
    reason: str
    rule: str
    by: Literal["rule", "floor", "mode"] = "mode"
    always: tuple[Grant, ...] = ()

    @property
    def always_text(self) -> str | None:
        """What "allow for this session" covers, as a card says it."""
        return ", ".join(one.text for one in self.always) or None


def judge(
    call: CallFacts,
    mode: Mode,
    rules: Rulebook,
    grants: frozenset[Grant],
    place: Place,
) -> Verdict:
    """The decision on one call of a tool that is no command."""
    for path in call.paths:
        if path.protected:
            return Verdict(
                kind=DENY,
                reason=f"{path.path} is protected{_because(path.why)}: no tool may touch it in any mode",
                rule="floor.protected_path",
                by="floor",
            )
    spoken = by_rule(call, rules.rules, place)
    if spoken is not None and spoken.kind == DENY:
        return spoken
    verdict = by_mode(call.risk, mode)
    if verdict.kind == DENY:
        return verdict
    return _asked_always(call) or spoken or _granted(call, verdict, grants, place)


def _asked_always(call: CallFacts) -> Verdict | None:
    """What nothing but the person's yes to this very call allows."""
    if call.confirm:
        reason = "this is asked each time"
        return Verdict(kind=ASK, reason=reason, rule=f"confirm.{call.tool}")
    for path in call.paths:
        if path.asked:
            return Verdict(kind=ASK, reason=path.why, rule="floor.asked_path")
    return None


def _granted(call: CallFacts, verdict: Verdict, grants: frozenset[Grant], place: Place) -> Verdict:
    """The decision where no rule speaks: the mode's, or a grant's."""
    if verdict.rule.endswith(".inside"):
        outside = tuple(one for one in call.paths if not one.inside_project)
        if call.paths and not outside:
            verdict = replace(verdict, kind=ALLOW, rule=verdict.rule.removesuffix(".inside"))
        else:
            # a yes is asked for what the mode does not allow
            call = replace(call, paths=outside)
            where = verdict.rule.replace(".inside", ".outside")
            verdict = Verdict(kind=ASK, reason=OUTSIDE, rule=where)
    wanted, granted = tool_grants(call, place), is_granted(call, grants)
    if call.asked and not granted:
        return Verdict(kind=ASK, reason=call.asked, rule=f"asked.{call.tool}", always=wanted)
    if verdict.kind == ALLOW:
        return verdict
    if granted:
        return Verdict(kind=ALLOW, reason="allowed for this session", rule="session.grant")
    return replace(verdict, always=wanted)


#: why a write is asked about in a mode that allows writes in the project
OUTSIDE: Final = "it writes outside the project"


def path_facts(ground: Ground, path: str, risk: str) -> PathFacts:
    """A path, links followed, as a call of this risk class meets it."""
    kept = ground.access(path)
    access = None if kept is None else kept.access
    protected = access == "none" or (access == "read" and risk != "read")
    asked = access == "ask" and risk != "read"
    return PathFacts(
        path=path,
        inside_project=ground.is_inside(path) and not (access == "outside" and risk != "read"),
        protected=protected,
        why=kept.why if kept is not None and (protected or asked) else "",
        asked=asked,
    )


def by_mode(risk: str, mode: Mode) -> Verdict:
    """What a mode does with a risk class. A rule that ends in `.inside` allows inside the project alone, and asks elsewhere."""
    word = MODES[mode].get(risk, ASK)
    where = f"modes.{mode}.{risk}"
    match word:
        case "deny":
            return Verdict(kind=DENY, reason=f"the {mode} mode allows no {risk} calls", rule=where)
        case "allow":
            return Verdict(kind=ALLOW, reason=f"the {mode} mode allows it", rule=where)
        case "allow_inside":
            return Verdict(kind=ASK, reason=f"the {mode} mode allows it", rule=f"{where}.inside")
        case _:
            return Verdict(kind=ASK, reason=f"the {mode} mode asks before {risk} calls", rule=where)


def by_rule(call: CallFacts, rules: Sequence[Rule], place: Place) -> Verdict | None:
    """What the rules say of a call: the strictest that speaks of it, the last of equals; None: none does."""
    found: dict[Kind, Rule] = {}
    for rule in rules:
        if rule.command or not speaking.speaks_of(rule, call.tool):
            continue
        named = [speaking.names(rule, one.path, place.root, place.home) for one in call.paths]
        if rule.path and not (all(named) and named if rule.decision == ALLOW else any(named)):
            continue
        if rule.inside and not all(one.inside_project for one in call.paths):
            continue
        found[rule.decision] = rule
    for kind in (DENY, ASK, ALLOW):
        if kind in found:
            return ruled(found[kind])
    return None


def ruled(rule: Rule, pattern: str = "") -> Verdict:
    """A rule's decision; `pattern`: which of its commands it was."""
    text = f"{rule.decision}: {rule.tool} {pattern or rule.path}".strip()
    ends: dict[Kind, str] = {ALLOW: "allows it", ASK: "asks before it", DENY: "forbids it"}
    reason = f"the rule “{text}” {ends[rule.decision]}"
    return Verdict(kind=rule.decision, reason=reason, rule=f"rules.{text}", by="rule")


def tool_grants(call: CallFacts, place: Place) -> tuple[Grant, ...]:
    """What an "always" on a tool's call covers: the directory of a file in the project, another file itself, else the tool."""
    if call.confirm or (call.risk == "write" and not call.paths):
        return ()
    if call.covers is not None:
        return (call.covers,)
    if not call.paths:
        return (Grant(call.tool),)
    found: dict[Grant, None] = {}
    for one in call.paths:
        above = one.path.rpartition("/")[0]
        if one.inside_project:
            directory = above if len(above) > len(place.root) else place.root
            found[Grant(call.tool, directory=directory)] = None
        else:
            found[Grant(call.tool, directory=one.path, exact=True)] = None
    return tuple(found)


def is_granted(call: CallFacts, grants: frozenset[Grant]) -> bool:
    """Whether grants cover all of a tool's call."""
    if call.covers is not None:
        return call.covers in grants
    mine = [one for one in grants if one.tool == call.tool]
    if not call.paths:
        return Grant(call.tool) in mine
    return all(any(_reaches(given, one) for given in mine) for one in call.paths)


def _reaches(given: Grant, path: PathFacts) -> bool:
    if given.exact:
        return path.path == given.directory
    if not path.inside_project or not given.directory:
        return False
    below = given.directory.rstrip("/") + "/"
    return path.path == given.directory or path.path.startswith(below)


def attended(verdict: Verdict, *, anybody: bool) -> Verdict:
    """A verdict where nobody may be asked: what would be asked is refused."""
    if anybody or verdict.kind != ASK:
        return verdict
    reason = f"nobody can be asked here, and {verdict.reason}"
    return Verdict(kind=DENY, reason=reason, rule=verdict.rule, by=verdict.by)


def narrowed(mode: Mode, *others: Mode) -> Mode:
    """The narrowest of modes: what a part of a session is given never reaches past the whole's."""
    for other in others:
        mode = lowered(mode, other)
    return mode


def _because(why: str) -> str:
    return f" ({why})" if why else ""
