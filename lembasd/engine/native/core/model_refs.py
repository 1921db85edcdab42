"""Which model of a server's list a name means: the served id, or one of the forms of earlier versions (link.md, initialize)."""

from typing import Any

from lembasd.engine.native.core import model_list
from lembasd.engine.native.core.levels import ModelInfo


def is_list(listed: Any) -> bool:
    """Whether a server's answer says which models there are."""
    return isinstance(listed, dict) and isinstance(listed.get("data"), list)


def resolve(listed: Any, ref: str, connection: str | None) -> ModelInfo | None:
    """The model that `ref` names, None when it names none or several. `connection`: the login's name, a prefix once.

    `<login>/<id>`, and `<login>/<model>` for the one served `<provider>/<model>`, are read as they were.
    """
    found = model_list.find(listed, ref)
    if found is not None or not connection or not ref.startswith(f"{connection}/"):
        return found
    rest = ref.removeprefix(f"{connection}/")
    found = model_list.find(listed, rest)
    if found is not None:
        return found
    named = [one for one in _ids(listed) if one.partition("/")[2] == rest]
    return model_list.find(listed, named[0]) if rest and len(named) == 1 else None


def _ids(listed: Any) -> list[str]:
    ids = (entry.get("id") for entry in listed["data"] if isinstance(entry, dict))
    return sorted({one for one in ids if isinstance(one, str)})
