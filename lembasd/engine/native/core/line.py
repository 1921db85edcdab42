"""Whether a line of bash may run: every command in it is judged, and every file its redirections open.

One that is refused refuses the line, one that is asked about has the line asked; all must be allowed for it to run.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from lembasd.engine.native.core import arity, command_paths, floor, service_names
from lembasd.engine.native.core import rules as speaking
from lembasd.engine.native.core.arity import Grant
from lembasd.engine.native.core.command_paths import Named
from lembasd.engine.native.core.ground import Ground, Kept
from lembasd.engine.native.core.permission import (
    ALLOW,
    ASK,
    DENY,
    OUTSIDE,
    Verdict,
    by_mode,
    ruled,
)
from lembasd.engine.native.core.rules import Rulebook
from lembasd.engine.native.core.shell.options import basename, has_option
from lembasd.engine.native.core.shell.reading import Command, Opened, Reading
from lembasd.harness.permissions import HARDLINE
from lembasd.protocol.control import Mode
from lembasd.protocol.permission import Rule

#: what one "always" may cover; for a line of more commands it is not offered
MAX_GRANTS: Final = 5
_HARMLESS: Final = frozenset(HARDLINE.harmless_files)
_SPEAKERS: Final = frozenset(HARDLINE.speakers)
_READERS: Final = frozenset(HARDLINE.readers)
_UNPACKERS: Final = frozenset(HARDLINE.unpackers)
_DECLARES: Final = frozenset({"export", "declare", "typeset", "local", "readonly"})


def judge(
    reading: Reading, mode: Mode, rules: Rulebook, grants: frozenset[Grant], ground: Ground
) -> Verdict:
    """The decision on a line that was read. `ground` has its paths followed."""
    names = frozenset(basename(one.words[0].text) for one in reading.commands if one.words)
    ground = replace(ground, made=command_paths.made_links(reading))
    one = _Judge(reading, mode, rules, grants, ground, beside=names)
    found = list(one.restrictions())
    for by in ("floor", "rule"):
        for verdict in found:
            if verdict.kind == DENY and verdict.by == by:
                return verdict
    execute = by_mode("execute", mode)
    if execute.kind == DENY:
        return execute
    if found:
        return found[0]
    if reading.unseen:
        return Verdict(kind=ASK, reason=reading.unseen[0], rule="line.unseen")
    return one.permission(execute)


class _Judge(Struct):
    reading: Reading
    mode: Mode
    rules: Rulebook
    grants: frozenset[Grant]
    ground: Ground
    #: found once, asked for often
    named: dict[int, list[Named]] = {}
    ways: dict[Named, list[str]] = {}
    kept: dict[Named, list[Kept]] = {}
    #: the names of the line's commands
    beside: frozenset[str] = frozenset()

    # ── what is refused or asked in every mode ──────────────────────────────────────────────────

    def restrictions(self) -> Iterator[Verdict]:
        """What floor and rules have against the line."""
        if self.reading.fork_bomb:
            yield _refused("fork_bomb", "it starts itself without end")
        for one in self.reading.commands:
            if one.words and one.words[0].known:
                yield from self._floor(one)
                yield from self._protected(one)
                yield from self._restricted(one)
        for opened in self.reading.opened:
            yield from self._opened(opened)
        yield from self._mentioned()
        for rule in self.rules.path_rules:
            if any(
                speaking.names(rule, path, self.ground.root, self.ground.home)
                for path in self._used(rule)
            ):
                yield ruled(rule)

    def _mentioned(self) -> Iterator[Verdict]:
        """What is nobody's and stands in the line, though no command of it is seen to use it."""
        if self.reading.unseen or self.beside <= _SPEAKERS:
            return  # it is asked about anyway, or only says something
        text = self.reading.text
        for named in dict.fromkeys(service_names.of_line(text, self.ground.home, self.ground.root)):
            found = self.ground.access(named.text or "")
            if found is not None and found.access == "none":
                reason = f"{named.text} stands in it, which is protected ({found.why})"
                yield Verdict(kind=ASK, reason=reason, rule="floor.protected_path")
        if service_names.leads_by_process(text):
            reason = "a path in it goes by where a process is, which is known only when it runs"
            yield Verdict(kind=ASK, reason=reason, rule="floor.protected_path")

    def _floor(self, one: Command) -> Iterator[Verdict]:
        for rule, hit in floor.hits(one, self.ground, self.beside):
            if hit:
                yield _refused(rule.id, rule.why)
            else:
                yield Verdict(
                    kind=ASK,
                    reason=f"what {basename(one.words[0].text)} is given is known only when it runs",
                    rule=f"floor.{rule.id}",
                )

    def _protected(self, one: Command) -> Iterator[Verdict]:
        name = basename(one.words[0].text)
        if name in _SPEAKERS:
            return
        written = self._written(one)
        kept = [
            (named, found)
            for named in dict.fromkeys([*self._named(one), *written])
            for found in self._kept(named)
        ]
        for named, found in kept:
            if found.access == "none" or (found.access == "read" and named in written):
                yield _protected(named, found)
            elif found.access == "ask" and named in written:
                yield Verdict(kind=ASK, reason=found.why, rule="floor.asked_path")
            elif found.access == "read" and not one.outer and name not in _READERS:
                reason = f"{name} may write {named.text}, which is protected ({found.why})"
                yield Verdict(kind=ASK, reason=reason, rule="floor.protected_path")
        options = HARDLINE.replacers.get(name)
        if options is not None and (not options or has_option(one.words[1:], options) is not False):
            yield from self._replaced(name, written)
        yield from self._taken_in(one, name)

    def _replaced(self, name: str, written: set[Named]) -> Iterator[Verdict]:
        """A directory that holds what is protected, where another may come in its place."""
        for named in written:
            for way in self._ways(named):
                found = self.ground.stands_on(way)
                if found is not None:
                    reason = f"{name} may put something else in the place of {named.text}, and what is protected lies there ({found.why})"
                    yield Verdict(kind=ASK, reason=reason, rule="floor.protected_path")

    def _taken_in(self, one: Command, name: str) -> Iterator[Verdict]:
        """What is protected below a directory that a command takes in with all that lies there."""
        options = HARDLINE.recursive.get(name)
        if options is None or (options and not has_option(one.words[1:], options)):
            return
        places = command_paths.places_of(one) or ()
        starts = [*self._named(one), *(Named(place) for place in places)]
        written = starts if name in _UNPACKERS else self._written(one)
        for named in starts:
            for way in self._ways(named):
                found = self.ground.holds(way, written=named in written)
                if found is not None:
                    reason = f"{name} takes in all of {named.text}, and what is protected lies there ({found.why})"
                    yield Verdict(kind=ASK, reason=reason, rule="floor.protected_path")

    def _written(self, one: Command) -> set[Named]:
        """The paths a command writes, as far as is known of it."""
        words = floor.written(one)
        return set(command_paths.of_words(words, command_paths.places_of(one))) if words else set()

    def _opened(self, opened: Opened) -> Iterator[Verdict]:
        is_write = opened.access == "write"
        for named in command_paths.of_opened(opened):
            ways = self._ways(named)
            if is_write and any(map(self.ground.is_device, ways)):
                yield _refused("write_device", "it writes to a disk")
            for found in self._kept(named):
                if found.access == "none" or (found.access == "read" and is_write):
                    yield _protected(named, found)
                elif found.access == "ask" and is_write:
                    yield Verdict(kind=ASK, reason=found.why, rule="floor.asked_path")
        if is_write and not opened.word.known and not opened.word.text:
            reason = "which file it writes is known only when it runs"
            yield Verdict(kind=ASK, reason=reason, rule="line.opened")

    def _named(self, one: Command) -> list[Named]:
        """The paths a command names."""
        found = self.named.get(id(one))
        if found is None:
            found = self.named[id(one)] = list(command_paths.of_command(one))
        return found

    def _ways(self, named: Named) -> list[str]:
        found = self.ways.get(named)
        if found is None:
            found = self.ways[named] = command_paths.ways(named, self.ground)
        return found

    def _kept(self, named: Named) -> list[Kept]:
        """The protection of a path, by its words and by where it leads."""
        found = self.kept.get(named)
        if found is None:
            ways = self._ways(named)
            found = self.kept[named] = [k for w in ways if (k := self.ground.access(w)) is not None]
        return found

    def _restricted(self, one: Command) -> Iterator[Verdict]:
        for said in self.rules.restricting(one):
            if said.surely:
                yield ruled(said.rule, said.pattern)
            elif not one.stands_for:
                verdict = ruled(said.rule, said.pattern)
                reason = f"it may be what {verdict.reason.removesuffix(_TAILS[said.rule.decision])} is about"
                yield Verdict(kind=ASK, reason=reason, rule=verdict.rule, by="rule")

    def _used(self, rule: Rule) -> Iterator[str]:
        """The paths of the line that a rule on files may be about: read, written, or both."""
        key = speaking.key(rule.tool)
        if key not in ("read", "write", "bash", "*"):
            return
        found: list[Iterator[Named]] = []
        for one in self.reading.commands:
            if not one.words or basename(one.words[0].text) in _SPEAKERS:
                continue
            found.append(
                iter(self._written(one)) if key == "write" else command_paths.of_command(one)
            )
        found += [
            command_paths.of_opened(opened)
            for opened in self.reading.opened
            if key in ("bash", "*", opened.access)
        ]
        for named in chain(*found):
            yield from self._ways(named)

    # ── what must be allowed ────────────────────────────────────────────────────────────────────

    def permission(self, execute: Verdict) -> Verdict:
        """Whether a rule, the mode or a grant allows every command and file; what an "always" would cover if not."""
        wanted: dict[Grant, None] = {}
        asked: list[Verdict] = []
        allowed: list[Verdict] = []
        can_grant = True
        for one in self.reading.commands:
            if one.outer:
                continue
            inside = self._is_inside(one)
            verdict = self._allowed(one, inside=inside) or execute
            grant = arity.grant(one, self.ground.root, inside=inside)
            if verdict.kind == ASK and grant in self.grants:
                verdict = Verdict(
                    kind=ALLOW, reason="allowed for this session", rule="session.grant"
                )
            if verdict.kind == ALLOW:
                allowed.append(verdict)
                continue
            asked.append(verdict)
            can_grant = can_grant and grant is not None
            if grant is not None:
                wanted[grant] = None
        written = [one for one in self.reading.opened if not self._may_open(one)]
        if written:
            can_grant = False
            write = by_mode("write", self.mode)
            outside = write.rule.endswith(".inside")
            rule = write.rule.replace(".inside", ".outside")
            asked.append(Verdict(kind=ASK, reason=OUTSIDE if outside else write.reason, rule=rule))
        if not asked:
            nothing = Verdict(kind=ALLOW, reason="it runs nothing", rule="line.empty")
            return allowed[-1] if allowed else nothing
        always = tuple(wanted) if can_grant and len(wanted) <= MAX_GRANTS else ()
        return Verdict(kind=ASK, reason=asked[0].reason, rule=asked[0].rule, always=always)

    def _allowed(self, one: Command, *, inside: bool) -> Verdict | None:
        """The rule that allows a command to the letter."""
        if one.strange or not all(_is_harmless(name) for name in one.sets):
            return None
        if not one.words or (one.words[0].text in _DECLARES and one.sets):
            return Verdict(kind=ALLOW, reason="it only sets variables", rule="line.variables")
        said = self.rules.allowing(one, inside=inside)
        return None if said is None else ruled(said.rule, said.pattern)

    def _is_inside(self, one: Command) -> bool:
        """Whether a command runs in the project and names no path outside."""
        if one.places is None or not all(self._is_followed_inside(place) for place in one.places):
            return False
        return all(self._lies_inside(named) for named in self._named(one))

    def _lies_inside(self, named: Named) -> bool:
        followed = named.followed
        if followed is None:
            return False
        return named.text in _HARMLESS or self._is_followed_inside(followed)

    def _is_followed_inside(self, path: str) -> bool:
        return path in self.ground.links and self.ground.is_inside(self.ground.lead(path))

    def _may_open(self, opened: Opened) -> bool:
        """Whether the mode lets a redirection open its file."""
        if opened.access == "read" or opened.word.text in _HARMLESS:
            return True
        if opened.word.text.startswith("/dev/fd/"):
            return True
        write = by_mode("write", self.mode)
        if write.kind == ALLOW or not write.rule.endswith(".inside"):
            return write.kind == ALLOW
        found = list(command_paths.of_opened(opened))
        return all(self._lies_inside(named) and not self._kept(named) for named in found)


_TAILS: Final = {"allow": " allows it", "ask": " asks before it", "deny": " forbids it"}


def _is_harmless(name: str) -> bool:
    """Whether a variable changes nothing of what a command may do: a shell's own small name, or a listed one."""
    if name[:1].islower() or name[:1] == "_":
        return not name.lower().endswith("_proxy")
    return speaking.matches_any(name, HARDLINE.spelling.harmless_variables)


def _refused(rule: str, why: str) -> Verdict:
    return Verdict(
        kind=DENY, reason=f"{why}: refused in every mode", rule=f"floor.{rule}", by="floor"
    )


def _protected(named: Named, kept: Kept) -> Verdict:
    return Verdict(
        kind=DENY,
        reason=f"{named.text} is protected ({kept.why}): no tool may touch it in any mode",
        rule="floor.protected_path",
        by="floor",
    )
