"""Nothing takes over unchecked, in the midst of a start, or from a hub that ends; whoever asked is told once that nothing did."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lembasd.hub.core.reloading import (
    START_S,
    Asked,
    Check,
    Checked,
    CheckFailed,
    EndCheck,
    Ending,
    Failed,
    HandOver,
    Input,
    Look,
    Looked,
    Refuse,
    Reloading,
    Tell,
)
from lembasd.protocol.takeover import TAKEOVER, Build

OURS = Build("1", 3, (1, 1), 1, TAKEOVER)
FIT, UNFIT = Build("2", 3, (1, 2), 1, TAKEOVER), Build("0", 3, (1, 1), 1)


class ReloadingMachine(RuleBasedStateMachine):
    """A runner that checks, looks and hands over as it is told, and may fail at each."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = Reloading(OURS)
        self.now = 0.0
        self.checking = False
        self.handing = False
        self.look_at: float | None = None
        #: the version that was checked last was fit, and it was safe to leave when the hub was looked at last
        self.fit = self.safe = False
        self.asked: Counter[bytes] = Counter()
        self.next_id = 0

    def feed(self, what: Input) -> None:
        for effect in self.machine.handle(what, self.now):
            match effect:
                case Check():
                    assert not self.checking
                    assert not self.handing
                    self.checking, self.fit = True, False
                case EndCheck():
                    assert self.checking
                    self.checking = False
                case Look(at):
                    assert self.fit
                    assert at <= self.now + START_S
                    self.look_at = at
                case HandOver(build):
                    assert (build, self.fit, self.safe) == (FIT, True, True)
                    self.handing = True
                case Refuse(_, message_id):
                    self.asked[message_id] -= 1
                    assert self.asked[message_id] == 0
                case Tell(reason):
                    assert reason
                    self.look_at, self.handing = None, False

    @rule()
    def somebody_asks(self) -> None:
        self.next_id += 1
        message_id = b"%d" % self.next_id
        self.asked[message_id] += 1
        self.feed(Asked(self.next_id, message_id))

    @precondition(lambda self: self.checking)
    @rule(fit=st.sampled_from([FIT, UNFIT, None]))
    def it_is_checked(self, fit: Build | None) -> None:
        self.checking, self.fit = False, fit is FIT
        self.feed(CheckFailed("no") if fit is None else Checked(fit, ()))

    @precondition(lambda self: self.look_at is not None)
    @rule(quiet=st.booleans(), safe=st.booleans(), late_s=st.floats(0, 5))
    def it_is_looked_at(self, quiet: bool, safe: bool, late_s: float) -> None:
        assert self.look_at is not None
        self.now, self.look_at = max(self.now, self.look_at) + late_s, None
        self.safe = safe
        self.feed(Looked(quiet and safe, safe))

    @precondition(lambda self: self.handing)
    @rule(started=st.booleans())
    def it_does_not_take_over(self, started: bool) -> None:
        self.handing = False
        if started:
            self.safe = False
            self.feed(Looked(quiet=False, safe=False))
        else:
            self.feed(Failed("gone"))

    @rule()
    def the_hub_ends(self) -> None:
        self.feed(Ending())
        assert not self.machine.is_handing_over

    @invariant()
    def something_comes_of_whoever_waits(self) -> None:
        waits = any(self.asked.values())
        assert waits == (self.checking or self.handing or self.look_at is not None)
        assert self.machine.is_handing_over == self.handing


TestReloading = ReloadingMachine.TestCase
TestReloading.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
