"""Terminals that wait for their client's next link (`terminal_resume`), and who may look at which."""

from typing import Any

import msgspec
import pytest

from lembasd.hub.core import effects, inputs
from lembasd.hub.core.lives import resume_timer
from lembasd.protocol import envelope as kinds
from lembasd.protocol.control import Attached, Extensions, Remote, Settings
from lembasd.protocol.limits import TERMINAL_RESUME_S
from tests.support.routing import TERMINAL, Routing, answers, frames, passed_on

OTHER = "term_" + "d" * 12
ATTACH = "_lembas/terminal/attach"


@pytest.fixture
def hub() -> Routing:
    one = Routing()
    one.feed(inputs.SettingsChanged(Settings(remote=Remote(enabled=True, terminal=True))))
    return one


def link(hub: Routing, number: int, **extensions: bool) -> int:
    """A link whose client asks for these extensions."""
    lembas = {"protocol": 3, **extensions}
    hub.feed(inputs.ClientJoined(number, local=False))
    out = hub.ask(number, 0, "initialize", {"clientCapabilities": {"_meta": {"lembas": lembas}}})
    assert effects.Initialize(number, b"0", Extensions(**extensions)) in out
    return number


def opened(hub: Routing, client: int, terminal: str = TERMINAL) -> list[effects.Effect]:
    hub.ask(client, 900, "_lembas/terminal/open", {}, fresh=terminal)
    out = hub.terminal(terminal)
    (passed,) = passed_on(out)
    hub.answer(passed)
    return out


def attached(out: list[effects.Effect]) -> list[Attached]:
    return [
        msgspec.json.decode(effect.frame.payload, type=Attached)
        for effect in out
        if isinstance(effect, effects.ToProcess) and effect.frame.kind == kinds.ATTACHED
    ]


def attach(hub: Routing, client: int, **params: Any) -> list[effects.Effect]:
    return hub.ask(client, 7, ATTACH, {"terminalId": TERMINAL, **params})


def test_a_terminal_is_told_what_its_client_asked_for(hub: Routing) -> None:
    both = link(hub, 1, terminal_flow=True, terminal_resume=True)
    assert attached(opened(hub, both)) == [
        Attached(1, protocol=3, opened=True, flow=True, resume=True)
    ]
    hub.feed(inputs.ClientLeft(both))
    plain = link(hub, 2)
    assert attached(opened(hub, plain, OTHER)) == [Attached(2, protocol=3, opened=True)]
    # a person here says always how far it has come, and waits for no link
    person = hub.client(3)
    third = "term_" + "e" * 12
    assert attached(opened(hub, person, third)) == [
        Attached(3, protocol=3, opened=True, local=True, flow=True)
    ]


def test_a_terminal_waits_for_the_next_link_and_hangs_up_when_none_comes(hub: Routing) -> None:
    first = link(hub, 1, terminal_resume=True)
    opened(hub, first)
    out = hub.feed(inputs.ClientLeft(first))
    assert frames(out) == [(TERMINAL, kinds.DETACHED)]
    assert effects.SetTimer(resume_timer(TERMINAL), hub.now + TERMINAL_RESUME_S) in out
    assert frames(hub.feed(inputs.TimerFired(resume_timer(TERMINAL)))) == [(TERMINAL, kinds.STOP)]
    # over already: nothing is done for it
    hub.feed(inputs.ProcessEnded(TERMINAL, 0))
    assert hub.feed(inputs.TimerFired(resume_timer(TERMINAL))) == []


def test_the_next_link_takes_it_up_where_it_stopped(hub: Routing) -> None:
    first = link(hub, 1, terminal_resume=True)
    opened(hub, first)
    hub.feed(inputs.ClientLeft(first))
    second = link(hub, 2, terminal_resume=True)
    out = attach(hub, second, offset=40)
    assert out[0] == effects.CancelTimer(resume_timer(TERMINAL))
    assert attached(out) == [Attached(2, protocol=3, resume=True, asks=True)]
    (passed,) = passed_on(out)
    assert (passed.channel, passed.frame.client) == (TERMINAL, second)
    # and again, as often as it likes
    assert attached(attach(hub, second)) == [Attached(2, protocol=3, resume=True, asks=True)]
    # it is this link's now
    out = hub.feed(inputs.ClientLeft(second))
    assert effects.SetTimer(resume_timer(TERMINAL), hub.now + TERMINAL_RESUME_S) in out


def test_a_link_that_asked_for_nothing_cannot_attach(hub: Routing) -> None:
    opened(hub, link(hub, 1, terminal_resume=True))
    hub.feed(inputs.ClientLeft(1))
    assert answers(attach(hub, link(hub, 2))) == [(2, 7, (-32601, None))]


def test_a_link_may_not_look_at_what_is_not_its_own(hub: Routing) -> None:
    person = hub.client(1)
    opened(hub, person)
    here = link(hub, 2, terminal_resume=True)
    assert answers(attach(hub, here)) == [(2, 7, (-32602, None))]
    assert answers(hub.ask(here, 8, ATTACH, {"terminalId": OTHER})) == [(2, 8, (-32602, None))]
    # nor at what another link holds
    opened(hub, here, OTHER)
    other = link(hub, 3, terminal_resume=True)
    assert answers(hub.ask(other, 9, ATTACH, {"terminalId": OTHER})) == [(3, 9, (-32602, None))]
    # a person here may look at all of them, and it stays the link's
    out = hub.ask(person, 10, ATTACH, {"terminalId": OTHER})
    assert attached(out) == [Attached(1, protocol=3, local=True, flow=True, asks=True)]
    hub.feed(inputs.ClientLeft(person))
    out = hub.feed(inputs.ClientLeft(here))
    assert effects.SetTimer(resume_timer(OTHER), hub.now + TERMINAL_RESUME_S) in out


def test_what_waits_counts_among_the_four(hub: Routing) -> None:
    first = link(hub, 1, terminal_resume=True)
    for number in range(4):
        opened(hub, first, "term_" + str(number) * 12)
    hub.feed(inputs.ClientLeft(first))
    second = link(hub, 2, terminal_resume=True)
    refused = answers(hub.ask(second, 5, "_lembas/terminal/open", {}))
    assert refused == [(2, 5, (-32602, None))]
    hub.feed(inputs.ProcessEnded("term_" + "0" * 12, 0))
    assert frames(opened(hub, second))[0] == (TERMINAL, kinds.SETTINGS)


def test_what_waits_hangs_up_when_the_limits_allow_it_no_more(hub: Routing) -> None:
    opened(hub, link(hub, 1, terminal_resume=True))
    hub.feed(inputs.ClientLeft(1))
    out = hub.feed(inputs.SettingsChanged(Settings(remote=Remote(enabled=True))))
    assert frames(out)[-1] == (TERMINAL, kinds.STOP)
    # and is nobody's to take up
    hub.feed(inputs.SettingsChanged(Settings(remote=Remote(enabled=True, terminal=True))))
    refused = answers(attach(hub, link(hub, 2, terminal_resume=True)))
    assert refused == [(2, 7, (-32602, None))]


def test_a_terminal_that_waits_is_adopted_by_the_next_hub(hub: Routing) -> None:
    out = hub.terminal(link=True, resume=True)
    assert effects.SetTimer(resume_timer(TERMINAL), hub.now + TERMINAL_RESUME_S) in out
    assert kinds.STOP not in [kind for _, kind in frames(out)]
    second = link(hub, 2, terminal_resume=True)
    assert attached(attach(hub, second)) == [Attached(2, protocol=3, resume=True, asks=True)]


def test_one_that_the_limits_allow_no_more_hangs_up_when_the_next_hub_finds_it() -> None:
    hub = Routing()
    hub.feed(inputs.SettingsChanged(Settings(remote=Remote(enabled=True))))
    out = hub.terminal(link=True, resume=True)
    assert frames(out)[-1] == (TERMINAL, kinds.STOP)
    # and is nobody's to take up
    refused = answers(attach(hub, link(hub, 2, terminal_resume=True)))
    assert refused == [(2, 7, (-32602, None))]
    # what a person here opened is none of the instance's
    assert kinds.STOP not in [kind for _, kind in frames(hub.terminal(OTHER))]


def test_a_link_that_goes_before_it_knows_its_terminal_leaves_none(hub: Routing) -> None:
    first = link(hub, 1, terminal_resume=True)
    hub.ask(first, 5, "_lembas/terminal/open", {}, fresh=TERMINAL)
    hub.terminal()
    hub.ask(first, 6, "_lembas/terminal/open", {}, fresh=OTHER)
    out = hub.feed(inputs.ClientLeft(first))
    # passed on, and its answer would reach nobody who could name it later
    assert frames(out) == [(TERMINAL, kinds.DETACHED), (TERMINAL, kinds.STOP)]
    assert not [effect for effect in out if isinstance(effect, effects.SetTimer)]
    # not connected yet
    assert (OTHER, kinds.STOP) in frames(hub.terminal(OTHER))


def test_one_that_waits_for_no_link_hangs_up_when_the_next_hub_finds_it(hub: Routing) -> None:
    out = hub.terminal(link=True)
    assert frames(out)[-1] == (TERMINAL, kinds.STOP)
    assert not [effect for effect in out if isinstance(effect, effects.SetTimer)]
