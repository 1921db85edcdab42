"""The list of models of the login's instance, asked for once for all sessions that begin at the same time."""

from typing import Any

import msgspec

from lembasd.engine.api import ListKeeper
from lembasd.engine.native.model_client import ModelClient
from lembasd.protocol.control import Account


def client() -> ModelClient:
    """One that asks for lists alone. Close it."""
    return ModelClient(
        on_delta=lambda _: None,
        on_wait=lambda _: None,
        on_retract=lambda: None,
        on_fact=lambda _: None,
    )


async def kept(keeper: ListKeeper, account: Account) -> Any:
    """The list as the instance said it a moment ago, None when it was not asked."""
    answer = await keeper.model_list(account)
    return None if answer is None else _decoded(answer)


async def asked(keeper: ListKeeper, account: Account, client: ModelClient) -> Any:
    """The list as the instance says it now, kept for others; None when it says none."""
    answer = await client.models(account)
    listed = None if answer is None else _decoded(answer)
    if answer is not None and listed is not None:
        await keeper.keep_model_list(account, answer)
    return listed


def _decoded(answer: bytes) -> Any:
    try:
        return msgspec.json.decode(answer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
