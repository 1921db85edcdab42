"""When a session of this machine is shown to the instance, and what the instance is told."""

from typing import Any

import pytest

from lembasd.protocol.control import Attached
from lembasd.protocol.lembas import AnnounceParams
from lembasd.store.records import Given
from lembasd.worker.core import effects, inputs
from lembasd.worker.core.about import About
from lembasd.worker.core.effects import (
    Announce,
    JudgeLeft,
    JudgeShare,
    Refuse,
    Reply,
    SayLeft,
    SayState,
    SetTimer,
    Write,
)
from lembasd.worker.core.inputs import Waiter
from lembasd.worker.core.session import Session
from lembasd.worker.core.sharing import BACK, BACK_S, OFF

HERE, LINK = 1, 2
TERMINAL = Attached(client=HERE, protocol=3, local=True, opened=True)
OTHERS = Attached(client=LINK, protocol=3)
ANNOUNCED = AnnounceParams("ses_1", "/p", "T", "m", True, "edit", "low", False)
ASKED = Waiter(HERE, 7, b"7", local=True)


def session(share: Any = "ask", **fields: Any) -> Session:
    made = Session(About("ses_1", "/p", "m", "low"), mode="edit", title="T", **fields)
    made.handle(inputs.HubJoined(), 0.0)
    made.handle(inputs.SettingsCame("auto", 900.0, share=share), 0.0)
    return made


def fed(made: Session, what: inputs.Input, now: float = 0.0) -> list[effects.Effect]:
    """Its effects that are of sharing."""
    kinds = (Announce, JudgeLeft, JudgeShare, Refuse, Reply, SayLeft, Write)
    return [
        one
        for one in made.handle(what, now)
        if isinstance(one, kinds)
        or (isinstance(one, SetTimer) and one.key == BACK)
        or (isinstance(one, SayState) and one.in_turn)
    ]


def share(made: Session, *, shared: bool = True) -> list[effects.Effect]:
    return fed(made, inputs.ShareAsked(ASKED, shared))


def shared() -> Session:
    """One that a terminal shares, and the link is attached to."""
    made = session()
    fed(made, inputs.ClientAttached(TERMINAL))
    share(made)
    fed(made, inputs.ClientAttached(OTHERS))
    return made


def test_a_shared_session_is_announced_to_each_link_once() -> None:
    made = session()
    assert fed(made, inputs.ClientAttached(TERMINAL)) == []
    assert not made.shared
    yes = Reply(ASKED, {"shared": True})
    assert share(made) == [Write(Given()), yes]
    assert (made.shared, made.given) == (True, True)
    assert fed(made, inputs.ClientAttached(OTHERS)) == [Announce(LINK, ANNOUNCED)]
    assert share(made) == [yes]


def test_a_link_that_is_there_already_is_told_at_once() -> None:
    made = session(given=True, by_link=True)
    fed(made, inputs.ClientAttached(OTHERS))
    fed(made, inputs.ClientAttached(TERMINAL))
    assert share(made) == [Announce(LINK, ANNOUNCED), Reply(ASKED, {"shared": True})]


def test_when_the_last_terminal_is_gone_the_instance_is_told_whether_it_can_go_on() -> None:
    made = shared()
    second = Attached(client=3, protocol=3, local=True)
    fed(made, inputs.ClientAttached(second))
    assert fed(made, inputs.ClientDetached(HERE)) == []
    assert fed(made, inputs.ClientDetached(3)) == [JudgeLeft()]
    assert fed(made, inputs.LeftJudged(available=False)) == [SayLeft(LINK, available=False)]
    assert fed(made, inputs.ClientDetached(LINK)) == []


def test_a_terminal_that_is_back_before_that_shares_it_still() -> None:
    made = shared()
    assert fed(made, inputs.ClientDetached(HERE)) == [JudgeLeft()]
    assert fed(made, inputs.ClientAttached(TERMINAL)) == [Announce(LINK, ANNOUNCED)]
    assert fed(made, inputs.LeftJudged(available=True)) == []
    assert made.shared


def test_what_is_shared_no_more_is_taken_back() -> None:
    made = shared()
    assert share(made, shared=False) == [
        SayLeft(LINK, available=False),
        Write(Given(back=True)),
        SayState(made.state, in_turn=True),
        Reply(ASKED, {"shared": False}),
    ]
    assert (made.shared, made.given) == (False, False)
    assert share(made, shared=False) == [Reply(ASKED, {"shared": False})]


def test_what_the_instance_made_it_keeps() -> None:
    made = session(given=True, by_link=True)
    assert fed(made, inputs.ClientAttached(TERMINAL)) == []
    assert share(made, shared=False) == [Reply(ASKED, {"shared": False})]
    assert made.given


def test_never_means_that_nothing_is_shared() -> None:
    made = session("never", given=True)
    assert fed(made, inputs.ClientAttached(TERMINAL)) == []
    assert share(made) == [Refuse(ASKED, OFF)]
    assert not made.shared


@pytest.mark.parametrize("allowed", [True, False])
def test_always_shares_what_the_limits_allow(allowed: bool) -> None:
    made = session("always")
    looks = Attached(client=5, protocol=3, local=True)
    editor = Attached(client=6, local=True, opened=True)
    assert fed(made, inputs.ClientAttached(looks)) == []
    assert fed(made, inputs.ClientAttached(editor)) == []
    assert fed(made, inputs.ClientAttached(TERMINAL)) == [JudgeShare()]
    given = [Write(Given())] if allowed else []
    assert fed(made, inputs.ShareJudged(allowed)) == given
    assert made.shared is allowed


def test_nobody_shares_what_its_terminal_has_left_before_it_was_judged() -> None:
    made = session("always")
    fed(made, inputs.ClientAttached(TERMINAL))
    fed(made, inputs.ClientDetached(HERE))
    assert fed(made, inputs.ShareJudged(allowed=True)) == []


def test_terminals_have_some_time_to_come_back_with_the_next_hub() -> None:
    made = shared()
    assert fed(made, inputs.HubLost()) == []
    assert fed(made, inputs.HubJoined(), 5.0) == [SetTimer(BACK, 5.0 + BACK_S)]
    assert fed(made, inputs.ClientAttached(OTHERS)) == [Announce(LINK, ANNOUNCED)]
    fed(made, inputs.ClientAttached(TERMINAL))
    assert fed(made, inputs.TimerFired(BACK)) == []
    made.handle(inputs.HubLost(), 0.0)
    made.handle(inputs.HubJoined(), 0.0)
    assert fed(made, inputs.TimerFired(BACK)) == [JudgeLeft()]


def test_a_command_that_shares_it_and_leaves_is_no_terminal() -> None:
    made = session()
    assert share(made) == [
        Write(Given()),
        SetTimer(BACK, BACK_S),
        Reply(ASKED, {"shared": True}),
    ]
    assert fed(made, inputs.TimerFired(BACK)) == [JudgeLeft()]
