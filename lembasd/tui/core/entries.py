"""What a transcript consists of. An entry changes in place; its `revision` grows then, so that a view knows."""

from typing import Any

from msgspec import Struct, field

from lembasd.tui.core.blocks import Blocks
from lembasd.tui.core.plain import clean


class Entry(Struct, eq=False, kw_only=True):
    """`number` is its own alone, whatever is put before it or taken away."""

    number: int
    revision: int = 0

    def changed(self) -> None:
        self.revision += 1


class Prompt(Entry):
    """What somebody asked. `machine`: the harness did. `steered`: it was said while the turn ran."""

    text: str
    turn_id: str = ""
    attachments: tuple[str, ...] = ()
    machine: bool = False
    steered: bool = False


class Reply(Entry):
    """Text of the model, as it grows; with `thought` what it thought before."""

    message_id: str = ""
    thought: bool = False
    #: pieces that are not in `blocks` yet: a history's are read when they are first looked at
    _pieces: list[str] = field(default_factory=list)
    _blocks: Blocks = field(default_factory=Blocks)

    def add(self, text: str) -> None:
        self._pieces.append(text)
        self.changed()

    @property
    def blocks(self) -> Blocks:
        if self._pieces:
            self._blocks.feed(clean("".join(self._pieces)))
            self._pieces.clear()
        return self._blocks

    @property
    def text(self) -> str:
        """All of it as it is shown."""
        parts = []
        for block in self.blocks.all():
            if block.language is None:
                parts.append(block.text)
            elif block.goes_on:
                parts[-1] = parts[-1].removesuffix("\n```") + f"\n{block.text}\n```"
            else:
                parts.append(f"```{block.language}\n{block.text}\n```")
        return "\n\n".join(parts)


class Call(Entry):
    """A tool call. `state`: drafting, running, done, failed, denied or unknown (its process ended)."""

    call_id: str
    name: str
    title: str = ""
    state: str = "running"
    purpose: str = ""
    args: dict[str, Any] = {}
    output: str = ""
    diff: str = ""
    duration_ms: int = 0
    #: characters of the arguments that came so far
    drafted: int = 0


class Note(Entry):
    """A word of the service's or of this program's. `level`: info, warning, error or help."""

    level: str
    text: str


class Plan(Entry):
    """The session's plan; each task with pending, in_progress or completed."""

    tasks: tuple[tuple[str, str], ...] = ()
