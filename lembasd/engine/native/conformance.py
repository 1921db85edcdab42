"""The conformance cases of the harness, run against this implementation.

A case is data: `input` for the area's rule, `expect` what it answers. `RULES` has the rule of each area as this engine
follows it; a check takes others too, so that a test can see a broken rule fail.
"""

from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec
from msgspec import Struct

from lembasd.engine.native import permission_cases
from lembasd.engine.native.core import (
    commands,
    edit_match,
    instructions,
    levels,
    patch,
    patch_apply,
    place,
)
from lembasd.engine.native.core.context import Conversation, capped
from lembasd.engine.native.core.mentions import Mention, mentions
from lembasd.engine.native.core.reply import ReplyAssembler, StreamError
from lembasd.engine.native.core.shown import Shown
from lembasd.harness.loader import LOOP
from lembasd.harness.tool import Narrow, fill, narrowed
from lembasd.store.records import AnyRecord, Seen

FOLDER: Final = "conformance"
Rule = Callable[[Any], Any]


class Case(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """`expect` is left out of a case that is not recorded yet."""

    name: str
    input: Any
    expect: Any = None
    note: str = ""


class Area(Struct, forbid_unknown_fields=True):
    """One conformance/<area>.json."""

    area: str
    about: str
    cases: list[Case]


class Failure(Struct, frozen=True):
    """A case whose answer is not the expected one."""

    area: str
    case: str
    expected: Any
    answered: Any


def load() -> list[Area]:
    """Every area of the harness. Raises msgspec.MsgspecError for a file that is none."""
    folder = files("lembasd.harness") / FOLDER
    found = sorted(
        (one for one in folder.iterdir() if one.name.endswith(".json")), key=lambda one: one.name
    )
    return [msgspec.json.decode(one.read_bytes(), type=Area) for one in found]


def check(areas: list[Area], rules: Mapping[str, Rule] | None = None) -> Iterator[Failure]:
    """The cases that fail."""
    rules = RULES if rules is None else rules
    for area in areas:
        for case in area.cases:
            answer = answered(rules[area.area], case)
            if answer != case.expect:
                yield Failure(area.area, case.name, case.expect, answer)


def answered(rule: Rule, case: Case) -> Any:
    """The rule's answer as JSON values; a refusal is {"refused": its kind}."""
    try:
        return msgspec.to_builtins(rule(case.input))
    except (KeyError, ValueError, RuntimeError) as error:
        return {"refused": type(error).__name__}


# ── the rule of each area ───────────────────────────────────────────────────────────────────────


def _fill(given: Any) -> str:
    return fill(given["text"], given["variables"])


def _narrow(given: Any) -> dict[str, Any]:
    return narrowed(given["parameters"], msgspec.convert(given["narrow"], Narrow))


def _context(given: Any) -> list[str]:
    """The results of calls, one after the other, as a model sees them."""
    shown = Shown()
    told: list[str] = []
    for number, call in enumerate(given, 1):
        if call.get("compacted"):
            shown.clear()
            told.append("")
            continue
        result_id = f"#{number:04x}"
        args = call.get("args", {})
        seen = msgspec.convert(call["seen"], Seen) if "seen" in call else None
        output = call["output"] * call.get("times", 1)
        text = capped(output, LOOP.context, result_id)
        stub = shown.stub(call["name"], args, text, seen) if text == output else None
        if stub is None and text == output:
            shown.add(call["name"], args, text, seen, result_id)
        said = stub or text
        told.append(said if len(said) <= 400 else f"{said[:20]}…{said.partition('[')[2][:50]}")
    return told


def _reasoning(given: Any) -> list[str | None]:
    """The reasoning of each assistant message of the next request."""
    records = msgspec.convert(given["records"], list[AnyRecord])
    conversation = Conversation(records)
    conversation.facts |= set(given.get("facts", []))
    return [
        one.get("reasoning_content", one.get("reasoning"))
        for one in conversation.messages()
        if one["role"] == "assistant"
    ]


def _levels(given: Any) -> dict[str, Any]:
    info = msgspec.convert({"id": "m", **given["model"]}, levels.ModelInfo)
    sends = {level: levels.parameters(level, info) for level in given["asked"]}
    return {"levels": levels.offered(info), "start": levels.start(info), "sends": sends}


def _paths(given: Any) -> Any:
    root = PurePosixPath(given["root"])
    if "path" in given:
        return str(place.absolute(root, given["path"], given.get("homes", {})))
    return place.environment(root, given["platform"])


def _toolcall_index(given: Any) -> list[dict[str, Any]]:
    """The calls of a reply, from its streamed pieces."""
    count = iter(range(1, 1000))
    one = ReplyAssembler(lambda: f"call_{next(count):09d}", (), given["offered"])
    for pieces in given["chunks"]:
        chunk = {"choices": [{"index": 0, "delta": {"tool_calls": pieces}}]}
        news = one.feed(msgspec.json.encode(chunk))
        if isinstance(news, StreamError):
            raise ValueError(news.message)
    return [{"name": call.name, "args": call.args} for call in one.reply().calls]


def _instructions(given: Any) -> list[instructions.Instruction]:
    texts = {PurePosixPath(path): text for path, text in given["files"].items()}
    return instructions.stacked(
        PurePosixPath(given["boundary"]),
        PurePosixPath(given["start"]),
        lambda path: texts.get(PurePosixPath(path)),
    )


def _edit(given: Any) -> edit_match.Edited | edit_match.Refused:
    everywhere = given.get("replace_all", False)
    return edit_match.edited(
        given["text"], given["old"], given["new"], "a.txt", everywhere=everywhere
    )


def _patch(given: Any) -> Any:
    """The files after a patch: what is in them, by name; or why nothing was changed."""
    files: dict[str, str] = dict(given["files"])
    try:
        for one in patch.parsed(given["patch"]):
            text = "" if one.kind == "add" else files.pop(one.path)
            after = (
                patch_apply.Applied(patch_apply.added(one.hunks))
                if one.kind == "add"
                else patch_apply.applied(text, one.hunks, one.path)
            )
            if isinstance(after, patch_apply.Unfitting):
                return after
            if one.kind != "delete":
                files[one.moved_to or one.path] = after.text
    except patch.BadPatch as bad:
        return patch_apply.Unfitting(str(bad))
    return files


def _mentions(given: Any) -> list[list[Mention]]:
    """The readings of each word of a text that may name a path."""
    return [list(readings) for readings in mentions(given)]


def _commands(given: Any) -> Any:
    """What a prompt is, in a session that has these commands: a command with its text or its arguments, or text."""
    found = commands.typed(given["text"])
    own = (commands.read(name, text, own=False) for name, text in given["files"].items())
    known = commands.together([one for one in own if commands.is_name(one.name)], ())
    command = None if found is None else known.get(found.name)
    if found is None or command is None:
        return {"text": given["text"]}
    if command.kind == "builtin":
        return {"command": command.name, "arguments": found.args}
    return {"command": command.name, "text": commands.filled(command.body, found.args)}


RULES: Final[dict[str, Rule]] = {
    "commands": _commands,
    "mentions": _mentions,
    "fill": _fill,
    "narrow": _narrow,
    "context": _context,
    "reasoning": _reasoning,
    "levels": _levels,
    "paths": _paths,
    "toolcall_index": _toolcall_index,
    "instructions": _instructions,
    "hardline": permission_cases.hardline,
    "arity": permission_cases.arity,
    "rules": permission_cases.rules,
    "modes": permission_cases.modes,
    "edit": _edit,
    "patch": _patch,
}
