"""Finished answers of a worker as frames."""

from typing import Any

from lembasd.protocol import envelope as kinds
from lembasd.protocol import jsonrpc
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.errors import RequestRefused
from lembasd.store.records import TurnError
from lembasd.worker.core.inputs import Waiter


def answer(channel: str, waiter: Waiter, payload: bytes, *, failed: bool = False) -> Envelope:
    """The frame that answers a request with a finished payload."""
    return Envelope(
        kind=kinds.RPC,
        channel=channel,
        client=waiter.client,
        request=waiter.request,
        audience=kinds.ONE,
        failed=failed,
        payload=payload,
    )


def result(channel: str, waiter: Waiter, value: Any) -> Envelope:
    return answer(channel, waiter, jsonrpc.result(waiter.id, value))


def error(channel: str, waiter: Waiter, what: TurnError) -> Envelope:
    payload = jsonrpc.error(waiter.id, what.code, what.message, what.data)
    return answer(channel, waiter, payload, failed=True)


def refusal(channel: str, waiter: Waiter, refused: RequestRefused) -> Envelope:
    return error(channel, waiter, TurnError(refused.code, refused.message, refused.data))


def to_client(channel: str, client: int, payload: bytes, *, card: str = "") -> Envelope:
    """The frame that tells one client something; `card`: the toolCallId of the card it asks."""
    return Envelope(
        kind=kinds.RPC,
        channel=channel,
        client=client,
        audience=kinds.ONE,
        card=card,
        payload=payload,
    )
