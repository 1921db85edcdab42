"""The invariants of a terminal's flow, whatever happens in whatever order."""

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lembasd.protocol.limits import KIB, MAX_TERMINAL_CHUNK_BYTES
from lembasd.pty.core import flow
from lembasd.pty.core.flow import Flow
from lembasd.pty.core.scrollback import RESET

OVERHEAD = 112
#: the most one read gives
READ_BYTES = 64 * KIB


class Terminal(RuleBasedStateMachine):
    """A shell that writes, viewers that come and go, a hub that credits, all checked byte for byte."""

    def __init__(self) -> None:
        super().__init__()
        self.flow = Flow(OVERHEAD)
        self.now = 0.0
        self.written = bytearray()
        self.shown: dict[int, bytearray] = {}
        self.on_the_way = 0
        self.reading = True
        self.timer: float | None = None
        self.ended = False
        self.seed = 0
        self.replayed = 0

    def handle(self, what: flow.Input) -> None:
        for effect in self.flow.handle(what, self.now):
            match effect:
                case flow.Send(data):
                    assert self.shown, "sent to nobody"
                    self._sent(data)
                    for shown in self.shown.values():
                        shown += data
                case flow.Replay(viewer, data):
                    self._sent(data)
                    self.replayed += self.flow.wire_bytes(len(data))
                    self.shown.setdefault(viewer, bytearray()).extend(data)
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
                    self.ended = True

    def _sent(self, data: bytes) -> None:
        assert 0 < len(data) <= MAX_TERMINAL_CHUNK_BYTES
        self.on_the_way += self.flow.wire_bytes(len(data))

    # ── what happens ────────────────────────────────────────────────────────────────────────────

    @precondition(lambda self: self.reading and not self.ended)
    @rule(size=st.one_of(st.integers(1, 2 * KIB), st.integers(1, READ_BYTES)))
    def read(self, size: int) -> None:
        self.seed += 1
        data = (b"%d\n" % self.seed * (size // 2 + 1))[:size]
        self.written += data
        small = size < flow.ECHO_BYTES
        self.handle(flow.Read(data))
        if small:
            assert self.timer is None, "an echo was kept back"

    @rule(part=st.integers(1, 100))
    def credit(self, part: int) -> None:
        count = self.on_the_way * part // 100
        self.on_the_way -= count
        self.handle(flow.Credited(count))

    @rule(viewer=st.integers(1, 3))
    def attach(self, viewer: int) -> None:
        # what the viewer had before is wiped by the reset that a replay begins with
        self.handle(flow.ViewerAttached(viewer))
        self.shown.setdefault(viewer, bytearray())

    @rule(viewer=st.integers(1, 3))
    def detach(self, viewer: int) -> None:
        self.shown.pop(viewer, None)
        self.handle(flow.ViewerDetached(viewer))

    @rule()
    def lose_hub(self) -> None:
        self.shown.clear()
        self.on_the_way = 0
        self.handle(flow.HubLost())

    @precondition(lambda self: self.timer is not None)
    @rule()
    def timer_fires(self) -> None:
        assert self.timer is not None
        self.now, self.timer = self.timer, None
        self.handle(flow.TimerFired())

    @precondition(lambda self: not self.ended)
    @rule(sure=st.integers(0, 9))
    def end(self, sure: int) -> None:
        if sure == 0:
            self.handle(flow.OutputEnded())
            for viewer in self.shown:
                self._sees(viewer, whole=True)

    # ── what holds ──────────────────────────────────────────────────────────────────────────────

    @invariant()
    def reading_is_paused_exactly_over_the_mark_while_somebody_looks(self) -> None:
        assert self.flow.paused != self.reading
        assert self.flow.unacknowledged_bytes == self.on_the_way
        assert self.flow.paused == (bool(self.shown) and self.on_the_way > flow.HIGH_BYTES)

    @invariant()
    def what_is_on_its_way_is_bounded(self) -> None:
        read = self.flow.wire_bytes(READ_BYTES + MAX_TERMINAL_CHUNK_BYTES) + 4 * OVERHEAD
        assert self.on_the_way <= flow.HIGH_BYTES + read + self.replayed

    @invariant()
    def an_attached_viewer_has_every_byte_in_order(self) -> None:
        for viewer in self.shown:
            self._sees(viewer, whole=self.timer is None)

    def _sees(self, viewer: int, *, whole: bool) -> None:
        shown = bytes(self.shown[viewer])
        start = shown.rfind(RESET)
        screen = shown[start + len(RESET) :] if start >= 0 else shown
        written = bytes(self.written)
        if whole:
            assert written.endswith(screen)
            assert start >= 0 or screen == written
        else:
            kept = len(written) - written.rfind(screen) - len(screen)
            assert kept <= MAX_TERMINAL_CHUNK_BYTES


TestTerminal = Terminal.TestCase
