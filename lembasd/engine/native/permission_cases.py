"""The conformance areas of the permission system: what the floor, arity, rules and modes say of calls in one project."""

from collections.abc import Sequence
from typing import Any, Final

from lembasd.engine.native.core import command_paths, line, permission
from lembasd.engine.native.core.arity import Grant
from lembasd.engine.native.core.ground import Ground, ground, protected_paths
from lembasd.engine.native.core.permission import CallFacts, PathFacts, Place, Verdict
from lembasd.engine.native.core.rules import Rulebook
from lembasd.engine.native.core.shell.expand import read
from lembasd.harness.permissions import DEFAULTS
from lembasd.protocol.acp import MODES
from lembasd.protocol.control import Mode
from lembasd.protocol.permission import read_rule

ROOT: Final = "/home/ann/site"
HOME: Final = "/home/ann"
SERVICE: Final = (
    "/home/ann/.config/lembas",
    "/home/ann/.local/state/lembas",
    "/run/user/1000/lembas",
    "/home/ann/.config/systemd/user",
)


def verdict(
    command: str,
    mode: Mode,
    *,
    rules: Sequence[Any] = (),
    grants: frozenset[Grant] = frozenset(),
    links: dict[str, str] | None = None,
) -> Verdict:
    """The decision on a command in the project; `links` are the symlinks there are."""
    reading = read(command, HOME, ROOT)
    found = _ground(command_paths.to_follow(reading), links or {})
    return line.judge(reading, mode, _book(rules), grants, found)


def hardline(given: Any) -> list[str]:
    """Commands where nothing but the floor and what cannot be seen stops them."""
    links = given.get("links")
    found = [verdict(one, "auto", links=links) for one in given["commands"]]
    return [f"{one.kind} {one.rule}" for one in found]


def arity(given: Any) -> Any:
    """What an "always" on a command covers; with `shown`, whether it covers each of the commands."""
    if "shown" not in given:
        return [verdict(one, "manual").always_text for one in given["commands"]]
    grants = frozenset(verdict(given["shown"], "manual").always)
    return [verdict(one, "manual", grants=grants).kind for one in given["commands"]]


def rules(given: Any) -> list[str]:
    """What rules, added to the defaults, make of calls."""
    mode = given.get("mode", "manual")
    found = [
        verdict(one, mode, rules=given.get("rules", []), links=given.get("links"))
        for one in given.get("commands", [])
    ]
    found += [_called(one, mode, given.get("rules", [])) for one in given.get("calls", [])]
    return [f"{one.kind} {one.rule}" for one in found]


def modes(given: Any) -> Any:
    """What each mode makes of a call; or the mode of a part of a session."""
    if "modes" in given:
        return permission.narrowed(*given["modes"])
    anybody = given.get("anybody", True)
    said: dict[str, str] = {}
    for mode in MODES:
        one = verdict(given["command"], mode) if "command" in given else _called(given, mode, [])
        one = permission.attended(one, anybody=anybody)
        said[mode] = f"{one.kind} {one.rule}"
    return said


def _called(given: Any, mode: Mode, rules: Sequence[Any]) -> Verdict:
    facts = CallFacts(
        tool=given["tool"],
        risk=given["risk"],
        paths=tuple(_facts(one, given["risk"]) for one in given.get("paths", [])),
        confirm=given.get("confirm", False),
    )
    return permission.judge(facts, mode, _book(rules), frozenset(), Place(ROOT, HOME))


def _facts(path: str, risk: str) -> PathFacts:
    return permission.path_facts(_ground([path], {}), path, risk)


def _ground(paths: Sequence[str], links: dict[str, str]) -> Ground:
    every = [*paths, *protected_paths(ROOT, HOME, SERVICE)]
    return ground(ROOT, HOME, SERVICE, {one: _followed(one, links) for one in every})


def _followed(path: str, links: dict[str, str]) -> str:
    for link, target in links.items():
        if path == link or path.startswith(f"{link}/"):
            return target + path[len(link) :]
    return path


_DEFAULT_BOOK: Final = Rulebook(DEFAULTS.rules)


def _book(rules: Sequence[Any]) -> Rulebook:
    if not rules:
        return _DEFAULT_BOOK
    return Rulebook([*DEFAULTS.rules, *(read_rule(one) for one in rules)])
