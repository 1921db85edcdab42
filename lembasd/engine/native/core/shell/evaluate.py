"""The words of a command from its nodes, with what is known of variables at that place."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from tree_sitter import Node

from lembasd.engine.native.core.shell import words
from lembasd.engine.native.core.shell.directories import joined
from lembasd.engine.native.core.shell.parse import CONTINUED, text_of
from lembasd.engine.native.core.shell.reading import (
    MAX_DEPTH,
    MAX_NODES,
    Places,
    Reading,
    Word,
)
from lembasd.engine.native.core.shell.words import Piece

TOO_LONG: Final = "it is too long to be checked; write it to a file and run that"
UNREADABLE: Final = "a part of it cannot be read"
HIDDEN: Final = "a variable or name in it may hold a command"

SUBSTITUTIONS: Final = frozenset({"command_substitution", "process_substitution"})
_PLAIN: Final = frozenset(
    {"word", "number", "variable_name", "special_variable_name", "file_descriptor", "test_operator"}
)
_GROUPS: Final = frozenset({"concatenation", "command_name", "brace_expression"})
_QUOTED: Final = frozenset({"raw_string", "ansi_c_string"})
#: leaves of expressions and patterns: text, unless a substitution hides in them
_TEXT: Final = frozenset({"regex", "extglob_pattern", "test_operator", "word", "number"})
#: what a `$` that the parser took for text makes an expansion with
_EXPANDS: Final = re.compile(rb"(?:\\\n)*[\w@*#?!$({\[-]")
#: a variable; before a space it is text, and the parser takes the next word for a name
_NAMED: Final = re.compile(r"\s*\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?!$_-]|\s+\w*)")
_STATEMENTS: Final = frozenset(
    {"command", "redirected_statement", "declaration_command", "pipeline", "list"}
)


#: no variables
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class State(Struct):
    """What is known at one place of a line. A variable that is not there has an unknown value."""

    variables: dict[str, str]
    places: Places
    #: what a command here reads: None nothing of the line's, a Word its text (unknown: a pipe's)
    input: Word | None = None
    #: the functions whose bodies this is in
    inside: tuple[str, ...] = ()
    depth: int = 0

    def copy(self, *, deeper: int = 0) -> "State":
        """The same, to go on from on its own."""
        depth = self.depth + deeper
        return State(dict(self.variables), self.places, self.input, self.inside, depth)

    def merge(self, others: Iterable["State"]) -> None:
        """Keep what holds in this state and in each of the others."""
        for one in others:
            theirs = one.variables
            self.variables = {k: v for k, v in self.variables.items() if theirs.get(k) == v}
            self.places = joined(self.places, one.places)

    def forget(self, name: str) -> None:
        """The value of a variable is not known any more."""
        self.variables.pop(name, None)


class Evaluator(ABC):
    """Makes words. What reads statements is built on it, for words hold statements and statements words."""

    def __init__(self, exported: Mapping[str, str]) -> None:
        self.reading = Reading()
        #: what every shell of the line has, and nothing in it changes
        self.exported = exported
        self.source = b""
        #: nodes that may still be looked at
        self.left = MAX_NODES
        #: a function, a trap or another name may change any variable, HOME, the directory
        self.unsure = self.home_lost = self.place_lost = False

    @abstractmethod
    def statement(self, node: Node, state: State) -> None:
        """Read a statement that stands in a word or an expression."""

    @abstractmethod
    def block(self, nodes: list[Node], state: State) -> None:
        """Read statements one after the other."""

    @abstractmethod
    def opens(self, node: Node, state: State) -> list[Word]:
        """Note what a redirection opens; the words behind it."""

    @abstractmethod
    def said(self, node: Node, state: State) -> Word | None:
        """What a statement puts out, where it is plain to see."""

    def spend(self, state: State, nodes: int = 1) -> bool:
        """Whether more nodes, or words, may be looked at."""
        self.left -= nodes
        if self.left < 0 or state.depth > MAX_DEPTH:
            self.reading.cannot_see(TOO_LONG)
            return False
        return True

    # ── words ───────────────────────────────────────────────────────────────────────────────────

    def words_of(self, nodes: list[Node], state: State) -> list[Word]:
        """The words that nodes which touch each other come to."""
        return words.words(self.pieces(nodes, state), self.home(state))

    def value_of(self, nodes: list[Node], state: State) -> Word:
        """The one word that the value of an assignment is: it is never split."""
        found = [
            Piece(one.text, quoted=True) if one.expanded else one
            for one in self.pieces(nodes, state)
        ]
        made = words.words(found, self.home(state))
        return made[0] if len(made) == 1 else Word("", known=not made)

    def home(self, state: State) -> str | None:
        """The person's home at this place of the line."""
        return None if self.home_lost else state.variables.get("HOME")

    def places(self, state: State) -> Places:
        """Where a command at this place of the line may be."""
        return None if self.place_lost else state.places

    def pieces(self, nodes: Iterable[Node], state: State) -> list[Piece]:
        """The parts of a word."""
        found = [piece for node in nodes for piece in self._piece(node, state)]
        is_unknown = any(one.text is None for one in found)
        if is_unknown and holds_command("".join(one.text or "" for one in found)):
            # text that may be read once more, and would not be seen then
            self.reading.cannot_see(HIDDEN)
        return found

    def _piece(self, node: Node, state: State) -> list[Piece]:
        if not self.spend(state):
            return [Piece(None)]
        kind = node.type
        if kind in _PLAIN and not node.child_count:
            made = words.plain(text_of(node))
            return [self._unreadable()] if made is None else made
        if kind in _GROUPS:
            return self._group(node, state)
        if kind == "raw_string":
            return [Piece(text_of(node)[1:-1], quoted=True)]
        if kind == "ansi_c_string":
            return [self._ansi(node)]
        if kind == "string":
            return self._string(node, state)
        if kind == "translated_string":
            return self.pieces((one for one in node.children if one.is_named), state)
        if kind in ("simple_expansion", "expansion"):
            return [self._expansion(node, state, quoted=False)]
        if kind in SUBSTITUTIONS:
            quoted = kind == "process_substitution"
            return [self._substitution(node, state, quoted=quoted)]
        if kind == "$":
            return self._dollar(node)
        if not node.is_named and kind in ("{", "}", "..", "=", "[", "]", "!"):
            return [Piece(kind)]
        self.inner(node, state)
        return (
            [Piece(None, quoted=True)] if kind == "arithmetic_expansion" else [self._unreadable()]
        )

    def _ansi(self, node: Node) -> Piece:
        raw = text_of(node)[2:-1]
        # \x{…} newer shells read in their own way
        return self._unreadable() if r"\x{" in raw else Piece(words.ansi(raw), quoted=True)

    def _dollar(self, node: Node) -> list[Piece]:
        """A `$` that begins no expansion."""
        if _EXPANDS.match(self.source, node.end_byte):
            return [self._unreadable()]
        # before a string it makes it a translated one
        is_mark = self.source[node.end_byte : node.end_byte + 1] == b'"'
        return [] if is_mark else [Piece("$")]

    def _unreadable(self) -> Piece:
        self.reading.cannot_see(UNREADABLE)
        return Piece(None)

    def _group(self, node: Node, state: State) -> list[Piece]:
        pieces: list[Piece] = []
        end = node.start_byte
        for child in node.children:
            gap = self.source[end : child.start_byte]
            is_torn = gap != b"" and CONTINUED.fullmatch(gap) is None
            pieces += [self._unreadable()] if is_torn else self._piece(child, state)
            end = child.end_byte
        return pieces

    def _string(self, node: Node, state: State) -> list[Piece]:
        """Between double quotes: the parser leaves out space between parts."""
        pieces = [Piece("", quoted=True)]
        end = node.start_byte + 1
        for child in node.children[1:]:
            between = self.source[end : child.start_byte].decode(errors="replace")
            end = child.end_byte
            pieces.append(Piece(between, quoted=True))
            kind = child.type
            if kind == "string_content":
                said = words.in_quotes(text_of(child))
                pieces.append(self._unreadable() if said is None else Piece(said, quoted=True))
            elif kind in ("simple_expansion", "expansion"):
                # its first token may begin with space
                pieces.append(Piece(text_of(child).partition("$")[0], quoted=True))
                pieces.append(self._expansion(child, state, quoted=True))
            elif kind == "command_substitution":
                pieces.append(self._substitution(child, state, quoted=True))
            elif kind == "$":
                if _EXPANDS.match(self.source, child.end_byte):
                    self.reading.cannot_see(UNREADABLE)
                pieces.append(Piece(text_of(child), quoted=True))
            elif kind != '"':
                self.inner(child, state)
                pieces.append(Piece(None, quoted=True))
        return pieces

    def _expansion(self, node: Node, state: State, *, quoted: bool) -> Piece:
        self._see_name(node)
        named = [one for one in node.children if one.is_named]
        is_plain = node.type == "simple_expansion" or len(node.children) == 3
        if is_plain and len(named) == 1 and named[0].type == "variable_name":
            value = self._value(text_of(named[0]), state)
            return Piece(value, quoted=quoted, expanded=True)
        if node.type == "expansion" and named and named[0].type == "variable_name":
            value = self.exported.get(text_of(named[0]))
            if value and node.children[2].type in (":-", "-"):
                # ${x:-…} of what is there
                self.inner(node, state)
                return Piece(self._value(text_of(named[0]), state), quoted=quoted, expanded=True)
        for one in named:
            if one.type == "variable_name":
                # ${x:=…} gives it a value
                state.forget(text_of(one))
        self.inner(node, state)
        # "$@" and "${a[@]}" are as many words as there are
        return Piece(None, quoted=quoted and "@" not in text_of(node), expanded=True)

    def _see_name(self, node: Node) -> None:
        """`$x` is the variable's name to the shell too, not the beginning of more."""
        if node.type == "simple_expansion" and _NAMED.fullmatch(text_of(node)) is None:
            self.reading.cannot_see(UNREADABLE)

    def _value(self, name: str, state: State) -> str | None:
        places = self.places(state)
        if name == "PWD" and places is not None and len(places) == 1:
            (value,) = places
        else:
            known = state.variables.get(name, self.exported.get(name))
            found = self.home(state) if name == "HOME" else known
            if found is None or (self.unsure and name != "HOME"):
                return None
            value = found
        # else it is split where somebody said
        return value if state.variables.get("IFS") == " \t\n" and not self.unsure else None

    def _substitution(self, node: Node, state: State, *, quoted: bool) -> Piece:
        inner = state.copy(deeper=1)
        if not self.spend(inner):
            return Piece(None, quoted=quoted)
        inside: list[Node] = []
        for one in node.children:
            if one.type == "file_redirect":
                self.opens(one, inner)
            else:
                inside.append(one)
        self.block(inside, inner.copy())
        only = [one for one in inside if one.is_named]
        if len(only) == 1 and node.type == "command_substitution":
            said = self.said(only[0], inner)
            if said is not None and said.known:
                return Piece(said.text.rstrip("\n"), quoted=quoted, expanded=True)
        return Piece(None, quoted=quoted)

    # ── what is no word ─────────────────────────────────────────────────────────────────────────

    def inner(self, node: Node, state: State) -> None:
        """Read the substitutions below a node that is no word, and see that nothing else hides in it."""
        waiting = [node]
        while waiting:
            one = waiting.pop()
            if not self.spend(state):
                return
            kind = one.type
            if kind in SUBSTITUTIONS:
                self._substitution(one, state, quoted=True)
            elif kind in _STATEMENTS:
                self.statement(one, state)
            else:
                self._see_through(one, kind, state)
                waiting += one.children

    def _see_through(self, one: Node, kind: str, state: State) -> None:
        if kind == "expansion":
            marks = {child.type for child in one.children}
            if "@" in marks and "subscript" not in marks:
                # ${x@P} runs what stands in x
                self.reading.cannot_see(HIDDEN)
        elif kind == "simple_expansion":
            self._see_name(one)
        elif kind in ("string_content", "heredoc_content"):
            if words.may_run(text_of(one)):
                self.reading.cannot_see(UNREADABLE)
        elif kind in _QUOTED or (kind in _TEXT and not one.child_count):
            if holds_command(text_of(one)):
                # in arithmetic and tests text is read again
                self.reading.cannot_see(HIDDEN)
        elif kind in ("variable_assignment", "postfix_expression", "unary_expression"):
            for child in one.children:
                if child.type in ("variable_name", "word"):
                    state.forget(text_of(child))


def holds_command(text: str) -> bool:
    """Whether text, read once more, would run something."""
    return "$(" in text or "`" in text or re.search(r"\$\{[^}$]*@P", text) is not None
