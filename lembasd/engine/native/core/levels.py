"""The effort levels of a model, and what each sends (harness.md, 3.2.0)."""

from typing import Any

from msgspec import Struct

OFF = "off"
DEFAULT = "default"


class ModelInfo(Struct, frozen=True):
    """What a server says of a model, in the names of harness/models/schema.json; what is absent is not known."""

    id: str
    context: int | None = None
    max_output: int | None = None
    efforts: list[str] | None = None
    default_effort: str | None = None
    thinking_switch: bool | None = None
    vision: bool | None = None
    tools: bool | None = None
    parallel: int | None = None
    single_session: bool | None = None
    name: str | None = None
    kind: str | None = None

    @property
    def capacity(self) -> int | None:
        """Requests that the model serves at once, None for no limit that is known."""
        return 1 if self.single_session else self.parallel


def offered(info: ModelInfo) -> list[str]:
    """The levels in their order: `off` with the switch, then the efforts; `default` where there is neither."""
    switch = [OFF] if info.thinking_switch else []
    return [*switch, *(info.efforts or [DEFAULT])]


def start(info: ModelInfo) -> str:
    """The level of a session that names none."""
    levels = offered(info)
    if info.default_effort in levels:
        return str(info.default_effort)
    return next((level for level in levels if level != OFF), levels[0])


def parameters(level: str, info: ModelInfo | None) -> dict[str, Any]:
    """What a request says for the level. A level that the model does not offer is read as its start level."""
    if info is not None and level not in offered(info):
        level = start(info)
    if level == OFF:
        return {"chat_template_kwargs": {"enable_thinking": False}}
    return {} if level == DEFAULT else {"reasoning_effort": level}
