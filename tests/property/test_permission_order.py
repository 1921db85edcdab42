"""Deny beats ask beats allow, the floor beats all, and a wider mode never denies what a narrower one allows."""

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from lembasd.engine.native.core.permission import CallFacts, PathFacts, judge
from lembasd.protocol.control import Mode

#: from the narrowest to the widest
MODES: tuple[Mode, ...] = get_args(Mode)
WIDTH = {"deny": 0, "ask": 1, "allow": 2}

paths = st.none() | st.builds(PathFacts, st.text(max_size=8), st.booleans(), st.booleans())
calls = st.builds(
    CallFacts,
    tool=st.sampled_from(["read", "write", "bash"]),
    risk=st.sampled_from(["read", "interact", "write", "execute", "new"]),
    grant=st.sampled_from(["read", "write", "bash:ls"]),
    path=paths,
)
grants = st.frozensets(st.sampled_from(["read", "write", "bash:ls"]))


@given(calls, grants)
def test_a_wider_mode_never_turns_allow_into_less(call: CallFacts, given_: frozenset[str]) -> None:
    widths = [WIDTH[judge(call, mode, given_).kind] for mode in MODES]
    assert widths == sorted(widths)


@given(calls, st.sampled_from(MODES), grants)
def test_the_floor_beats_mode_and_grant(
    call: CallFacts, mode: Mode, given_: frozenset[str]
) -> None:
    verdict = judge(call, mode, given_)
    protected = call.path is not None and call.path.protected
    assert (verdict.by == "floor") == protected
    assert not protected or verdict.kind == "deny"


@given(calls, st.sampled_from(MODES), grants)
def test_a_grant_turns_ask_into_allow_and_nothing_else(
    call: CallFacts, mode: Mode, given_: frozenset[str]
) -> None:
    bare, granted = judge(call, mode, frozenset()), judge(call, mode, given_)
    if bare.kind == "ask" and call.grant in given_:
        assert granted.kind == "allow"
    else:
        assert granted.kind == bare.kind
