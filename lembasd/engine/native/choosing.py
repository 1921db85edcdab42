"""Finding the model that a session is to be asked with, before it is told that it will be."""

from typing import Any, Final

from lembasd.engine.api import ListKeeper
from lembasd.engine.native import listing
from lembasd.engine.native.core import levels, model_refs
from lembasd.engine.native.core.levels import ModelInfo
from lembasd.protocol.control import Account
from lembasd.protocol.errors import INVALID_PARAMS, RequestRefused

#: `data.reason` of a model that this device cannot speak to
REASON: Final = "model"
#: kinds of a model that holds a conversation; a server that lists no others says none
_CHAT: Final = (None, "chat")


async def choose(keeper: ListKeeper, account: Account, model: str, effort: str) -> tuple[str, str]:
    """worker.ports.ModelChooser. A server that lists nothing is taken at the client's word: its turns will say."""
    found = _found(await listing.kept(keeper, account), account, model)
    if found is None:
        # a list that is a moment old says what is served, but not what is not
        listed = await _asked(keeper, account)
        if not model_refs.is_list(listed):
            return model, effort
        found = _found(listed, account, model)
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


def _found(listed: Any, account: Account, model: str) -> ModelInfo | None:
    if not model_refs.is_list(listed):
        return None
    return model_refs.resolve(listed, model, account.connection)


async def _asked(keeper: ListKeeper, account: Account) -> Any:
    client = listing.client()
    try:
        return await listing.asked(keeper, account, client)
    finally:
        await client.aclose()


def _refused(sentence: str) -> RequestRefused:
    return RequestRefused(INVALID_PARAMS, sentence, {"reason": REASON})
