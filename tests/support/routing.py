"""A router with its clock, for tests: says things to it and reads what it wants done."""

from typing import Any

import msgspec

from lembasd.hub.core import effects, inputs
from lembasd.hub.core.router import Router
from lembasd.protocol import envelope as kinds
from lembasd.protocol import jsonrpc
from lembasd.protocol.control import SessionState
from lembasd.protocol.hello import SessionHello, TerminalHello

SESSION = "ses_" + "a" * 26
OTHER = "ses_" + "b" * 26
TERMINAL = "term_" + "c" * 12
LEMBAS = {"clientCapabilities": {"_meta": {"lembas": {"protocol": 3}}}}


class Routing:
    """`now` is the clock; `seen` holds every effect so far."""

    def __init__(self) -> None:
        self.router = Router(1000)
        self.now = 0.0
        self.seen: list[effects.Effect] = []

    def feed(self, what: inputs.Input) -> list[effects.Effect]:
        out = self.router.handle(what, self.now)
        self.seen += out
        return out

    def client(self, number: int, *, local: bool = True, lembas: bool = True) -> int:
        """A client that has said initialize."""
        self.feed(inputs.ClientJoined(number, local))
        self.ask(number, 0, "initialize", LEMBAS if lembas else {})
        return number

    def ask(
        self, client: int, message_id: int, method: str, params: Any, fresh: str = ""
    ) -> list[effects.Effect]:
        text = jsonrpc.request(message_id, method, params)
        return self.feed(inputs.ClientSaid(client, jsonrpc.peek(text), fresh))

    def tell(self, client: int, method: str, params: Any) -> list[effects.Effect]:
        text = jsonrpc.notification(method, params)
        return self.feed(inputs.ClientSaid(client, jsonrpc.peek(text)))

    def worker(self, session: str = SESSION, **hello: Any) -> list[effects.Effect]:
        """A worker's hello."""
        return self.feed(inputs.WorkerJoined(SessionHello(session, 1, **hello), 77))

    def terminal(self, terminal: str = TERMINAL, **hello: Any) -> list[effects.Effect]:
        return self.feed(inputs.TerminalJoined(TerminalHello(terminal, **hello), 78))

    def answer(
        self, passed: effects.ToProcess, *, failed: bool = False, value: object = "done"
    ) -> list[effects.Effect]:
        """The process answers a request that was passed on to it."""
        message = jsonrpc.peek(passed.frame.payload)
        payload = jsonrpc.result(message.id, value)
        return self.feed(
            inputs.Answered(passed.frame.request, passed.frame.client, payload, failed)
        )

    def state(
        self, session: str = SESSION, *, busy: bool, given: bool = False
    ) -> list[effects.Effect]:
        return self.feed(inputs.SessionSaid(session, SessionState(busy=busy, given=given)))


def passed_on(out: list[effects.Effect]) -> list[effects.ToProcess]:
    """The client messages among these effects."""
    return [
        effect
        for effect in out
        if isinstance(effect, effects.ToProcess) and effect.frame.kind == kinds.RPC
    ]


def frames(out: list[effects.Effect]) -> list[tuple[str, str]]:
    """(channel, kind) of what goes to processes."""
    return [(e.channel, e.frame.kind) for e in out if isinstance(e, effects.ToProcess)]


def said(out: list[effects.Effect]) -> list[tuple[int, Any]]:
    """(client, message) of what goes to clients."""
    return [
        (e.client, msgspec.json.decode(e.frame.payload))
        for e in out
        if isinstance(e, effects.ToClient)
    ]


def answers(out: list[effects.Effect]) -> list[tuple[int, Any, Any]]:
    """(client, id, result or the error's code and reason) of the answers among these effects."""
    found: list[tuple[int, Any, Any]] = []
    for client, message in said(out):
        if "error" in message:
            error = message["error"]
            reason = (error.get("data") or {}).get("reason")
            found.append((client, message["id"], (error["code"], reason)))
        elif "result" in message:
            found.append((client, message["id"], message["result"]))
    return found
