"""Entries of a transcript as lines."""

from typing import Final

from rich.style import Style
from textual.strip import Strip

from lembasd.tui.core.blocks import Blocks
from lembasd.tui.core.entries import Call, Entry, Note, Plan, Prompt, Reply
from lembasd.tui.core.plain import clean, clean_line, short
from lembasd.tui.core.status_line import elapsed
from lembasd.tui.drawing import palette, text

#: lines of a running command that are seen without opening it
LIVE_LINES: Final = 4
#: lines of an opened call's output; the end is shown, where errors are
OUTPUT_LINES: Final = 400
#: blocks of a reply drawn at once; the rest comes with the next look, so that whoever types has a turn between
MAX_BLOCKS_AT_ONCE: Final = 4
#: lines of a prompt before the rest is left out
PROMPT_LINES: Final = 40
_ARGUMENT_CHARS: Final = 4000
_MILLI: Final = 1000
_MARKS: Final = {
    "drafting": ("•", palette.DIM),
    "running": ("•", palette.BUSY),
    "done": ("✓", palette.GOOD),
    "failed": ("✗", palette.BAD),
    "denied": ("-", palette.WARN),
    "unknown": ("?", palette.WARN),
}
_LEVELS: Final = {
    "info": palette.DIM,
    "help": palette.PLAIN,
    "warning": palette.WARN,
    "error": palette.BAD,
}
_TASKS: Final = {"completed": "[x]", "in_progress": "[>]"}


class Drawing:
    """One entry, drawn when it has changed. Of a reply only what was not finished is drawn again.

    `is_behind`: there is more of it than was drawn at once; after `go_on` the next look draws more.
    """

    def __init__(self, entry: Entry, width: int) -> None:
        self.entry = entry
        self.width = width
        self.opened = False
        self.is_behind = False
        self._revision = -1
        self._lines: list[Strip] = []
        self._finished = 0
        self._finished_lines: list[Strip] = []

    def lines(self, *, opened: bool) -> list[Strip]:
        """The lines now. `opened`: a call or a thought with all there is of it."""
        if self._revision != self.entry.revision or opened != self.opened:
            self._revision, self.opened = self.entry.revision, opened
            self._lines = self._draw()
        return self._lines

    def go_on(self) -> None:
        if self.is_behind:
            self._revision = -1

    def _draw(self) -> list[Strip]:
        entry, width = self.entry, self.width
        match entry:
            case Reply():
                return self._reply(entry)
            case Prompt():
                return _prompt(entry, width)
            case Call():
                return _call(entry, width, opened=self.opened)
            case Note():
                return text.plain(entry.text, width, _LEVELS.get(entry.level, palette.DIM))
            case Plan():
                return _plan(entry, width)
            case _:
                raise TypeError(entry)

    def _reply(self, reply: Reply) -> list[Strip]:
        if reply.thought and not self.opened:
            return _thought(reply, self.width)
        blocks = reply.blocks
        end = min(len(blocks.finished), self._finished + MAX_BLOCKS_AT_ONCE)
        for place in range(self._finished, end):
            self._finished_lines += self._block(blocks, place)
        self._finished, self.is_behind = end, end < len(blocks.finished)
        last = blocks.last
        if last is None or self.is_behind:
            return self._finished_lines
        gap = [Strip([])] if self._finished and not last.goes_on else []
        return [*self._finished_lines, *gap, *text.block(last, self.width)]

    def _block(self, blocks: Blocks, place: int) -> list[Strip]:
        block = blocks.finished[place]
        gap = [Strip([])] if place and not block.goes_on else []
        return [*gap, *text.block(block, self.width)]


def _thought(reply: Reply, width: int) -> list[Strip]:
    words = short(clean_line(reply.text), 4 * width)
    return text.spans([("thought  ", palette.DIM), (words, palette.DIM)], width)


def _prompt(entry: Prompt, width: int) -> list[Strip]:
    style = palette.DIM if entry.machine else palette.BOLD
    lines = text.plain(entry.text, width - 2, style) if entry.text else []
    if len(lines) > PROMPT_LINES:
        left = len(lines) - PROMPT_LINES
        lines = [*lines[:PROMPT_LINES], *text.plain(f"… {left} more lines", width, palette.DIM)]
    for name in entry.attachments:
        lines += text.plain(f"[{name}]", width - 2, palette.DIM)
    mark = text.plain("+ " if entry.steered else "> ", 2, palette.PROMPT)[0]
    return text.indented(lines, 2, mark)


def _call(call: Call, width: int, *, opened: bool) -> list[Strip]:
    sign, style = _MARKS[call.state]
    title = call.title or (f"{call.drafted:,} characters so far" if call.drafted else "")
    parts = [
        (f"{sign} ", style),
        (call.name or "tool", palette.BOLD),
        (f"  {title}", palette.PLAIN),
    ]
    lines = text.spans([*parts, *_facts(call)], width)
    if opened:
        return lines + text.indented(_inside(call, width - 4), 4)
    if call.state == "running" and call.output:
        last = call.output.rstrip("\n").split("\n")[-LIVE_LINES:]
        for line in last:
            lines += text.indented(text.spans([(line, palette.DIM)], width - 4), 4)
    if call.state in ("failed", "denied") and call.output.strip():
        first = call.output.strip().split("\n")[0]
        lines += text.indented(text.spans([(first, style)], width - 4), 4)
    return lines


def _facts(call: Call) -> list[tuple[str, Style]]:
    facts = []
    if call.diff:
        changed = [line[:1] for line in call.diff.split("\n") if line[:3] not in ("+++", "---")]
        facts.append((f"  +{changed.count('+')}", palette.ADDED))
        facts.append((f" -{changed.count('-')}", palette.REMOVED))
    if call.duration_ms >= _MILLI:
        facts.append((f"  {elapsed(call.duration_ms / _MILLI)}", palette.DIM))
    if call.state in ("denied", "unknown"):
        said = "denied" if call.state == "denied" else "outcome unknown"
        facts.append((f"  {said}", palette.WARN))
    return facts


def _inside(call: Call, width: int) -> list[Strip]:
    lines: list[Strip] = []
    if call.purpose:
        lines += text.plain(call.purpose, width, palette.DIM)
    for key, value in call.args.items():
        said = value if isinstance(value, str) else repr(value)
        said = short(clean(said), _ARGUMENT_CHARS).rstrip("\n")
        if "\n" in said:
            lines += text.plain(f"{clean_line(str(key))}:", width, palette.DIM)
            lines += text.indented(text.plain(said, width - 2), 2)
        else:
            parts = [(f"{clean_line(str(key))}: ", palette.DIM), (said, palette.PLAIN)]
            lines += text.spans(parts, width, wrap=True)
    if call.diff:
        lines += text.diff(call.diff, width)
    elif call.output.strip():
        shown = call.output.rstrip("\n").split("\n")
        if len(shown) > OUTPUT_LINES:
            left = len(shown) - OUTPUT_LINES
            shown = [f"… {left} lines before", *shown[-OUTPUT_LINES:]]
        lines.append(Strip([]))
        lines += text.plain("\n".join(shown), width)
    return lines


def _plan(plan: Plan, width: int) -> list[Strip]:
    lines = text.plain("Plan", width, palette.BOLD)
    for task, status in plan.tasks:
        style = palette.DIM if status == "completed" else palette.PLAIN
        lines += text.spans([(f"{_TASKS.get(status, '[ ]')} ", palette.BUSY), (task, style)], width)
    return lines


def joins(entry: Entry, before: Entry) -> bool:
    """Whether no empty line stands between two entries."""
    return isinstance(entry, Call) and isinstance(before, Call)
