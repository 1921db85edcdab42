"""What a session is doing, in a few words, and since when."""

from typing import Final

from msgspec import UNSET

from lembasd.link.core.money import amounts
from lembasd.protocol import events
from lembasd.tui.core.plain import clean_line, short

_TITLE_CHARS: Final = 60


class Activity:
    """Folded from a session's events. Times are the monotonic seconds that came with them."""

    def __init__(self) -> None:
        self.turn_id = ""
        self.what = ""
        self.since = 0.0
        self.turn_since = 0.0
        #: tokens of the context now, and how many there may be; 0: not known
        self.context = 0
        self.window = 0
        #: tokens of the whole session, as far as this program saw it
        self.read = 0
        self.written = 0
        self._costs: dict[str, float] = {}

    @property
    def busy(self) -> bool:
        return bool(self.turn_id)

    @property
    def cost(self) -> str:
        """What was seen of the session's cost, each currency by itself."""
        return amounts(self._costs)

    def begins(self, turn_id: str, now: float) -> None:
        """A turn runs, as far as it is known."""
        if turn_id != self.turn_id:
            self.turn_id, self.turn_since = turn_id, now
            self._does("working", now)

    def ends(self) -> None:
        self.turn_id, self.what = "", ""

    def take(self, event: events.AnyEvent, now: float) -> None:
        match event:
            case events.Task(state="start", turnId=turn_id):
                self.begins(turn_id, now)
            case events.Task(state="end") | events.Done():
                self.ends()
            case events.Step(n=number):
                self._does(f"step {number}", now)
            case events.Reasoning():
                self._does("thinking", now)
            case events.Text():
                self._does("writing", now)
            case events.ToolCallDelta(name=name):
                self._does(f"preparing {clean_line(name)}", now)
            case events.Progress(read=read, total=total):
                share = f"{100 * read // total} %" if total is not UNSET and total else f"{read:,}"
                self._does(f"reading the prompt, {share}", now)
            case _:
                self._take_rarer(event, now)

    def _take_rarer(self, event: events.AnyEvent, now: float) -> None:
        match event:
            case events.ToolStart(name=name, title=title):
                shown = clean_line(title) or clean_line(name)
                self._does(short(shown, _TITLE_CHARS), now)
            case events.ToolEnd() | events.ToolDenied():
                self._does("working", now)
            case events.Usage():
                self._use(event)
            case _:
                pass

    def _does(self, what: str, now: float) -> None:
        if self.busy and what != self.what:
            self.what, self.since = what, now

    def _use(self, event: events.Usage) -> None:
        self.read += event.input
        self.written += event.output
        self.context = event.input + event.output if event.context is UNSET else event.context
        if event.window is not UNSET:
            self.window = event.window
        if event.cost is not UNSET:
            code = event.cost.currency
            self._costs[code] = self._costs.get(code, 0.0) + event.cost.amount
