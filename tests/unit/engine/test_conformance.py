"""The harness' cases hold, and each fails when its rule is broken."""

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from lembasd.engine.native import conformance
from lembasd.engine.native.conformance import RULES, Case, check, load
from lembasd.engine.native.core.edit_match import Edited, Refused
from lembasd.harness import validation

AREAS = load()


def test_the_harness_is_what_it_says_it_is_and_every_case_holds() -> None:
    assert (list(validation.problems()), list(check(AREAS))) == ([], [])


def test_there_are_cases_for_every_rule() -> None:
    assert [area.area for area in AREAS] == sorted(RULES)
    for area in AREAS:
        names = [case.name for case in area.cases]
        assert len(set(names)) == len(names)
        assert all(case.expect is not None for case in area.cases)


def _replaced(text: str, variables: dict[str, str]) -> str:
    for name, value in variables.items():
        text = text.replace("{{" + name + "}}", value)
    return text


def changed(area: str, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The rule with its input changed on the way in."""
    return lambda given: RULES[area](change(given))


def without(*keys: str) -> Callable[[Any], Any]:
    return lambda given: {key: value for key, value in given.items() if key not in keys}


def steps(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Any], Any]:
    return lambda given: [change(one) for one in given]


def records(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Any], Any]:
    return lambda given: {**given, "records": [change(one) for one in given["records"]]}


def pieces(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Any], Any]:
    return lambda given: {
        **given,
        "chunks": [[change(one) for one in chunk] for chunk in given["chunks"]],
    }


def commands(area: str, change: Callable[[str], str]) -> Callable[[Any], Any]:
    return changed(
        area, lambda given: {**given, "commands": [change(c) for c in given["commands"]]}
    )


def seen_without(**other: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda one: {**one, "seen": {**one["seen"], **other}} if "seen" in one else one


def lenient(given: Any) -> Any:
    """The first of several places is taken."""
    answer = RULES["edit"](given)
    if isinstance(answer, Refused) and " times, at line" in answer.reason:
        return Edited(given["text"].replace(given["old"], given["new"], 1), "exact", [1])
    return answer


def plain_endings(given: Any) -> Any:
    return RULES["edit"]({**given, "text": given["text"].replace("\r\n", "\n")})


def without_step(step: str) -> Callable[[Any], Any]:
    def rule(given: Any) -> Any:
        answer = RULES["edit"](given)
        found = isinstance(answer, Edited) and answer.step == step
        return Refused("`old` does not stand there") if found else answer

    return rule


BROKEN: list[tuple[str, str, Callable[[Any], Any]]] = [
    ("fill", "empty bullets stay", lambda g: _replaced(g["text"], g["variables"])),
    (
        "fill",
        "unfilled variables stay",
        lambda g: _replaced(g["text"], {**g["variables"], "b": "{{b}}"}),
    ),
    (
        "fill",
        "every bullet of an empty variable goes",
        lambda g: "" if "" in g["variables"].values() else RULES["fill"](g),
    ),
    ("narrow", "nothing is narrowed", lambda g: g["parameters"]),
    (
        "narrow",
        "drop is not done",
        changed("narrow", lambda g: {**g, "narrow": {**g["narrow"], "drop": []}}),
    ),
    (
        "narrow",
        "enum is not done",
        changed("narrow", lambda g: {**g, "narrow": {**g["narrow"], "enum": {}}}),
    ),
    (
        "context",
        "no stubs",
        changed(
            "context",
            lambda g: [
                {**one, "name": f"n{n}", "seen": {**one["seen"], "path": str(n)}}
                if "seen" in one
                else one
                for n, one in enumerate(g)
            ],
        ),
    ),
    ("context", "a stub of a changed file", changed("context", steps(seen_without(digest="d")))),
    ("context", "a stub of other lines", changed("context", steps(seen_without(first=7, last=8)))),
    ("context", "a stub of another path", changed("context", steps(seen_without(path="a")))),
    (
        "context",
        "a stub of what is not in the request",
        changed("context", lambda g: [one for one in g if not one.get("compacted")]),
    ),
    (
        "context",
        "a stub of a command",
        changed("context", steps(lambda one: {**one, "name": "list"})),
    ),
    (
        "context",
        "no stub of a listing",
        changed("context", steps(lambda one: {**one, "name": "bash"})),
    ),
    ("context", "no cap", lambda g: [one.get("output", "") * one.get("times", 1) for one in g]),
    ("reasoning", "it never goes back", lambda g: [None for _ in RULES["reasoning"](g)]),
    (
        "reasoning",
        "it always goes back",
        lambda g: [
            one.get("reasoning") or None for one in g["records"] if one["type"] == "assistant"
        ],
    ),
    ("reasoning", "no server keeps it", changed("reasoning", without("facts"))),
    (
        "levels",
        "the switch is not known",
        changed("levels", lambda g: {**g, "model": without("thinking_switch")(g["model"])}),
    ),
    (
        "levels",
        "efforts are not known",
        changed("levels", lambda g: {**g, "model": without("efforts")(g["model"])}),
    ),
    (
        "levels",
        "the default effort is not known",
        changed("levels", lambda g: {**g, "model": without("default_effort")(g["model"])}),
    ),
    (
        "paths",
        "the place is said",
        lambda g: (
            {**RULES["paths"](g), "project": g["root"]} if "platform" in g else RULES["paths"](g)
        ),
    ),
    ("paths", "paths are taken as they are", lambda g: g.get("path") or RULES["paths"](g)),
    ("mentions", "backslashes are not read", changed("mentions", lambda g: g.replace("\\", ""))),
    ("mentions", "ranges are not read", changed("mentions", lambda g: g.replace("#", "\\#"))),
    ("mentions", "marks are the name's", lambda g: [one[:1] for one in RULES["mentions"](g)]),
    ("commands", "files are not looked at", changed("commands", lambda g: {**g, "files": {}})),
    (
        "commands",
        "any word is a command",
        changed("commands", lambda g: {**g, "text": g["text"].replace("/src/", "/note ")}),
    ),
    (
        "commands",
        "arguments are dropped",
        changed("commands", lambda g: {**g, "text": g["text"].partition(" ")[0]}),
    ),
    ("paths", "homes are not known", changed("paths", lambda g: {**g, "homes": {}})),
    (
        "toolcall_index",
        "the index alone counts",
        changed(
            "toolcall_index", pieces(lambda one: {**one, "index": one.get("index", 0), "id": "a"})
        ),
    ),
    ("toolcall_index", "ids are not looked at", changed("toolcall_index", pieces(without("id")))),
    (
        "toolcall_index",
        "names are not put together",
        changed("toolcall_index", lambda g: {**g, "offered": []}),
    ),
    (
        "instructions",
        "the start alone",
        changed("instructions", lambda g: {**g, "boundary": g["start"]}),
    ),
    (
        "instructions",
        "the boundary alone",
        changed("instructions", lambda g: {**g, "start": g["boundary"]}),
    ),
    (
        "instructions",
        "CLAUDE.md is not known",
        changed(
            "instructions",
            lambda g: {**g, "files": {k: v for k, v in g["files"].items() if "CLAUDE" not in k}},
        ),
    ),
    ("instructions", "innermost first", lambda g: list(reversed(RULES["instructions"](g)))),
    ("instructions", "no boundary", changed("instructions", lambda g: {**g, "boundary": "/"})),
    ("hardline", "links are not followed", changed("hardline", without("links"))),
    ("hardline", "the first line alone", commands("hardline", lambda one: one.split("\n")[0])),
    ("hardline", "the first command alone", commands("hardline", lambda one: one.split(";")[0])),
    ("hardline", "quotes mean nothing", commands("hardline", lambda one: one.replace("'", ""))),
    ("hardline", "cd is not followed", commands("hardline", lambda one: one.replace("cd ", ": "))),
    ("arity", "all that was ever asked is covered", changed("arity", without("shown"))),
    (
        "arity",
        "the first word is covered",
        lambda g: [one and one.split()[0] + " *" for one in RULES["arity"](g)],
    ),
    ("rules", "no rule counts", changed("rules", without("rules"))),
    ("rules", "modes do not count", changed("rules", without("mode"))),
    ("rules", "links are not followed", changed("rules", without("links"))),
    ("modes", "somebody is always there", changed("modes", without("anybody"))),
    ("modes", "no path counts", changed("modes", without("paths"))),
    ("modes", "nothing must be confirmed", changed("modes", without("confirm"))),
    ("edit", "the first of several places is taken", lenient),
    ("edit", "line endings are lost", plain_endings),
    ("edit", "replace_all is not known", changed("edit", without("replace_all"))),
    *(
        ("edit", f"nothing is found but for its {step}", without_step(step))
        for step in ("line endings", "line numbers", "trailing space", "indentation")
    ),
    ("edit", "typographic marks are others", without_step("typographic marks")),
    (
        "patch",
        "line endings are lost",
        changed(
            "patch",
            lambda g: {**g, "files": {k: v.replace("\r", "") for k, v in g["files"].items()}},
        ),
    ),
    (
        "patch",
        "a last newline is put where there was none",
        changed(
            "patch",
            lambda g: {**g, "files": {k: v.rstrip("\n") + "\n" for k, v in g["files"].items()}},
        ),
    ),
    (
        "patch",
        "the line after @@ is not looked at",
        changed("patch", lambda g: {**g, "patch": re.sub(r"(?m)^@@ [^-].*", "@@", g["patch"])}),
    ),
    (
        "patch",
        "line numbers are not looked at",
        changed("patch", lambda g: {**g, "patch": re.sub(r"(?m)^@@ -.*", "@@", g["patch"])}),
    ),
    (
        "patch",
        "the end of the file is not looked at",
        changed("patch", lambda g: {**g, "patch": g["patch"].replace("*** End of File\n", "")}),
    ),
]


@pytest.mark.parametrize(
    ("area", "broken", "rule"), BROKEN, ids=[f"{a}: {b}" for a, b, _ in BROKEN]
)
def test_a_broken_rule_fails_a_case(area: str, broken: str, rule: Callable[[Any], Any]) -> None:
    (cases,) = [one for one in AREAS if one.area == area]
    assert list(check([cases], {area: rule})), broken


def test_every_area_is_broken_here_in_some_way() -> None:
    assert {area for area, _, _ in BROKEN} == set(RULES)


def test_a_refusal_is_an_answer() -> None:
    case = Case("none", {"text": "{{a}}", "variables": {}})
    assert conformance.answered(RULES["fill"], case) == {"refused": "KeyError"}


def test_a_case_with_an_unknown_field_is_none() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"name": "n", "input": 1, "expected": 2}, Case)
