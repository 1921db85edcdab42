"""Finding the model that a session is to be asked with, before it is told that it will be."""

from typing import Final

from lembasd.engine.native.core import levels, model_refs
from lembasd.engine.native.model_client import ModelClient
from lembasd.protocol.control import Account
from lembasd.protocol.errors import INVALID_PARAMS, RequestRefused

#: `data.reason` of a model that this device cannot speak to
REASON: Final = "model"
#: kinds of a model that holds a conversation; a server that lists no others says none
_CHAT: Final = (None, "chat")


async def choose(account: Account, model: str, effort: str) -> tuple[str, str]:
    """worker.ports.ModelChooser. A server that lists nothing is taken at the client's word: its turns will say."""
    client = ModelClient(
        on_delta=lambda _: None,
        on_wait=lambda _: None,
        on_retract=lambda: None,
        on_fact=lambda _: None,
    )
    try:
        listed = await client.models(account)
    finally:
        await client.aclose()
    if not model_refs.is_list(listed):
        return model, effort
    found = model_refs.resolve(listed, model, account.connection)
    if found is None:
        raise _refused(
            f"{account.instance_name or account.base_url} serves no model {model!r} to this device; choose another"
        )
    if found.kind not in _CHAT:
        raise _refused(
            f"{found.id} holds no conversation, it is a model for {found.kind}; choose another"
        )
    offered = effort in levels.offered(found)
    return found.id, effort if offered else levels.start(found)


def _refused(sentence: str) -> RequestRefused:
    return RequestRefused(INVALID_PARAMS, sentence, {"reason": REASON})
