"""What the router gives to a client that a session's own tools started: a look, and nothing else."""

import pytest

from lembasd.hub.core import effects, inputs
from lembasd.protocol import jsonrpc
from lembasd.protocol.errors import AGENTS_REFUSED
from tests.support.routing import LEMBAS, SESSION, TERMINAL, Routing, answers, passed_on, said

REFUSED = (-32602, "agent")


@pytest.fixture
def hub() -> Routing:
    """A hub with a person's session, and client 2, which is an agent's."""
    hub = Routing()
    person = hub.client(1)
    hub.ask(person, 900, "session/new", {"cwd": "/p"}, fresh=SESSION)
    (new,) = passed_on(hub.worker(SESSION, stored=False))
    hub.answer(new)
    hub.feed(inputs.ClientJoined(2, local=True, agents=True))
    return hub


def test_it_may_look(hub: Routing) -> None:
    assert hub.ask(2, 1, "initialize", LEMBAS) == [effects.Initialize(2, b"1")]
    assert hub.ask(2, 2, "_hub/status", {}) == [effects.GiveStatus(2, b"2")]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("_hub/attach", {"sessionId": SESSION}),
        ("_lembas/terminal/attach", {"terminalId": TERMINAL}),
        ("_hub/stop", {}),
        ("_hub/reload", {}),
        ("session/new", {"cwd": "/p"}),
        ("session/prompt", {"sessionId": SESSION, "prompt": []}),
        ("session/set_mode", {"sessionId": SESSION, "modeId": "auto"}),
        ("session/cancel", {"sessionId": SESSION}),
        ("_lembas/session/compact", {"sessionId": SESSION}),
        ("_lembas/session/history", {"sessionId": SESSION}),
        ("_lembas/terminal/open", {}),
        ("_lembas/terminal/input", {"terminalId": TERMINAL, "data": ""}),
    ],
)
@pytest.mark.parametrize("initialized", [True, False])
def test_everything_else_is_refused(
    hub: Routing, method: str, params: dict[str, object], initialized: bool
) -> None:
    if initialized:
        hub.ask(2, 1, "initialize", LEMBAS)
    out = hub.ask(2, 5, method, params)
    assert answers(out) == [(2, 5, REFUSED)]
    assert said(out)[0][1]["error"]["message"] == AGENTS_REFUSED
    assert passed_on(out) == []
    assert hub.tell(2, method, params) == []


def test_its_replies_to_cards_go_nowhere(hub: Routing) -> None:
    hub.ask(2, 1, "initialize", LEMBAS)
    card = b'{"jsonrpc":"2.0","id":"%b:1:1","result":{}}' % SESSION.encode()
    assert hub.feed(inputs.ClientSaid(2, jsonrpc.peek(card))) == []
    assert len(passed_on(hub.feed(inputs.ClientSaid(1, jsonrpc.peek(card))))) == 1
