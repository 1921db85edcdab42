"""What may run."""

from typing import Literal, get_args

import pytest

from lembasd.engine.native.core.arity import Grant
from lembasd.engine.native.core.permission import (
    CallFacts,
    PathFacts,
    Place,
    Verdict,
    attended,
    judge,
    narrowed,
)
from lembasd.engine.native.core.rules import Rulebook
from lembasd.harness.permissions import DEFAULTS
from lembasd.protocol.control import Mode
from lembasd.protocol.permission import Rule

NOBODY: frozenset[Grant] = frozenset()
NO_RULES = Rulebook([])
PLACE = Place("/p", "/home/u")
INSIDE = PathFacts("/p/a", inside_project=True, protected=False)
DEEP = PathFacts("/p/src/a", inside_project=True, protected=False)
OUTSIDE = PathFacts("/etc/a", inside_project=False, protected=False)
PROTECTED = PathFacts("/p/key", inside_project=True, protected=True, why="it is ours")
Kind = Literal["allow", "ask", "deny"]


def call(risk: str, *paths: PathFacts, tool: str = "write", confirm: bool = False) -> CallFacts:
    return CallFacts(tool=tool, risk=risk, paths=paths or (INSIDE,), confirm=confirm)


def decided(
    one: CallFacts,
    mode: Mode,
    grants: frozenset[Grant] = NOBODY,
    rules: Rulebook = NO_RULES,
) -> Verdict:
    return judge(one, mode, rules, grants, PLACE)


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
    assert tuple(decided(call(risk), mode).kind for risk in risks) == kinds


def test_the_edit_mode_asks_for_a_write_outside_the_project() -> None:
    assert decided(call("write", OUTSIDE), "edit") == Verdict(
        kind="ask",
        reason="it writes outside the project",
        rule="modes.edit.write.outside",
        always=(Grant("write", directory="/etc/a", exact=True),),
    )
    both = decided(call("write", INSIDE, OUTSIDE), "edit")
    assert both.always_text == "write /etc/a"
    assert decided(call("write", INSIDE, OUTSIDE), "edit", frozenset(both.always)).kind == "allow"
    assert decided(call("write", INSIDE, OUTSIDE), "manual", frozenset(both.always)).kind == "ask"


@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize("risk", ["read", "write", "execute", "interact"])
def test_a_protected_path_is_refused_in_every_mode_whatever_was_granted(
    mode: Mode, risk: str
) -> None:
    granted = frozenset({Grant("write", directory="/p"), Grant("write")})
    rules = Rulebook([Rule("allow", "*")])
    assert decided(call(risk, PROTECTED), mode, granted, rules) == Verdict(
        kind="deny",
        reason="/p/key is protected (it is ours): no tool may touch it in any mode",
        rule="floor.protected_path",
        by="floor",
    )


def test_an_always_covers_the_directory_it_was_shown_for() -> None:
    (shown,) = decided(call("write", DEEP), "manual").always
    assert shown == Grant("write", directory="/p/src")
    assert shown.text == "write below /p/src"
    granted = frozenset({shown})
    assert decided(call("write", DEEP), "manual", granted) == Verdict(
        kind="allow", reason="allowed for this session", rule="session.grant"
    )
    other = PathFacts("/p/src2/a", inside_project=True, protected=False)
    assert decided(call("write", INSIDE), "manual", granted).kind == "ask"
    assert decided(call("write", other), "manual", granted).kind == "ask"
    assert decided(call("write", DEEP, tool="edit"), "manual", granted).kind == "ask"


def test_an_always_outside_the_project_covers_that_file_alone() -> None:
    (shown,) = decided(call("write", OUTSIDE), "manual").always
    assert shown.text == "write /etc/a"
    granted = frozenset({shown})
    assert decided(call("write", OUTSIDE), "manual", granted).kind == "allow"
    other = PathFacts("/etc/b", inside_project=False, protected=False)
    assert decided(call("write", other), "manual", granted).kind == "ask"


def test_an_always_at_the_top_of_the_project_covers_it_but_not_what_counts_as_outside() -> None:
    (shown,) = decided(call("write", INSIDE), "manual").always
    assert shown == Grant("write", directory="/p")
    hooks = PathFacts("/p/.git/hooks/x", inside_project=False, protected=False)
    assert decided(call("write", DEEP), "manual", frozenset({shown})).kind == "allow"
    assert decided(call("write", hooks), "manual", frozenset({shown})).kind == "ask"


def test_an_always_on_a_tool_without_paths_covers_the_tool() -> None:
    fetch = CallFacts(tool="web_fetch", risk="execute")
    (shown,) = decided(fetch, "manual").always
    assert (shown, shown.text) == (Grant("web_fetch"), "every web_fetch")
    assert decided(fetch, "manual", frozenset({shown})).kind == "allow"
    assert decided(CallFacts(tool="write", risk="write"), "manual").always_text is None


def test_a_grant_never_overcomes_a_denial() -> None:
    granted = frozenset({Grant("write", directory="/p")})
    assert decided(call("write"), "plan", granted) == Verdict(
        kind="deny", reason="the plan mode allows no write calls", rule="modes.plan.write"
    )


def test_a_risk_that_no_mode_knows_is_asked_for() -> None:
    verdict = decided(call("unheard"), "auto")
    assert (verdict.kind, verdict.rule) == ("ask", "modes.auto.unheard")


def test_an_allowed_call_says_which_rule_allowed_it() -> None:
    assert decided(call("read"), "plan") == Verdict(
        kind="allow", reason="the plan mode allows it", rule="modes.plan.read"
    )
    assert decided(call("write"), "edit") == Verdict(
        kind="allow", reason="the edit mode allows it", rule="modes.edit.write"
    )


def test_a_call_to_confirm_is_asked_about_in_every_mode_and_never_remembered() -> None:
    merge = CallFacts(tool="merge", risk="interact", confirm=True)
    for mode in get_args(Mode):
        verdict = decided(merge, mode, frozenset({Grant("merge")}))
        assert (verdict.kind, verdict.rule, verdict.always) == ("ask", "confirm.merge", ())


# ── rules ───────────────────────────────────────────────────────────────────────────────────────


def test_deny_beats_ask_beats_allow_in_whatever_order_they_stand() -> None:
    allow, ask, deny = Rule("allow", "write"), Rule("ask", "write"), Rule("deny", "write")
    for rules in ([allow, ask, deny], [deny, ask, allow], [ask, deny, allow]):
        assert decided(call("write"), "auto", rules=Rulebook(rules)) == Verdict(
            kind="deny",
            reason="the rule “deny: write” forbids it",
            rule="rules.deny: write",
            by="rule",
        )
    assert decided(call("write"), "auto", rules=Rulebook([ask, allow])).kind == "ask"
    assert decided(call("write"), "manual", rules=Rulebook([allow])).kind == "allow"


def test_a_rule_never_lifts_what_a_mode_forbids() -> None:
    assert decided(call("write"), "plan", rules=Rulebook([Rule("allow", "*")])).by == "mode"


@pytest.mark.parametrize(
    ("pattern", "path", "named"),
    [
        ("secrets", "/p/secrets/a", True),
        ("secrets", "/p/x/secrets", True),
        ("secrets/*", "/p/secrets/a/b", True),
        ("./src/**/x", "/p/src/a/b/x", True),
        ("*.pem", "/p/a/b.pem", True),
        ("*.pem", "/elsewhere/b.pem", False),
        ("~/notes", "/home/u/notes/a", True),
        ("/etc/?", "/etc/a", True),
        ("/etc/?", "/etc/ab", False),
        ("src/a", "/p/src/ab", False),
        ("a**b/", "/p/a/x/b", True),
        ("d/a**b", "/p/d/a/x/b", True),
    ],
)
def test_a_rules_path_is_a_pattern_below_the_project(pattern: str, path: str, named: bool) -> None:
    facts = PathFacts(path, inside_project=path.startswith("/p/"), protected=False)
    rules = Rulebook([Rule("deny", "write", path=pattern)])
    assert (decided(call("write", facts), "auto", rules=rules).kind == "deny") == named


def test_a_deny_speaks_of_any_path_an_allow_of_all() -> None:
    deny, allow = Rule("deny", "edit", path="etc/a"), Rule("allow", "edit", path="src")
    both = call("write", DEEP, INSIDE)
    assert decided(both, "manual", rules=Rulebook([allow])).kind == "ask"
    assert decided(call("write", DEEP), "manual", rules=Rulebook([allow])).kind == "allow"
    assert decided(call("write", DEEP, OUTSIDE), "auto", rules=Rulebook([deny])).kind == "allow"
    deny = Rule("deny", "edit", path="/etc/a")
    assert decided(call("write", DEEP, OUTSIDE), "auto", rules=Rulebook([deny])).kind == "deny"


def test_a_rule_inside_speaks_of_the_project_alone() -> None:
    rules = Rulebook([Rule("allow", "write", inside=True)])
    assert decided(call("write", DEEP), "manual", rules=rules).kind == "allow"
    assert decided(call("write", OUTSIDE), "manual", rules=rules).kind == "ask"


def test_tools_that_do_the_same_have_one_key() -> None:
    rules = Rulebook([Rule("deny", "edit"), Rule("ask", "read"), Rule("deny", "todo")])
    assert decided(call("write", tool="apply_patch"), "auto", rules=rules).kind == "deny"
    assert decided(call("read", tool="grep"), "auto", rules=rules).kind == "ask"
    plan = CallFacts(tool="plan_submit", risk="interact")
    assert decided(plan, "auto", rules=rules).kind == "deny"


def test_a_rule_about_commands_is_none_about_files() -> None:
    rules = Rulebook([Rule("deny", "*", command=("write",))])
    assert decided(call("write"), "auto", rules=rules).kind == "allow"


@pytest.mark.parametrize(
    ("tool", "kind"),
    [
        ("search", "allow"),
        ("recall", "allow"),
        ("show", "allow"),
        ("python", "allow"),
        ("plan_write", "allow"),
        ("merge", "ask"),
        ("unheard", "ask"),
    ],
)
def test_the_rules_a_session_starts_from(tool: str, kind: Kind) -> None:
    facts = CallFacts(tool=tool, risk="execute")
    assert decided(facts, "manual", rules=Rulebook(DEFAULTS.rules)).kind == kind


# ── where nobody is, and parts of a session ─────────────────────────────────────────────────────


def test_where_nobody_can_be_asked_what_would_be_asked_is_refused() -> None:
    asked = decided(call("write"), "manual")
    assert attended(asked, anybody=True) == asked
    assert attended(asked, anybody=False) == Verdict(
        kind="deny",
        reason="nobody can be asked here, and the manual mode asks before write calls",
        rule="modes.manual.write",
    )
    allowed = decided(call("write"), "auto")
    assert attended(allowed, anybody=False) == allowed


def test_a_part_of_a_session_never_gets_a_wider_mode() -> None:
    assert narrowed("auto") == "auto"
    assert narrowed("auto", "edit", "manual") == "manual"
    assert narrowed("plan", "auto") == "plan"


# ── what a tool has asked ───────────────────────────────────────────────────────────────────────

SITE = Grant("tool", host="a.example")


@pytest.mark.parametrize("mode", get_args(Mode))
def test_what_a_tool_has_asked_is_asked_in_each_mode_that_allows_it_until_it_is_granted(
    mode: Mode,
) -> None:
    asked = CallFacts(tool="tool", risk="read", asked="it asks a host", covers=SITE)
    assert decided(asked, mode) == Verdict(
        kind="ask", reason="it asks a host", rule="asked.tool", always=(SITE,)
    )
    assert SITE.text == "every page of a.example"
    assert decided(asked, mode, frozenset({SITE})).kind == "allow"
    assert decided(asked, mode, frozenset({Grant("tool", host="b.example")})).kind == "ask"
    assert decided(asked, mode, rules=Rulebook([Rule("allow", "tool")])).kind == "allow"


def test_what_is_asked_is_never_allowed_where_the_mode_denies_it() -> None:
    asked = CallFacts(tool="tool", risk="execute", asked="it asks a host", covers=SITE)
    assert decided(asked, "plan", frozenset({SITE})).kind == "deny"


@pytest.mark.parametrize("mode", ["manual", "edit", "auto"])
def test_a_path_that_is_asked_about_is_so_in_every_mode_whatever_allows_the_call(
    mode: Mode,
) -> None:
    asked = PathFacts("/p/.mcp.json", inside_project=True, protected=False, why="x", asked=True)
    granted = frozenset({Grant("write", directory="/p")})
    rules = Rulebook([Rule("allow", "write")])
    assert decided(call("write", INSIDE, asked), mode, granted, rules) == Verdict(
        kind="ask", reason="x", rule="floor.asked_path"
    )
