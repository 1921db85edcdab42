"""Sessions that work in one directory hear of each other, once."""

import pytest

from lembasd.hub.core import effects, inputs
from lembasd.protocol.control import SessionState
from tests.support.routing import OTHER, SESSION, Routing, said

THIRD = "ses_" + "d" * 26


@pytest.fixture
def hub() -> Routing:
    """Two sessions of a person here; the instance has the first one too."""
    routing = Routing()
    routing.client(1)
    routing.client(2, local=False)
    for session in (SESSION, OTHER, THIRD):
        routing.ask(1, 900, "session/new", {"cwd": "/p"}, fresh=session)
        (new,) = [
            one
            for one in routing.worker(session, stored=False)
            if isinstance(one, effects.ToProcess) and one.frame.request
        ]
        routing.answer(new)
    works(routing, SESSION, busy=False)
    return routing


def works(
    hub: Routing, session: str, *, busy: bool = True, root: str = "/p", title: str = "Fix  it"
) -> list[tuple[int, str]]:
    """The session says how it stands; whom that has warned, and of what."""
    state = SessionState(busy=busy, root=root, title=title, given=session == SESSION)
    out = hub.feed(inputs.SessionSaid(session, state))
    return [(client, message["params"]["event"]["text"]) for client, message in said(out)]


def warning(what: str) -> str:
    return f"another session{what} works in this directory too; each may change what the other has read"


def test_each_is_told_of_the_other_and_the_instance_not_of_which(hub: Routing) -> None:
    assert works(hub, SESSION) == []
    assert works(hub, OTHER, title="") == [
        (1, warning(f" (Fix it, {SESSION})")),
        (1, warning(f" ({OTHER})")),
        (2, warning("")),
    ]


def test_once_is_enough_until_one_of_them_has_ended(hub: Routing) -> None:
    works(hub, SESSION)
    assert len(works(hub, OTHER)) == 3
    works(hub, OTHER, busy=False)
    assert works(hub, OTHER) == []
    hub.feed(inputs.ProcessEnded(OTHER, 0))
    hub.worker(OTHER)
    assert len(works(hub, OTHER)) == 3


def test_who_does_not_work_or_works_elsewhere_is_no_neighbour(hub: Routing) -> None:
    assert works(hub, SESSION) == []
    assert works(hub, OTHER, root="/q") == []
    assert works(hub, THIRD, busy=False) == []
    assert works(hub, THIRD, root="") == []
