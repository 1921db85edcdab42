"""ACP's official schema as a judge of messages. Beside the schema's own fields only `_meta` may stand."""

from typing import Any, Final

import msgspec
from acp import schema
from pydantic import BaseModel, ValidationError

#: by method: what is asked, and what is answered (None: a notification)
_AGENT: Final[dict[str, tuple[type[BaseModel], type[BaseModel] | None]]] = {
    "initialize": (schema.InitializeRequest, schema.InitializeResponse),
    "session/new": (schema.NewSessionRequest, schema.NewSessionResponse),
    "session/prompt": (schema.PromptRequest, schema.PromptResponse),
    "session/set_mode": (schema.SetSessionModeRequest, schema.SetSessionModeResponse),
    "session/cancel": (schema.CancelNotification, None),
}
_CLIENT: Final[dict[str, tuple[type[BaseModel], type[BaseModel] | None]]] = {
    "session/update": (schema.SessionNotification, None),
    "session/request_permission": (
        schema.RequestPermissionRequest,
        schema.RequestPermissionResponse,
    ),
}
METHODS: Final = {**_AGENT, **_CLIENT}
#: these are the extension's, and no matter of ACP's
_OURS: Final = ("_lembas/", "_hub/")


def faults(model: type[BaseModel], value: Any) -> list[str]:
    """What the schema says against it: what cannot be read, and what it has no field for."""
    try:
        read = model.model_validate(value)
    except ValidationError as error:
        return [f"{model.__name__}: {one['loc']}: {one['msg']}" for one in error.errors()]
    again = read.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return _left_out(value, again, model.__name__)


def _left_out(value: Any, again: Any, where: str) -> list[str]:
    if isinstance(value, dict) and isinstance(again, dict):
        return [
            fault
            for key, one in value.items()
            if key != "_meta"
            for fault in (
                _left_out(one, again[key], f"{where}.{key}")
                if key in again
                else [f"{where}.{key} is no field of the schema"]
            )
        ]
    if isinstance(value, list) and isinstance(again, list) and len(value) == len(again):
        pairs = enumerate(zip(value, again, strict=True))
        return [fault for n, (a, b) in pairs for fault in _left_out(a, b, f"{where}[{n}]")]
    return [] if value == again else [f"{where}: {value!r} was read as {again!r}"]


class Judge:
    """Judges both directions of one connection; give it every message in order.

    `refused_may_be_wrong`: what the client asks counts once its answer is a result, so that a test may ask what is wrong.
    """

    def __init__(self, *, refused_may_be_wrong: bool = False) -> None:
        self._waits_for_answers = refused_may_be_wrong
        self.faults: list[str] = []
        #: what was judged: method, or "answer of" a method
        self.seen: set[str] = set()
        #: by who asked and its id: the method, and what is wrong with the request
        self._open: dict[tuple[str, Any], tuple[str, list[str]]] = {}

    def __call__(self, sender: str, text: bytes) -> None:
        try:
            message = msgspec.json.decode(text)
            method, found = message.get("method"), _envelope(message)
        except (msgspec.DecodeError, AttributeError):
            if sender == "agent":
                self.faults.append(f"no message of JSON-RPC 2.0: {text!r}")
            return
        if method is None:
            self.faults += found
            asker = "client" if sender == "agent" else "agent"
            self._answer(*self._open.pop((asker, message["id"]), ("", [])), message)
            return
        if not method.startswith(_OURS):
            found += _request(sender, method, message)
        waits = "id" in message and self._waits_for_answers
        if "id" in message:
            self._open[sender, message["id"]] = method, found if waits else []
        if not waits:
            self._count(method, found)

    def _count(self, method: str, found: list[str]) -> None:
        if method in METHODS:
            self.seen.add(method)
        self.faults += found

    def _answer(self, method: str, asked: list[str], message: dict[str, Any]) -> None:
        if "error" in message:
            self.faults += faults(schema.Error, message["error"])
            return
        self._count(method, asked)
        if method in METHODS:
            model = METHODS[method][1]
            assert model is not None
            self.seen.add(f"answer of {method}")
            self.faults += faults(model, message["result"])


def _envelope(message: dict[str, Any]) -> list[str]:
    known = {"jsonrpc", "id", "method", "params", "result", "error"}
    if message.get("jsonrpc") == "2.0" and message.keys() <= known:
        return []
    return [f"no message of JSON-RPC 2.0: {message}"]


def _request(sender: str, method: str, message: dict[str, Any]) -> list[str]:
    if method not in (_AGENT if sender == "client" else _CLIENT):
        return [f"{method} is no method of the {sender}'s to send"]
    return faults(METHODS[method][0], message.get("params"))
