"""Deny beats ask beats allow, the floor beats all, and a wider mode never denies what a narrower one allows."""

from random import Random
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lembasd.engine.native.core.arity import Grant
from lembasd.engine.native.core.permission import CallFacts, PathFacts, Place, judge, tool_grants
from lembasd.engine.native.core.rules import Rulebook
from lembasd.protocol.control import Mode
from lembasd.protocol.permission import Rule

#: from the narrowest to the widest
MODES: tuple[Mode, ...] = get_args(Mode)
WIDTH = {"deny": 0, "ask": 1, "allow": 2}
PLACE = Place("/p", "/home/u")
FILES = ["/p", "/p/a", "/p/src/a", "/p/src/deep/b", "/pp/a", "/etc/a", "/home/u/a"]


@st.composite
def path_facts(draw: st.DrawFn) -> PathFacts:
    path = draw(st.sampled_from(FILES))
    inside = path == "/p" or path.startswith("/p/")
    return PathFacts(path, inside, draw(st.sampled_from([False, False, False, True])))


calls = st.builds(
    CallFacts,
    tool=st.sampled_from(["read", "write", "edit", "web_fetch", "plan_write"]),
    risk=st.sampled_from(["read", "interact", "write", "execute", "new"]),
    paths=st.lists(path_facts(), max_size=3).map(tuple),
    confirm=st.booleans(),
)
rules = st.builds(
    Rule,
    st.sampled_from(["allow", "ask", "deny"]),
    st.sampled_from(["*", "read", "write", "edit", "web_fetch", "todo"]),
    path=st.sampled_from(["", "src/**", "a", "/etc", "~/a", "**/b"]),
    inside=st.booleans(),
)
rulebooks = st.lists(rules, max_size=4)
grants = st.frozensets(
    calls.map(lambda one: tool_grants(one, PLACE)).filter(bool).map(lambda found: found[0]),
    max_size=4,
)


@given(calls, rulebooks, grants)
def test_a_wider_mode_never_turns_allow_into_less(
    call: CallFacts, given_: list[Rule], granted: frozenset[Grant]
) -> None:
    book = Rulebook(given_)
    widths = [WIDTH[judge(call, mode, book, granted, PLACE).kind] for mode in MODES]
    assert widths == sorted(widths)


@given(calls, st.sampled_from(MODES), rulebooks, grants)
def test_the_floor_beats_rules_mode_and_grant(
    call: CallFacts, mode: Mode, given_: list[Rule], granted: frozenset[Grant]
) -> None:
    verdict = judge(call, mode, Rulebook(given_), granted, PLACE)
    protected = any(one.protected for one in call.paths)
    assert (verdict.by == "floor") == protected
    assert not protected or verdict.kind == "deny"


@given(calls, st.sampled_from(MODES), rulebooks, st.randoms(), grants)
def test_rules_mean_the_same_in_any_order(
    call: CallFacts, mode: Mode, given_: list[Rule], random: Random, granted: frozenset[Grant]
) -> None:
    mixed = list(given_)
    random.shuffle(mixed)
    first, second = (
        judge(call, mode, Rulebook(one), granted, PLACE).kind for one in (given_, mixed)
    )
    assert first == second


@given(calls, st.sampled_from(MODES), rulebooks, rules, grants)
def test_deny_beats_ask_beats_allow(
    call: CallFacts, mode: Mode, given_: list[Rule], more: Rule, granted: frozenset[Grant]
) -> None:
    """A rule more makes a call no wider than it, if it restricts, and no narrower, if it allows."""
    before = judge(call, mode, Rulebook(given_), granted, PLACE)
    after = judge(call, mode, Rulebook([*given_, more]), granted, PLACE)
    if more.decision == "allow":
        assert WIDTH[after.kind] >= WIDTH[before.kind]
        if before.by == "rule":
            # where a rule denies or asks already, an allow changes nothing
            assert after.kind == before.kind
    elif more.decision == "deny":
        assert WIDTH[after.kind] <= WIDTH[before.kind]
        assert after.kind in (before.kind, "deny")


@given(calls, st.sampled_from(MODES), rulebooks, grants)
def test_a_grant_turns_what_the_mode_asks_into_allow_and_nothing_else(
    call: CallFacts, mode: Mode, given_: list[Rule], granted: frozenset[Grant]
) -> None:
    book = Rulebook(given_)
    bare, after = (judge(call, mode, book, one, PLACE) for one in (frozenset[Grant](), granted))
    if after != bare:
        assert (bare.kind, bare.by, after.kind, after.rule) == (
            "ask",
            "mode",
            "allow",
            "session.grant",
        )
        assert not call.confirm


@given(calls, calls, st.sampled_from(MODES))
def test_an_always_covers_the_call_it_was_shown_for_and_no_other_place_or_tool(
    shown: CallFacts, other: CallFacts, mode: Mode
) -> None:
    verdict = judge(shown, mode, Rulebook([]), frozenset(), PLACE)
    granted = frozenset(verdict.always)
    if verdict.kind != "ask" or not granted:
        return
    assert judge(shown, mode, Rulebook([]), granted, PLACE).kind == "allow"
    bare = judge(other, mode, Rulebook([]), frozenset(), PLACE)
    if judge(other, mode, Rulebook([]), granted, PLACE) != bare:
        assert other.tool == shown.tool
        assert all(_is_reached(one, shown.paths) for one in other.paths)
        assert bool(other.paths) == bool(shown.paths)


def _is_reached(path: PathFacts, shown: tuple[PathFacts, ...]) -> bool:
    """Whether a file was shown, or lies in the project beside or below one that was."""
    for one in shown:
        if path.path == one.path:
            return True
        above = one.path.rpartition("/")[0] if one.path != PLACE.root else PLACE.root
        if one.inside_project and path.inside_project and path.path.startswith(above + "/"):
            return True
    return False


@given(calls, st.sampled_from(MODES), rulebooks)
def test_what_lies_outside_the_project_is_never_allowed_more_than_what_lies_inside(
    call: CallFacts, mode: Mode, given_: list[Rule]
) -> None:
    book = Rulebook([one for one in given_ if not one.path and one.decision == "allow"])
    outside = replace(call, paths=tuple(replace(one, inside_project=False) for one in call.paths))
    inside = replace(call, paths=tuple(replace(one, inside_project=True) for one in call.paths))
    found = [judge(one, mode, book, frozenset(), PLACE).kind for one in (outside, inside)]
    assert WIDTH[found[0]] <= WIDTH[found[1]]
