"""The invariants of a terminal's flow, whatever happens in whatever order."""

from typing import Final

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lembasd.protocol.limits import KIB, MAX_TERMINAL_CHUNK_BYTES
from lembasd.pty.core import flow
from lembasd.pty.core.escapes import unfinished
from lembasd.pty.core.flow import Flow
from lembasd.pty.core.record import RESET, Size

OVERHEAD: Final = 112
#: the most one read gives
READ_BYTES: Final = 64 * KIB
#: of what a program writes: text, colours, titles, wide characters
PIECES: Final = (
    b"%d plain text\r\n",
    b"\x1b[3%dm",
    b"\x1b]0;title %d\x07",
    "žluť 漢字 %d".encode(),
)


class _Shown:
    """What one viewer was sent, and what it knows to come."""

    def __init__(self, *, acknowledges: bool) -> None:
        self.acknowledges = acknowledges
        self.next: int | None = None
        #: a redraw may come, an interrupt may have left something out
        self.may_jump = False
        self.on_the_way: list[tuple[int, int]] = []
        self.ended = False


class Terminal(RuleBasedStateMachine):
    """A shell that writes, viewers that come and go, all checked byte for byte."""

    def __init__(self) -> None:
        super().__init__()
        self.flow = Flow(OVERHEAD, Size(80, 24))
        self.now = 0.0
        self.written = bytearray()
        self.viewers: dict[int, _Shown] = {}
        self.reading = True
        self.timer: float | None = None
        self.output_ended = False
        self.finished = False
        self.returns = False
        self.seed = 0

    def handle(self, what: flow.Input) -> None:
        for effect in self.flow.handle(what, self.now):
            assert not self.finished, effect
            match effect:
                case flow.Send():
                    self._sent(effect)
                case flow.SayPlace(viewer, offset, redraw):
                    shown = self.viewers[viewer]
                    assert shown.next is None
                    assert redraw or offset == 0 or offset <= len(self.written)
                    shown.next = offset
                case flow.SayEnd(viewer):
                    shown = self.viewers.pop(viewer)
                    assert self.output_ended
                    late = isinstance(what, flow.EndTimerFired)
                    assert shown.next == len(self.written) or shown.may_jump or late
                case flow.PauseReading():
                    assert self.reading
                    self.reading = False
                case flow.ResumeReading():
                    assert not self.reading
                    self.reading = True
                case flow.SetTimer(at):
                    assert self.timer is None
                    assert at <= self.now + flow.COALESCE_S
                    self.timer = at
                case flow.CancelTimer():
                    assert self.timer is not None
                    self.timer = None
                case flow.Finished():
                    assert not self.viewers
                    self.finished = True
                case flow.SetEndTimer() | flow.AskRedraw() | flow.Discard():
                    pass

    def _sent(self, sent: flow.Send) -> None:
        shown = self.viewers[sent.viewer]
        assert 0 < len(sent.data) <= MAX_TERMINAL_CHUNK_BYTES
        assert sum(wire for _, wire in shown.on_the_way) < flow.HIGH_BYTES
        if sent.data.startswith(RESET):
            assert not sent.may_leave_out
            shown.next, shown.may_jump = sent.offset, False
            end = sent.offset
        else:
            assert shown.next is not None
            assert sent.offset == shown.next or (shown.may_jump and sent.offset > shown.next)
            end = sent.offset + len(sent.data)
            assert bytes(self.written[sent.offset : end]) == sent.data
            if sent.may_leave_out:
                assert unfinished(bytes(self.written[:end])[-3000:]) == 0
            shown.next = end
        shown.on_the_way.append((end, self.flow.wire_bytes(len(sent.data))))

    # ── what happens ────────────────────────────────────────────────────────────────────────────

    @precondition(lambda self: self.reading and not self.output_ended)
    @rule(
        size=st.one_of(st.integers(1, 2 * KIB), st.integers(1, READ_BYTES)),
        piece=st.integers(0, len(PIECES) - 1),
        reads=st.integers(1, 20),
    )
    def read(self, size: int, piece: int, reads: int) -> None:
        for _ in range(reads):
            if not self.reading:
                break
            self.seed += 1
            text = PIECES[piece] % (self.seed % 8) if b"%d" in PIECES[piece] else PIECES[piece]
            data = (text * (size // len(text) + 1))[:size]
            self.written += data
            self.handle(flow.Read(data))
            if size < flow.ECHO_BYTES:
                assert self.timer is None, "an echo was kept back"

    @rule(viewer=st.integers(1, 3), part=st.integers(1, 100))
    def take(self, viewer: int, part: int) -> None:
        shown = self.viewers.get(viewer)
        if shown is None or not shown.on_the_way:
            return
        count = max(1, len(shown.on_the_way) * part // 100)
        done, shown.on_the_way = shown.on_the_way[:count], shown.on_the_way[count:]
        if shown.acknowledges:
            self.handle(flow.Acknowledged(viewer, done[-1][0]))
        else:
            self.handle(flow.Credited(viewer, sum(wire for _, wire in done)))

    @rule(viewer=st.integers(1, 3), count=st.integers(1, 3))
    def leave_out(self, viewer: int, count: int) -> None:
        shown = self.viewers.get(viewer)
        if shown is None or not shown.on_the_way:
            return
        dropped, shown.on_the_way = shown.on_the_way[-count:], shown.on_the_way[:-count]
        self.handle(flow.Discarded(viewer, sum(wire for _, wire in dropped)))

    @precondition(lambda self: not self.output_ended)
    @rule()
    def interrupt(self) -> None:
        for shown in self.viewers.values():
            shown.may_jump = True
        self.handle(flow.Interrupted())

    @rule(cols=st.integers(20, 500))
    def resize(self, cols: int) -> None:
        self.handle(flow.Resized(cols, 24))

    @precondition(lambda self: not self.finished)
    @rule(viewer=st.integers(1, 3), acknowledges=st.booleans(), back=st.integers(-1, 10_000))
    def attach(self, viewer: int, back: int, *, acknowledges: bool) -> None:
        since = None if back < 0 else len(self.written) - back
        self.returns = False
        self.viewers[viewer] = _Shown(acknowledges=acknowledges)
        self.handle(flow.ViewerAttached(viewer, since))

    @rule(viewer=st.integers(1, 3), returns=st.booleans())
    def detach(self, viewer: int, *, returns: bool) -> None:
        self.viewers.pop(viewer, None)
        self.returns = self.returns or returns
        self.handle(flow.ViewerDetached(viewer, returns))

    @rule(returns=st.booleans())
    def lose_hub(self, *, returns: bool) -> None:
        self.viewers.clear()
        self.returns = self.returns or returns
        self.handle(flow.HubLost(returns))

    @rule()
    def nobody_returns(self) -> None:
        self.returns = False
        self.handle(flow.NobodyReturns())

    @precondition(lambda self: self.timer is not None)
    @rule()
    def timer_fires(self) -> None:
        assert self.timer is not None
        self.now, self.timer = self.timer, None
        self.handle(flow.TimerFired())

    @precondition(lambda self: not self.output_ended)
    @rule(sure=st.integers(0, 9))
    def end(self, sure: int) -> None:
        if sure == 0:
            self.output_ended = True
            self.handle(flow.OutputEnded())

    @precondition(lambda self: self.output_ended)
    @rule()
    def end_timer_fires(self) -> None:
        self.handle(flow.EndTimerFired())
        assert not self.viewers

    # ── what holds ──────────────────────────────────────────────────────────────────────────────

    @invariant()
    def what_is_on_its_way_is_counted_and_bounded(self) -> None:
        most = flow.HIGH_BYTES + self.flow.wire_bytes(MAX_TERMINAL_CHUNK_BYTES)
        for viewer, shown in self.viewers.items():
            on_the_way = self.flow.on_the_way(viewer)
            assert on_the_way == sum(wire for _, wire in shown.on_the_way)
            assert on_the_way <= most

    @invariant()
    def reading_is_paused_only_while_every_viewer_has_enough_before_it(self) -> None:
        assert self.flow.paused != self.reading
        if self.flow.paused and not self.finished:
            assert self.viewers
            for viewer, shown in self.viewers.items():
                waits = len(self.written) - (shown.next or 0)
                before = self.flow.on_the_way(viewer) + (
                    self.flow.wire_bytes(waits) if waits else 0
                )
                assert before > flow.HIGH_BYTES or shown.may_jump

    @invariant()
    def a_viewer_with_room_has_everything_once_the_moment_is_over(self) -> None:
        for viewer, shown in self.viewers.items():
            if self.timer is None and self.flow.on_the_way(viewer) == 0 and not shown.may_jump:
                assert shown.next == len(self.written)

    @invariant()
    def the_end_is_told_once_everybody_has_everything(self) -> None:
        if self.output_ended and not self.viewers and not self.returns:
            assert self.finished


TestTerminal = Terminal.TestCase
