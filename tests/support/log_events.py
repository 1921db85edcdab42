"""Every log call of the code: its event, its level and the fields it names."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import lembasd

_LEVELS: Final = {
    "debug": "debug",
    "info": "info",
    "warning": "warning",
    "error": "error",
    "exception": "error",
}
_NAMES: Final = {"log", "_log"}


@dataclass
class Event:
    """One event as the code writes it. More than one level in `levels` is a fault."""

    levels: set[str] = field(default_factory=set)
    fields: set[str] = field(default_factory=set)


def events() -> dict[str, Event]:
    """The events by name. Raises AssertionError for a call whose event is no plain text: it could not be listed."""
    found: dict[str, Event] = {}
    for path in sorted(Path(lembasd.__file__).parent.rglob("*.py")):
        for call in _calls(ast.parse(path.read_text(encoding="utf-8"))):
            name = call.args[0] if call.args else None
            where = f"{path.name}:{call.lineno}"
            assert isinstance(name, ast.Constant), f"{where}: an event must be a plain text"
            assert isinstance(call.func, ast.Attribute)
            event = found.setdefault(str(name.value), Event())
            event.levels.add(_LEVELS[call.func.attr])
            event.fields |= {one.arg for one in call.keywords if one.arg} - {"exc_info"}
            if call.func.attr == "exception":
                event.fields.add("error")
    return found


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _LEVELS
            and _is_logger(node.func.value)
        ):
            yield node


def _is_logger(node: ast.expr) -> bool:
    match node:
        case ast.Name(name) | ast.Attribute(attr=name):
            return name in _NAMES
        case ast.Call(func=ast.Name("logger") | ast.Attribute(attr="logger")):
            return True
        case _:
            return False
