"""A line of bash walked: every command in it, wherever it stands, with what is known of its words.

What is not understood is never passed over: it is one of the reading's `unseen`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import translate
from typing import Final

from msgspec import Struct
from tree_sitter import Node

from lembasd.engine.native.core.shell import words
from lembasd.engine.native.core.shell.directories import joined
from lembasd.engine.native.core.shell.evaluate import (
    HIDDEN,
    NOTHING,
    TOO_LONG,
    UNREADABLE,
    Evaluator,
    State,
    holds_command,
)
from lembasd.engine.native.core.shell.parse import CONTINUED, heredoc_bounds, parse, text_of
from lembasd.engine.native.core.shell.reading import (
    MAX_DEPTH,
    UNKNOWN,
    Access,
    Command,
    Opened,
    Word,
)
from lembasd.harness.permissions import HARDLINE

_SKIPPED: Final = frozenset({"comment", "heredoc_end", "heredoc_start", "heredoc_body"})
_HEREDOC: Final = frozenset({"heredoc_start", "heredoc_body", "heredoc_end"})
_REDIRECTS: Final = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
#: options of declare
_HIDES: Final = re.compile(r"[nrilu]")
_CHANGING: Final = re.compile(r"[nilucaA]")
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_COPY: Final = re.compile(r"\d+-?|-")
#: variables that the shell itself changes
_OWN: Final = re.compile("|".join(map(translate, HARDLINE.spelling.shell_variables)))
#: what reads lines with the variables that it alone is given
_EVALUATES: Final = frozenset({"eval", "source", ".", "builtin", "command"})
#: what a function's body, or a trap's, may rely on wherever it is run
_LASTING: Final[tuple[str, ...]] = ("HOME", "IFS")


class Expander(ABC):
    """What a plain command comes to."""

    @abstractmethod
    def command(self, walk: "Walk", one: Command, state: State) -> None:
        """Add the command to the reading, and whatever it runs."""

    @abstractmethod
    def assigned(self, walk: "Walk", name: str, value: Word, state: State) -> None:
        """See to what the value of a variable may run."""


class _Body(Struct, frozen=True):
    """A function's body, to be read again where more turns out to be unknown."""

    node: Node
    source: bytes
    name: str
    state: State


class _Tail(Struct):
    """What hangs on a command's redirections: words of it, what follows it, what it is piped into."""

    words: list[Word] = []
    then: list[Node] = []
    pipe: list[Node] = []


class Walk(Evaluator):
    """One reading of one line."""

    def __init__(self, expander: Expander, exported: Mapping[str, str] = NOTHING) -> None:
        super().__init__(exported)
        self._expander = expander
        self._bodies: list[_Body] = []
        #: command → words of it that the parser hangs on its redirections
        self._left: dict[int, list[Word]] = {}
        #: statement → what it reads by a redirection that the parser hangs on more than it
        self._fed: dict[int, Word] = {}
        #: an exec has changed what the commands behind it read
        self.input_lost = False
        #: somewhere in the line the directory, or what bodies rely on, changes
        self.moves = False

    def read(self, text: str, state: State) -> None:
        """Read the whole line."""
        self.line(text, state)
        bodies = self._bodies
        if self.moves and bodies:
            self._bodies = []
            for one in bodies:
                # it may run after the change
                self.source = one.source
                self._body(one.node, one.name, State({}, None, UNKNOWN, one.state.inside))

    def line(self, text: str, state: State) -> None:
        """Read a line, or one that a command of it is given."""
        tree = parse(text, self.left) if state.depth <= MAX_DEPTH else None
        if tree is None:
            self.reading.cannot_see(TOO_LONG)
            return
        if not tree.is_whole:
            self.reading.cannot_see(UNREADABLE)
        outer, self.source = self.source, tree.source
        self.block(tree.root.children, state)
        self.source = outer

    # ── statements ──────────────────────────────────────────────────────────────────────────────

    def block(self, nodes: list[Node], state: State) -> None:
        for number, child in enumerate(nodes):
            if not child.is_named:
                continue
            if number + 1 < len(nodes) and nodes[number + 1].type == "&":
                self.statement(child, state.copy())
                continue
            before = state.places
            self.statement(child, state)
            if before is not state.places:
                # the next one runs too where a cd failed
                state.places = joined(before, state.places)

    def statement(self, node: Node, state: State) -> None:
        if node.type in _SKIPPED:
            return
        state.depth += 1
        outer, given = state.input, self._fed.pop(node.id, None)
        if given is not None and node.type != "command":
            state.input = given
        elif given is not None:
            # it counts more than what the command itself was given before
            self._fed[node.id] = given
        if self.spend(state):
            method = STATEMENTS.get(node.type)
            if method is None:
                self.reading.cannot_see(UNREADABLE)
                self.inner(node, state)
            else:
                method(self, node, state)
        state.input = outer
        state.depth -= 1

    def group(self, node: Node, state: State) -> None:
        """`{ …; }`, and `(( … ))`, which the parser takes for one."""
        if node.children and node.children[0].type == "((":
            self.inner(node, state)
        else:
            self.block(node.children, state)

    def subshell(self, node: Node, state: State) -> None:
        """`( … )`: what it changes ends with it."""
        self.block(node.children, state.copy())

    def and_or(self, node: Node, state: State) -> None:
        """`a && b || c`: what follows && knows what came before it, what follows || that something failed."""
        chain: list[tuple[str, Node]] = []
        while node.type == "list":
            chain.append((node.children[-2].type, node.children[-1]))
            node = node.children[0]
        before, flow = state.places, state.copy()
        self.statement(node, flow)
        seen = [flow.copy()]
        for operator, follows in reversed(chain):
            if operator != "&&":
                flow.merge(seen)
                flow.places = joined(flow.places, before)
            self.statement(follows, flow)
            seen.append(flow.copy())
        state.variables, state.places = seen[0].variables, joined(before, seen[0].places)
        state.merge(seen[1:])

    def pipeline(self, node: Node, state: State) -> None:
        """`a | b`: each part in a shell of its own."""
        self._parts([one for one in node.children if one.is_named], state, state.input)

    def _parts(self, parts: list[Node], state: State, given: Word | None) -> None:
        names = [text_of(one) for one in parts]
        if any(names.count(one) > 1 for one in state.inside):
            self.reading.fork_bomb = True
        for part in parts:
            inner = state.copy()
            inner.input = given
            self.statement(part, inner)
            given = self.said(part, inner) or UNKNOWN

    def negated(self, node: Node, state: State) -> None:
        """`! a`."""
        for child in node.children:
            if child.is_named:
                self.statement(child, state)

    def either(self, node: Node, state: State) -> None:
        """if, case and their parts: what stands in one may run or not."""
        base, flow, is_open = state.copy(), state.copy(), False
        ends: list[State] = []
        for child in node.children:
            kind = child.type
            if kind in ("then", "else", ")"):
                is_open, flow = True, base.copy()
            elif kind in ("elif_clause", "else_clause", "case_item"):
                part = base.copy()
                self.either(child, part)
                ends.append(part)
            elif not child.is_named or kind in _SKIPPED:
                continue
            elif is_open:
                before = flow.places
                self.statement(child, flow)
                flow.places = joined(before, flow.places)
            elif node.type in ("case_statement", "case_item"):
                self.inner(child, base)
            else:
                self.statement(child, flow)
                base = flow.copy()
        state.variables, state.places = base.variables, joined(state.places, base.places)
        state.merge([*ends, flow])

    def loop(self, node: Node, state: State) -> None:
        """for, while, until, select: what its body changes is not known at its start."""
        unsure = self.unsure
        for _ in range(3):
            after = self._once(node, state.copy())
            known = state.copy()
            known.merge([after])
            is_settled = known.variables == state.variables and known.places == state.places
            if is_settled and self.unsure == unsure:
                return
            unsure = self.unsure
            state.variables = known.variables
            state.places = known.places if after.places == state.places else None
        state.variables, state.places = {}, None
        self._once(node, state.copy())

    def _once(self, node: Node, flow: State) -> State:
        for child in node.children:
            if child.type == "variable_name":
                flow.forget(text_of(child))
            elif child.type in ("do_group", "compound_statement") or (
                child.is_named and node.type == "while_statement"
            ):
                self.statement(child, flow)
            elif child.is_named:
                self.inner(child, flow)
        return flow

    def function(self, node: Node, state: State) -> None:
        """A body runs somewhere else and later: little is known there."""
        name = next((text_of(one) for one in node.children if one.type == "word"), "")
        kept = {key: state.variables[key] for key in _LASTING if key in state.variables}
        inner = State(kept, state.places, UNKNOWN, (*state.inside, name), state.depth)
        self._bodies.append(_Body(node, self.source, name, inner))
        with self.later():
            self._body(node, name, inner.copy())

    @contextmanager
    def later(self) -> Iterator[None]:
        """What is read here runs later, and may change what is known there."""
        moves, self.moves = self.moves, False
        yield
        self.unsure = True
        self.place_lost = self.place_lost or self.moves
        self.moves = self.moves or moves

    def _body(self, node: Node, name: str, inner: State) -> None:
        for child in node.children:
            if child.type in _REDIRECTS:
                self._redirect(child, inner, _Tail())
            elif child.is_named and child.type != "word":
                self.statement(child, inner)
        if name and _runs_beside(node, name):
            self.reading.fork_bomb = True

    def test(self, node: Node, state: State) -> None:
        """`[[ … ]]` and `[ … ]`: no command, but substitutions may stand in it."""
        self.inner(node, state)

    # ── redirections ────────────────────────────────────────────────────────────────────────────

    def redirected(self, node: Node, state: State) -> None:
        """A statement with redirections, and what else the parser hangs on them."""
        inner, tail = state.copy(), _Tail()
        body: Node | None = None
        for child in node.children:
            if child.type in _REDIRECTS:
                self._redirect(child, inner, tail)
            else:
                body = child
        said = self._shown_heredoc(node, "pipeline") if tail.pipe else None
        last = _last(body)
        if tail.words and (last is None or last.type != "command"):
            self.reading.cannot_see(UNREADABLE)
        elif last is not None:
            self._left[last.id] = tail.words
        if last is not None and inner.input is not state.input:
            self._fed[last.id] = inner.input or UNKNOWN
            inner.input = state.input
        if body is not None:
            self.statement(body, inner)
        state.variables, state.places = inner.variables, inner.places
        if tail.pipe:
            self._parts(tail.pipe, state, said or UNKNOWN)
        flow = state.copy()
        for follows in tail.then:
            self.statement(follows, flow)
        state.merge([flow])

    def _redirect(self, node: Node, state: State, tail: _Tail) -> None:
        if node.type == "herestring_redirect":
            found = self.words_of([node.children[-1]], state)
            state.input = found[0] if len(found) == 1 else Word("", known=not found)
        elif node.type == "file_redirect":
            tail.words += self.opens(node, state)
        else:
            self._heredoc(node, state, tail)

    def _heredoc(self, node: Node, state: State, tail: _Tail) -> None:
        state.input = self._heredoc_text(node) or UNKNOWN
        is_next = False
        for child in node.children:
            kind = child.type
            if kind == "heredoc_body":
                self.inner(child, state)
            elif kind in _REDIRECTS:
                given = state.input
                self._redirect(child, state, tail)
                state.input = (
                    given if kind == "file_redirect" and ">" in text_of(child) else state.input
                )
            elif kind in ("&&", "||"):
                is_next = True
            elif kind == "pipeline":
                tail.pipe += [one for one in child.children if one.is_named]
            elif is_next and child.is_named and kind not in _SKIPPED:
                tail.then.append(child)
            elif child.is_named and kind not in _SKIPPED and kind != "file_descriptor":
                tail.words += self.words_of([child], state)

    def opens(self, node: Node, state: State) -> list[Word]:
        operator, targets = "", list[Word]()
        for child in node.children:
            if child.type == "file_descriptor":
                continue
            if child.is_named:
                targets += self.words_of([child], state)
            else:
                operator = child.type
        if operator.startswith("<"):
            state.input = UNKNOWN
        if operator.endswith("-") or not targets:
            return targets
        target, rest = targets[0], targets[1:]
        if operator in (">&", "<&"):
            if not target.known or holds_command(target.text):
                # its word is expanded twice
                self.reading.cannot_see(HIDDEN)
            elif _COPY.fullmatch(target.text):
                return rest
        access: Access = "read" if operator.startswith("<") else "write"
        self.reading.opened.append(Opened(target, access, self.places(state)))
        return rest

    def _heredoc_text(self, node: Node) -> Word | None:
        """A here-document as whoever reads it gets it; None when a part of it is known when it runs."""
        found = heredoc_bounds(node, self.source)
        if found is None:
            self.reading.cannot_see(UNREADABLE)
            return None
        raw, text, _ = found
        if re.search(r"[\\'\"]", raw):
            return Word(text)
        parts = [
            part for one in node.children if one.type == "heredoc_body" for part in one.children
        ]
        if any(one.is_named and one.type != "heredoc_content" for one in parts):
            return None
        if not parts and words.may_run(text):
            self.reading.cannot_see(UNREADABLE)
        said = words.in_quotes(text, "")
        return None if said is None else Word(said)

    def said(self, node: Node, state: State) -> Word | None:
        if self.unsure:
            return None
        if node.type == "command":
            text = text_of(node)
            if not text.startswith(("echo", "cat")) or holds_command(text) or "(" in text:
                return None
            found = self._words(node, state.copy())
            if [one.text for one in found] == ["cat"]:
                return state.input
            return _echoed(found)
        return self._shown_heredoc(node)

    def _shown_heredoc(self, node: Node, *more: str) -> Word | None:
        """The here-document that a plain `cat` puts out, when nothing but `more` hangs on it."""
        if [one.type for one in node.children] != ["command", "heredoc_redirect"]:
            return None
        cat, heredoc = node.children
        parts = {one.type for one in heredoc.children if one.is_named}
        if text_of(cat) != "cat" or not parts <= {*_HEREDOC, *more}:
            return None
        return self._heredoc_text(heredoc)

    # ── commands ────────────────────────────────────────────────────────────────────────────────

    def assignments(self, node: Node, state: State) -> None:
        """`A=1 B=2` without a command: they last."""
        names: list[str] = []
        for part in (one for one in (node, *node.children) if one.type == "variable_assignment"):
            self._assign(part, state, names, lasts=True)
        self._give([], names, state)

    def _assign(self, node: Node, state: State, names: list[str], *, lasts: bool) -> Word:
        """Note one assignment; the word that it is as an argument."""
        target, operator, *value = node.children
        written = text_of(target)
        name = re.sub(r"\[.*|\+$", "", written, flags=re.DOTALL)
        if _NAME.fullmatch(name) is None:
            # a command to bash
            self.reading.cannot_see(UNREADABLE)
        if written != name:
            self.inner(target, state)
        if value and value[0].type == "array":
            self.inner(value[0], state)
            word = UNKNOWN
        else:
            word = self.value_of(value, state) if value else Word("")
        if word.known and holds_command(word.text):
            self.reading.cannot_see(HIDDEN)
        names.append(name)
        self._expander.assigned(self, name, word, state)
        if lasts:
            self.moves = self.moves or name in _LASTING
            if name in ("PWD", "CDPATH"):
                self.place_lost = True
            self.home_lost = self.home_lost or (name == "HOME" and bool(state.inside))
            state.forget(name)
            if word.known and operator.type == "=" and written == name and not _OWN.match(name):
                state.variables[name] = word.text
        else:
            state.forget(name)
        return Word(f"{written}{operator.type}{word.text}", known=word.known)

    def declaration(self, node: Node, state: State) -> None:
        """export, declare, local, unset: words, and names that change."""
        names: list[str] = []
        found: list[Word] = []
        for child in node.children:
            if child.type == "variable_assignment":
                found.append(self._assign(child, state, names, lasts=True))
            elif child.type == "variable_name":
                names.append(text_of(child))
                found.append(Word(text_of(child)))
            elif not child.is_named:
                found.append(Word(text_of(child)))
            else:
                more = [] if child.type in _SKIPPED else self.words_of([child], state)
                found += more
                for word in more:
                    state.forget(assigned_name(word.text))
        self.unsure = self.unsure or hides_variables(found)
        options = "".join(one.text for one in found if one.text.startswith("-"))
        if node.type == "unset_command" or _CHANGING.search(options):
            # gone, a name for another variable, or a value that is changed as it is set
            for name in names:
                self.moves = self.moves or name in _LASTING
                state.forget(name)
        known = dict(state.variables) if all(one.known for one in found) else {}
        self._give(found, names, state)
        state.variables = known

    def plain(self, node: Node, state: State) -> None:
        """A command."""
        inner, names, tail = state.copy(), list[str](), _Tail()
        for child in node.children:
            if child.type == "variable_assignment":
                self._assign(child, inner, names, lasts=False)
            elif child.type in _REDIRECTS:
                self._redirect(child, inner, tail)
        inner.input = self._fed.pop(node.id, inner.input)
        found = self._words(node, inner)
        self._give([*found, *tail.words, *self._left.pop(node.id, ())], names, inner)
        if found and found[0].text not in _EVALUATES:
            for name in (one for one in names if one in _LASTING and one in state.variables):
                # it was the command's alone
                inner.variables[name] = state.variables[name]
        state.variables, state.places = inner.variables, inner.places

    def _words(self, node: Node, state: State) -> list[Word]:
        """The words of a command; parts that touch, or that a continued line parts, are one."""
        found: list[Word] = []
        touching: list[Node] = []
        for child in node.children:
            if child.type == "variable_assignment" or child.type in _REDIRECTS | _SKIPPED:
                continue
            if touching:
                gap = self.source[touching[-1].end_byte : child.start_byte]
                if gap != b"" and CONTINUED.fullmatch(gap) is None:
                    found += self.words_of(touching, state)
                    touching = []
            touching.append(child)
        return found + self.words_of(touching, state)

    def _give(self, found: list[Word], names: list[str], state: State) -> None:
        one = Command(tuple(found), tuple(names), self.places(state))
        self._expander.command(self, one, state)


def assigned_name(text: str) -> str:
    """The variable that a word of export, declare or the like names."""
    return text.partition("=")[0].rstrip("+")


def hides_variables(found: list[Word]) -> bool:
    """Whether declare or the like makes a name for another variable, or one whose value is not what it is set to."""
    options = "".join(one.text for one in found if one.text[:1] == "-" or not one.known)
    return found[0].text == "readonly" or _HIDES.search(options) is not None


def _last(body: Node | None) -> Node | None:
    """The statement that a redirection behind this one is of."""
    while body is not None and body.type in ("pipeline", "list", "negated_command"):
        body = body.children[-1]
    return body


def _echoed(found: list[Word]) -> Word | None:
    """What echo says of its words."""
    if not found or found[0].text != "echo" or not all(one.known and not one.glob for one in found):
        return None
    rest = [one.text for one in found[1:]]
    while rest and re.fullmatch(r"-[neE]+", rest[0]):
        if "e" in rest.pop(0):
            return None
    return Word(" ".join(rest))


def _runs_beside(node: Node, name: str) -> bool:
    """Whether a function runs itself in the background, and again."""
    waiting, count, beside = [node], 0, False
    while waiting:
        children = waiting.pop().children
        for number, child in enumerate(children):
            if child.type == "command" and text_of(child) == name:
                count += 1
                beside = beside or (number + 1 < len(children) and children[number + 1].type == "&")
        waiting += children
    return beside and count > 1


STATEMENTS: Final = {
    "compound_statement": Walk.group,
    "do_group": Walk.group,
    "ERROR": Walk.group,
    "subshell": Walk.subshell,
    "list": Walk.and_or,
    "pipeline": Walk.pipeline,
    "negated_command": Walk.negated,
    "redirected_statement": Walk.redirected,
    "if_statement": Walk.either,
    "case_statement": Walk.either,
    "while_statement": Walk.loop,
    "for_statement": Walk.loop,
    "c_style_for_statement": Walk.loop,
    "function_definition": Walk.function,
    "command": Walk.plain,
    "declaration_command": Walk.declaration,
    "unset_command": Walk.declaration,
    "variable_assignment": Walk.assignments,
    "variable_assignments": Walk.assignments,
    "test_command": Walk.test,
}
