"""shfmt reads the same lines: where the judge says that it has seen all, both find the same commands by name."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lembasd.engine.native.conformance import load
from lembasd.engine.native.core.shell.evaluate import State
from lembasd.engine.native.core.shell.reading import Command, Word
from lembasd.engine.native.core.shell.walk import Expander, Walk
from tests.support.disguises import ASKED, SEEN

SHFMT = shutil.which("shfmt", path=str(Path(sys.executable).parent))
#: words that one of the two takes for a part of the language, the other for a command
LANGUAGE = {"[", "let", "}"}
#: words of the language that stand in front of a command
KEYWORDS = {"time", "-p", "coproc", "{"}
#: of a head that is no text
OPAQUE = None


class Heads(Expander):
    """Keeps the names that the judge finds, before anything is peeled off or read again.

    What stands behind `time` is a command with its assignments to shfmt, words to the judge.
    """

    def __init__(self) -> None:
        self.found: set[str | None] = set()

    def command(self, walk: Walk, one: Command, state: State) -> None:
        rest = list(one.words)
        while rest and (rest[0].text in KEYWORDS or re.match(r"\w+=", rest[0].text)):
            rest.pop(0)
        if rest:
            head = rest[0]
            plain = head.known and not head.glob
            self.found.add(head.text if plain else OPAQUE)

    def assigned(self, walk: Walk, name: str, value: Word, state: State) -> None:
        """An assignment is no command."""


def lines() -> list[str]:
    """Every command of the corpora, and of the disguises."""
    found = [
        command
        for area in load()
        for case in area.cases
        for command in _commands(case.input)
        if "\0" not in command and len(command) < 5000
    ]
    for make in (*SEEN.values(), *ASKED.values()):
        found += [make("touch", "mark"), make("rm", "-rf build")]
    return list(dict.fromkeys(found))


def _commands(given: Any) -> list[str]:
    if not isinstance(given, dict):
        return []
    return [one for one in given.get("commands", []) if isinstance(one, str)]


def parsed(line: str) -> Any:
    """shfmt's tree; None where it finds none."""
    assert SHFMT is not None
    done = subprocess.run(
        [SHFMT, "--to-json", "-ln", "bash"],
        input=line.encode(errors="replace"),
        capture_output=True,
        timeout=20,
        check=False,
    )
    return json.loads(done.stdout) if done.returncode == 0 else None


def nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        for value in tree.values():
            yield from nodes(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from nodes(value)


def heads(tree: Any) -> set[str | None]:
    """The names of the commands in shfmt's tree."""
    found: set[str | None] = set()
    for node in nodes(tree):
        kind = node.get("Type")
        if kind == "CallExpr" and node.get("Args"):
            found.add(_text(node["Args"][0]["Parts"]))
        elif kind == "DeclClause":
            found.add(node["Variant"]["Value"])
    return found


def _text(parts: list[dict[str, Any]], *, quoted: bool = False) -> str | None:
    text = ""
    for part in parts:
        kind = part["Type"]
        if kind == "Lit" and quoted:
            text += re.sub(r'\\(\n|[\\"$`])', lambda f: f[1].strip("\n"), part["Value"])
        elif kind == "Lit":
            value = part["Value"]
            if re.search(r"(?<!\\)[*?~{]|(?<!\\)\[.", value):
                return OPAQUE
            text += re.sub(r"\\(\n|.)", lambda f: f[1].strip("\n"), value, flags=re.DOTALL)
        elif kind == "SglQuoted" and not part.get("Dollar"):
            text += part.get("Value", "")
        elif kind == "DblQuoted":
            inner = _text(part.get("Parts", []), quoted=True)
            if inner is None:
                return OPAQUE
            text += inner
        else:
            return OPAQUE
    return text


@pytest.mark.skipif(SHFMT is None, reason="there is no shfmt")
def test_both_parsers_find_the_same_commands() -> None:
    every = lines()
    assert len(every) > 1000
    with ThreadPoolExecutor(2) as threads:
        trees = list(threads.map(parsed, every))
    differing = []
    compared = 0
    for line, tree in zip(every, trees, strict=True):
        ours = Heads()
        walk = Walk(ours)
        walk.read(line, State({"HOME": "/h", "IFS": " \t\n"}, frozenset({"/h"})))
        if walk.reading.unseen:
            # it is asked about, whatever it is
            continue
        compared += 1
        theirs = set() if tree is None else heads(tree)
        known = theirs - LANGUAGE - {OPAQUE}
        surplus = ours.found - theirs - LANGUAGE - {OPAQUE}
        if known - ours.found or (surplus and OPAQUE not in theirs):
            differing.append((line, theirs, ours.found))
    assert differing == []
    assert compared > 900
