"""What may run."""

from typing import Literal, get_args

import pytest

from lembasd.engine.native.core.permission import CallFacts, PathFacts, Verdict, judge
from lembasd.protocol.control import Mode

NOBODY: frozenset[str] = frozenset()
INSIDE = PathFacts("/p/a", inside_project=True, protected=False)
OUTSIDE = PathFacts("/etc/a", inside_project=False, protected=False)
PROTECTED = PathFacts("/p/key", inside_project=True, protected=True)
Kind = Literal["allow", "ask", "deny"]


def call(risk: str, path: PathFacts | None = INSIDE, tool: str = "tool") -> CallFacts:
    return CallFacts(tool=tool, risk=risk, grant=tool, path=path)


@pytest.mark.parametrize(
    ("mode", "kinds"),
    [
        ("plan", ("allow", "allow", "deny", "deny")),
        ("manual", ("allow", "allow", "ask", "ask")),
        ("edit", ("allow", "allow", "allow", "ask")),
        ("auto", ("allow", "allow", "allow", "allow")),
    ],
)
def test_each_mode_does_with_each_risk_what_the_table_says(
    mode: Mode, kinds: tuple[Kind, ...]
) -> None:
    risks = ("read", "interact", "write", "execute")
    assert tuple(judge(call(risk), mode, NOBODY).kind for risk in risks) == kinds


def test_the_edit_mode_asks_for_a_write_outside_the_project() -> None:
    assert judge(call("write", OUTSIDE), "edit", NOBODY) == Verdict(
        kind="ask", reason="it writes outside the project", rule="modes.edit.write.outside"
    )
    assert judge(call("write", None), "edit", NOBODY).kind == "ask"


@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize("risk", ["read", "write", "execute", "interact"])
def test_a_protected_path_is_refused_in_every_mode_whatever_was_granted(
    mode: Mode, risk: str
) -> None:
    verdict = judge(call(risk, PROTECTED), mode, frozenset({"tool"}))
    assert verdict == Verdict(
        kind="deny",
        reason="/p/key is protected: no tool may touch it in any mode",
        rule="floor.protected_path",
        by="floor",
    )


def test_what_was_granted_for_the_session_is_not_asked_again() -> None:
    granted = frozenset({"tool"})
    assert judge(call("write"), "manual", granted) == Verdict(
        kind="allow", reason="allowed for this session", rule="session.grant"
    )
    assert judge(call("execute", None), "edit", granted).kind == "allow"


def test_a_grant_covers_no_other_call() -> None:
    assert judge(call("write", tool="other"), "manual", frozenset({"tool"})).kind == "ask"


def test_a_grant_never_overcomes_a_denial() -> None:
    verdict = judge(call("write"), "plan", frozenset({"tool"}))
    assert verdict == Verdict(
        kind="deny", reason="the plan mode allows no write calls", rule="modes.plan.write"
    )


def test_a_risk_that_no_mode_knows_is_asked_for() -> None:
    assert judge(call("unheard"), "auto", NOBODY) == Verdict(
        kind="ask", reason="the auto mode asks before unheard calls", rule="modes.auto.unheard"
    )


def test_an_allowed_call_says_which_rule_allowed_it() -> None:
    assert judge(call("read"), "plan", NOBODY) == Verdict(
        kind="allow", reason="the plan mode allows it", rule="modes.plan.read"
    )
    assert judge(call("write"), "edit", NOBODY) == Verdict(
        kind="allow", reason="the edit mode allows it", rule="modes.edit.write"
    )


@pytest.mark.parametrize("mode", ["plan", "manual", "edit", "auto"])
def test_what_a_tool_has_asked_is_asked_in_each_mode_that_allows_it_until_it_is_granted(
    mode: Mode,
) -> None:
    asked = CallFacts(tool="tool", risk="read", grant="tool:host", asked="it asks host")
    assert judge(asked, mode, NOBODY) == Verdict(
        kind="ask", reason="it asks host", rule="tool.asked"
    )
    assert judge(asked, mode, frozenset({"tool:host"})).kind == "allow"


def test_what_is_asked_is_never_allowed_where_the_mode_denies_it() -> None:
    asked = CallFacts(tool="tool", risk="write", grant="tool", asked="it asks host")
    assert judge(asked, "plan", frozenset({"tool"})).kind == "deny"


@pytest.mark.parametrize("mode", ["plan", "manual", "edit", "auto"])
def test_what_is_confirmed_is_asked_each_time_in_each_mode(mode: Mode) -> None:
    confirmed = CallFacts(tool="tool", risk="interact", grant="tool", confirm=True)
    assert judge(confirmed, mode, frozenset({"tool"})) == Verdict(
        kind="ask", reason="this is asked each time", rule="tool.confirm"
    )
