"""Permission rules: which of them speak of a call. A deny or an ask is read widely, an allow to the letter."""

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from msgspec import Struct

from lembasd.engine.native.core.shell.options import basename, has_option
from lembasd.engine.native.core.shell.reading import Command, Word
from lembasd.harness.loader import NAMES
from lembasd.harness.permissions import DEFAULTS
from lembasd.protocol.permission import Rule

#: path patterns kept ready; of more the oldest are made again
_PATTERNS: Final = 512


def key(tool: str) -> str:
    """The permission key of a tool, or of the name that a rule calls it by."""
    name = DEFAULTS.former.get(tool, tool)
    name = NAMES.get(name, name)
    return DEFAULTS.keys.get(name, name)


def speaks_of(rule: Rule, tool: str) -> bool:
    """Whether a rule is about a tool at all."""
    return rule.tool == "*" or key(rule.tool) == key(tool)


class Said(Struct, frozen=True):
    """A rule that speaks of a command, and which of its commands it was. `surely` False: it may, once the command runs."""

    rule: Rule
    pattern: str
    surely: bool = True


class _Pattern(Struct, frozen=True):
    rule: Rule
    text: str
    words: tuple[str, ...]
    #: its second word where it has one that is no pattern
    second: list[str] | None = None


class Rulebook:
    """Rules, ready to be asked about commands. `path_rules`: the deny and ask rules on files."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self.path_rules = [one for one in rules if one.path and one.decision != "allow"]
        self._allows: dict[str, list[_Pattern]] = {}
        self._others: dict[str, list[_Pattern]] = {}
        #: whose name is a pattern, and texts that may stand in any word, in small letters
        self._by_pattern: list[_Pattern] = []
        self._texts: list[tuple[str, _Pattern]] = []
        for rule in rules:
            if rule.path or not speaks_of(rule, "bash"):
                continue
            for text in rule.command or ("*",):
                words = text.split()
                second = None if "*" in "".join(words[1:2]) else words[1:2] or None
                pattern = _Pattern(rule, text, tuple(words), second)
                table = self._allows if rule.decision == "allow" else self._others
                name, rest = pattern.words[0], " ".join(pattern.words[1:]).lower()
                if "*" not in name or rule.decision == "allow":
                    table.setdefault(name, []).append(pattern)
                elif name == "*":
                    self._texts.append((rest.strip("*"), pattern))
                else:
                    self._by_pattern.append(pattern)

    def allowing(self, one: Command, *, inside: bool) -> Said | None:
        """The rule that allows a command to the letter. `inside`: it runs in the project and names nothing outside."""
        if not all(word.known for word in one.words):
            return None
        texts = [word.text for word in one.words]
        for pattern in (*self._allows.get(texts[0], ()), *self._allows.get("*", ())):
            rule = pattern.rule
            if rule.inside and not inside:
                continue
            if rule.unless and has_option(one.words[1:], rule.unless) is not False:
                continue
            second = pattern.second
            if (second is None or texts[1:2] == second) and _fits(pattern.words, texts):
                return Said(rule, pattern.text)
        return None

    def restricting(self, one: Command) -> Iterator[Said]:
        """The deny and ask rules that speak of a command, or may."""
        name = one.words[0].text
        by_name = [*self._others.get(name, ())]
        if basename(name) != name:
            by_name += self._others.get(basename(name), ())
        if self._texts:
            words = "\0".join(word.text for word in one.words[1:]).lower()
            for text, pattern in self._texts:
                if text in words:
                    yield Said(pattern.rule, pattern.text)
        for pattern in (*by_name, *self._by_pattern):
            if pattern.rule.unless and has_option(one.words[1:], pattern.rule.unless):
                continue
            found = _covers(pattern.words, one.words)
            if found is not False:
                yield Said(pattern.rule, pattern.text, surely=found is True)


def _fits(pattern: Sequence[str], texts: Sequence[str]) -> bool:
    """Whether words are those of a pattern, to the letter; a final `*` stands for whatever follows, or nothing."""
    if pattern[-1] == "*":
        pattern = pattern[:-1]
        texts = texts[: len(pattern)]
    if len(pattern) != len(texts):
        return False
    return all(
        text == one or ("*" in one and fnmatchcase(text, one))
        for one, text in zip(pattern, texts, strict=True)
    )


def _covers(pattern: Sequence[str], words: Sequence[Word]) -> bool | None:
    """Whether a deny or ask covers a command: with its options anywhere, whatever follows. None: it may."""
    if not fnmatchcase(basename(words[0].text), pattern[0]) and words[0].text != pattern[0]:
        return False
    rest = [one for one in pattern[1:] if one != "*"]
    options = [has_option(words[1:], [one]) for one in rest if one.startswith("-")]
    if False in options:
        return False
    plain = _in_order([one for one in rest if not one.startswith("-")], words[1:])
    return None if plain and None in options else plain


def _in_order(wanted: list[str], words: Sequence[Word]) -> bool | None:
    """Whether the wanted words stand among a command's first, options and their values between them left out."""
    left, skips, has_begun = list(wanted), False, False
    for word in words:
        if not left:
            break
        if not word.known:
            return None
        if fnmatchcase(word.text, left[0]):
            left.pop(0)
            has_begun = True
        elif not word.text.startswith("-") and not skips and not has_begun:
            return False
        skips = word.text.startswith("-") and "=" not in word.text
    return not left


def names(rule: Rule, path: str, root: str, home: str) -> bool:
    """Whether a rule's path is this one, or holds it. One without a slash is a name anywhere."""
    return not rule.path or _matcher(rule.path, root, home).fullmatch(path) is not None


@lru_cache(maxsize=_PATTERNS)
def _matcher(pattern: str, root: str, home: str) -> re.Pattern[str]:
    if pattern.startswith("~/"):
        start, rest = home, pattern[2:]
    elif pattern.startswith("/"):
        start, rest = "", pattern[1:]
    else:
        start, rest = root, pattern.removeprefix("./")
        if "/" not in rest.rstrip("/"):
            rest = f"**/{rest}"
    made = re.escape(start.rstrip("/")) + "/"
    wild = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    for piece in re.split(r"(\*\*/|\*\*|\*|\?)", rest.rstrip("/")):
        made += wild.get(piece) or re.escape(piece)
    return re.compile(made + r"(?:/.*)?", re.DOTALL)


def matches_any(name: str, patterns: Sequence[str]) -> bool:
    """Whether a name is one of these, in which `*` stands for anything."""
    return any(fnmatchcase(name, one) for one in patterns)
