"""When the installed version takes over, and why it does not."""

import pytest

from lembasd.hub.core.reloading import (
    LOOK_S,
    SETTLE_S,
    START_S,
    Asked,
    Check,
    Checked,
    CheckFailed,
    Effect,
    EndCheck,
    Ending,
    Failed,
    HandOver,
    Look,
    Looked,
    Refuse,
    Reloading,
    Speaker,
    Tell,
    unfit,
)
from lembasd.protocol.takeover import TAKEOVER, Build

OURS = Build("1.0", 3, (1, 2), 2, TAKEOVER)
NEXT = Build("1.1", 3, (2, 3), 2, TAKEOVER)
QUIET, BUSY, UNSAFE = Looked(True, True), Looked(False, True), Looked(False, False)


def settling() -> Reloading:
    """Asked for by client 7, and checked at 10.0."""
    machine = Reloading(OURS)
    assert machine.handle(Asked(7, b"1"), 9.0) == [Check()]
    assert machine.handle(Checked(NEXT, ()), 10.0) == [Look(10.0)]
    return machine


def given_up(reason: str) -> list[Effect]:
    return [Tell(reason), Refuse(7, b"1", reason)]


def test_a_version_that_is_checked_takes_over_once_the_hub_is_quiet() -> None:
    machine = settling()
    assert machine.handle(BUSY, 10.0) == [Look(10.0 + LOOK_S)]
    assert not machine.is_handing_over
    assert machine.handle(QUIET, 10.1) == [HandOver(NEXT)]
    assert machine.is_handing_over


def test_requests_are_waited_for_only_so_long() -> None:
    machine = settling()
    assert machine.handle(BUSY, 10.0 + SETTLE_S - 0.1) == [Look(10.0 + SETTLE_S - 0.1 + LOOK_S)]
    assert machine.handle(BUSY, 10.0 + SETTLE_S) == [HandOver(NEXT)]


def test_a_start_that_does_not_end_gives_it_up() -> None:
    machine = settling()
    assert machine.handle(UNSAFE, 10.0 + SETTLE_S) == [Look(10.0 + SETTLE_S + LOOK_S)]
    reason = "a process is being started and does not come to an end; try again in a moment"
    assert machine.handle(UNSAFE, 10.0 + START_S) == given_up(reason)
    # from the beginning again
    assert machine.handle(Asked(8, b"2"), 30.0) == [Check()]


def test_a_start_in_the_last_moment_is_waited_for() -> None:
    machine = settling()
    machine.handle(QUIET, 10.0)
    assert machine.handle(UNSAFE, 10.1) == [Look(10.1 + LOOK_S)]
    assert not machine.is_handing_over
    assert machine.handle(QUIET, 10.2) == [HandOver(NEXT)]


def test_who_asks_meanwhile_is_told_how_it_ends() -> None:
    machine = settling()
    assert machine.handle(Asked(8, b'"x"'), 10.0) == []
    machine.handle(QUIET, 10.1)
    assert machine.handle(Asked(9, b"3"), 10.1) == []
    assert machine.handle(Failed("the program is gone"), 10.2) == [
        Tell("the program is gone"),
        Refuse(7, b"1", "the program is gone"),
        Refuse(8, b'"x"', "the program is gone"),
        Refuse(9, b"3", "the program is gone"),
    ]


def test_a_version_that_does_not_start_is_refused_with_its_reason() -> None:
    machine = Reloading(OURS)
    machine.handle(Asked(7, b"1"), 9.0)
    assert machine.handle(CheckFailed("no module"), 9.5) == given_up("no module")
    assert machine.handle(Asked(7, b"1"), 9.6) == [Check()]
    unknown = Build("0.9", 3, (1, 2), 2)
    assert machine.handle(Checked(unknown, ()), 9.7) == given_up(unfit(unknown, OURS, ()))


def test_a_hub_that_ends_is_taken_over_by_nobody() -> None:
    assert Reloading(OURS).handle(Ending(), 1.0) == []
    machine = Reloading(OURS)
    machine.handle(Asked(7, b"1"), 9.0)
    assert machine.handle(Ending(), 9.1) == [EndCheck(), *given_up("lembasd ends")]
    # what was under way comes too late
    late = (CheckFailed("killed"), Checked(NEXT, ()), QUIET, Failed("x"))
    assert [machine.handle(one, 9.2) for one in late] == [[], [], [], []]
    machine = settling()
    machine.handle(QUIET, 10.0)
    assert machine.handle(Ending(), 10.1) == given_up("lembasd ends")
    assert not machine.is_handing_over


@pytest.mark.parametrize(
    ("build", "speakers", "why"),
    [
        (NEXT, [], ""),
        (NEXT, [Speaker("1.0", (1, 2)), Speaker("1.2", (3, 4))], ""),
        (
            Build("0.9", 3, (1, 2), 2),
            [],
            "the installed version 0.9 cannot take over from a hub that runs; restart the service, sessions go on",
        ),
        (
            Build("0.9", 3, (1, 2), 1, TAKEOVER),
            [],
            (
                "the installed version 0.9 could not open the sessions of this one (it reads journals of format 1, "
                "and they are of format 2); install 1.0 or a later one"
            ),
        ),
        (
            NEXT,
            [Speaker("1.0", (1, 2)), Speaker("0.8", (1, 1))],
            (
                "the installed version 1.1 could not talk to the sessions and terminals of 0.8 that are open (it speaks "
                "protocol 2 to 3, they 1 to 1); end them with `lembasd stop`, then start it again"
            ),
        ),
    ],
)
def test_what_it_could_not_go_on_with_is_said(
    build: Build, speakers: list[Speaker], why: str
) -> None:
    assert unfit(build, OURS, speakers) == why
