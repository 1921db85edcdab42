"""A line of bash as a tree, and whether the tree can be believed.

The parser and bash must see the same commands. Where they are known to differ, or may, the tree is not believed: what
can be read of it still is, but the reading says that it is not all.
"""

import re
from typing import Final

import tree_sitter_bash
from msgspec import Struct
from tree_sitter import Language, Node, Parser

from lembasd.engine.native.core.shell.reading import MAX_ALL_OPENINGS, MAX_BYTES, MAX_OPENINGS

_LANGUAGE: Final = Language(tree_sitter_bash.language())
#: characters that bash and the parser do not read the same way
_ODD: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_OPENINGS: Final = ("((", "${", "<<", "|", "=(", "[[")
#: characters; a shorter line is parsed without counting its parts first
_SHORT: Final = 16_384
_STRING: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_BETWEEN: Final = re.compile(r"[^\w./-]|\s+")
_HEREDOC: Final = re.compile(r"(?<!<)<<-?[ \t]*[\\'\"]?(\w+)")
#: line breaks that bash takes away before it reads
CONTINUED: Final = re.compile(rb"(?:\\\n)+")
_GAP: Final = re.compile(rb"(?:[ \t\n]|\\\n)*")
_WORD_END: Final = re.compile(rb"[\w./~-]")
#: what may stand before a comment
_BEFORE_COMMENT: Final = b" \t\n;&|()"
#: what names an open file: `3<a`, `{name}>a`
_DESCRIPTOR: Final = re.compile(rb"(?<![^\s;&|()`<>])(\d+|\{\w+\})[<>]")
#: where it is what it looks like, or text
_DESCRIBED: Final = frozenset(
    {
        "file_descriptor",
        "string",
        "string_content",
        "raw_string",
        "heredoc_content",
        "heredoc_body",
        "comment",
    }
)
_CALCULATED: Final = frozenset(
    {"binary_expression", "arithmetic_expansion", "ternary_expression", "parenthesized_expression"}
)
#: what ends with its line
_ONE_LINE: Final = frozenset(
    {
        "command",
        "declaration_command",
        "unset_command",
        "variable_assignments",
        "negated_command",
        "redirected_statement",
        "file_redirect",
        "herestring_redirect",
    }
)
#: between the parts of these lies text, or what is read where they are
_TEXT_WITHIN: Final = frozenset({"string", "heredoc_body", "heredoc_redirect"})


class Tree(Struct, frozen=True):
    """A parsed line. `is_whole` False: bash may see more or other commands in it."""

    root: Node
    source: bytes
    is_whole: bool


def parse(text: str, nodes: int) -> Tree | None:
    """The tree of a line; None when it is too long to be checked: over one of the bounds, or over `nodes`."""
    source = text.encode(errors="replace")
    if len(source) > MAX_BYTES or not _is_quick(text, nodes):
        return None
    # a parser of its own: calls are judged in threads, side by side
    root = Parser(_LANGUAGE).parse(source).root_node
    if root.descendant_count > nodes:
        return None
    is_whole = not root.has_error and _ODD.search(text) is None and source.decode() == text
    is_whole = is_whole and _is_covered(root, source) and _names_descriptors(root, source)
    return Tree(root, source, is_whole)


def _is_quick(text: str, nodes: int) -> bool:
    """Whether the parser takes a time in proportion: here-documents cost it nothing, some openings much.

    An estimate: what it lets through is parsed, and bounded by its nodes.
    """
    if len(text) <= _SHORT and all(text.count(one) <= MAX_OPENINGS for one in _OPENINGS):
        return True
    if any(text.count(one) > MAX_ALL_OPENINGS for one in _OPENINGS):
        return False
    outside = _without_heredocs(text)
    if outside.count("$") > nodes or any(outside.count(o) > MAX_OPENINGS for o in _OPENINGS):
        return False
    return len(outside) <= _SHORT or len(_BETWEEN.findall(_STRING.sub("'", outside))) <= nodes


def _without_heredocs(text: str) -> str:
    """A line without the here-documents that it seems to hold."""
    kept: list[str] = []
    ends: list[str] = []
    for line in text.split("\n"):
        if ends:
            if line.strip("\t") == ends[0]:
                ends.pop(0)
            continue
        kept.append(line)
        ends = _HEREDOC.findall(line)
    return "\n".join(kept)


def _is_covered(root: Node, source: bytes) -> bool:
    """Whether between two tokens stands nothing but space, and comments are comments to bash too."""
    cursor = root.walk()
    end = within = 0
    #: the nodes above, from the outermost on, and what the token shares with the one before it
    above: list[str] = []
    shared = ""
    while True:
        node = cursor.node or root
        if node.type in _TEXT_WITHIN:
            within = max(within, node.end_byte)
        if node.child_count and cursor.goto_first_child():
            above.append("[" if (first := cursor.node) and first.type == "[" else node.type)
            continue
        start = node.start_byte
        if start > end and end >= within:
            gap = source[end:start]
            if gap != b" " and not (
                _is_gap(source, end, start)
                and not (_ends_line(gap) and _is_one_line(shared, above))
            ):
                return False
        if node.type == "comment" and not _is_comment(source, node):
            return False
        end = max(end, node.end_byte)
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return _is_gap(source, end, len(source))
            above.pop()
        shared = above[-1]


def _ends_line(gap: bytes) -> bool:
    return b"\n" in gap.replace(b"\\\n", b"")


def _is_one_line(shared: str, above: list[str]) -> bool:
    """Whether a line's end between tokens is the end of a command to bash, and is not to the parser."""
    return shared in _ONE_LINE or "[" in above


def _names_descriptors(root: Node, source: bytes) -> bool:
    """Whether what names an open file before a redirection is no word to the parser."""
    at = 0
    while (found := _DESCRIPTOR.search(source, at)) is not None:
        node = root.descendant_for_byte_range(found.start(1), found.end(1))
        above = None if node is None else node.parent
        if node is None or not (
            node.type in _DESCRIBED or (above is not None and above.type in _CALCULATED)
        ):
            return False
        at = max(found.end(1), node.end_byte)
    return True


def _is_gap(source: bytes, start: int, end: int) -> bool:
    """Whether bash sees a gap between tokens too, and no tokens put together but words."""
    gap = source[start:end]
    if _GAP.fullmatch(gap) is None:
        return False
    if CONTINUED.fullmatch(gap) is None:
        return True
    # without it the two touch: words are put together where words are made
    return _WORD_END.match(source, start - 1) is not None and (
        end == len(source) or _WORD_END.match(source, end) is not None
    )


def _is_comment(source: bytes, node: Node) -> bool:
    start = node.start_byte
    before = source[start - 1 : start]
    return (before == b"" or before in _BEFORE_COMMENT) and b"`" not in source[
        start : node.end_byte
    ]


def text_of(node: Node) -> str:
    """A node's text."""
    return (node.text or b"").decode(errors="replace")


def heredoc_bounds(node: Node, source: bytes) -> tuple[str, str, bool] | None:
    """Of a here-document: its delimiter as written, its lines, and whether tabs in front are taken away.

    None when bash would end it somewhere else.
    """
    by_type = {one.type: one for one in node.children}
    # without a start or an end nothing below fits
    start, end = (by_type.get(f"heredoc_{one}", node) for one in ("start", "end"))
    body = by_type.get("heredoc_body")
    raw = text_of(start)
    delimiter = re.sub(r"[\\'\"]", "", raw)
    strips = "<<-" in by_type
    text = "" if body is None else text_of(body)
    lines = text.split("\n")
    if strips:
        lines = [one.lstrip("\t") for one in lines]
    before = source[: end.start_byte].rpartition(b"\n")[2]
    after = source[end.end_byte : end.end_byte + 1]
    is_line = after in (b"", b"\n") and (before == b"" or (strips and not before.strip(b"\t")))
    if text_of(end) != delimiter or not is_line or delimiter in lines:
        return None
    return raw, "\n".join(lines), strips
