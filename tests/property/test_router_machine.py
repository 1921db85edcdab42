"""Each request is answered exactly once, whatever comes and goes in whichever order."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lembasd.hub.core import effects, inputs
from lembasd.hub.core.lives import resume_timer
from lembasd.hub.core.table import UTILITY, State
from lembasd.protocol.control import Remote, Settings
from lembasd.protocol.ids import is_terminal_id
from tests.support.routing import Routing, passed_on, said

SESSIONS = ["ses_" + letter * 26 for letter in "abc"]
METHODS = [
    "session/prompt",
    "session/set_mode",
    "session/cancel",
    "_lembas/session/status",
    "_lembas/session/history",
    "_hub/attach",
    "_lembas/commands",
    "_lembas/files/search",
    "_lembas/directories",
    "session/load",
]


class RouterMachine(RuleBasedStateMachine):
    """Keeps its own account of who asked what, and what each process was given."""

    def __init__(self) -> None:
        super().__init__()
        self.hub = Routing()
        self.hub.feed(inputs.SettingsChanged(Settings(remote=Remote(enabled=True, terminal=True))))
        self.clients: set[int] = set()
        #: those that a session's tools started: nothing of theirs reaches a process
        self.agents: set[int] = set()
        self.next_client = 0
        self.next_id = 0
        self.asked: set[tuple[int, int]] = set()
        self.answered: Counter[tuple[int, int]] = Counter()
        #: processes asked for, and those that run (connected or not)
        self.starting: set[str] = set()
        self.running: set[str] = set()
        self.connected: set[str] = set()
        self.given: list[effects.ToProcess] = []
        self.probing: list[str] = []
        self.stopped = False
        self.most = 256

    # ── reading effects ─────────────────────────────────────────────────────────────────────────

    def take(self, out: list[effects.Effect]) -> None:
        for effect in out:
            match effect:
                case effects.Start(role, channel):
                    assert not self.stopped
                    assert role != "worker" or self.workers <= self.most, "one too many"
                    assert channel not in self.starting | self.running, "two processes for one"
                    self.starting.add(channel)
                case effects.Kill(channel):
                    self.starting.discard(channel)
                case effects.EndProcess(channel, _):
                    assert channel in self.connected
                case effects.Probe(session):
                    self.probing.append(session)
                case effects.ToProcess(channel, _):
                    assert channel in self.connected
                case effects.GiveStatus(client, message_id) | effects.Initialize(
                    client, message_id
                ):
                    self.answered[client, int(message_id)] += 1
                case _:
                    pass
        self.given += [one for one in passed_on(out) if one.frame.request]
        assert not self.agents & {one.frame.client for one in passed_on(out)}
        for client, message in said(out):
            if "method" not in message:
                assert client in self.clients
                self.answered[client, message["id"]] += 1

    @property
    def workers(self) -> int:
        """Those that count for how many may run."""
        counts = (State.STARTING, State.LIVE, State.AWAITED)
        channels = self.hub.router.table.channels.values()
        return sum(one.role == "worker" and one.state in counts for one in channels)

    def ask(self, client: int, method: str, params: object, fresh: str = "") -> None:
        self.next_id += 1
        self.asked.add((client, self.next_id))
        self.take(self.hub.ask(client, self.next_id, method, params, fresh))

    def pick(self, data: st.DataObject, among: set[str]) -> str:
        return data.draw(st.sampled_from(sorted(among)))

    # ── clients ─────────────────────────────────────────────────────────────────────────────────

    @rule(local=st.booleans(), agents=st.booleans(), resume=st.booleans())
    def client_comes(self, local: bool, agents: bool, resume: bool) -> None:
        self.next_client += 1
        self.clients.add(self.next_client)
        self.hub.feed(inputs.ClientJoined(self.next_client, local, agents and local))
        if agents and local:
            self.agents.add(self.next_client)
        lembas = {"protocol": 3, "terminal_resume": resume}
        params = {"clientCapabilities": {"_meta": {"lembas": lembas}}} if resume else {}
        self.ask(self.next_client, "initialize", params)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def client_leaves(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(sorted(self.clients)))
        self.clients.discard(client)
        self.asked = {one for one in self.asked if one[0] != client}
        self.take(self.hub.feed(inputs.ClientLeft(client)))

    @precondition(lambda self: self.clients)
    @rule(
        data=st.data(),
        method=st.sampled_from(METHODS),
        session=st.sampled_from(SESSIONS),
        named=st.booleans(),
    )
    def client_asks(self, data: st.DataObject, method: str, session: str, named: bool) -> None:
        client = data.draw(st.sampled_from(sorted(self.clients)))
        meta = {"lembas": {"turnId": "t"}} if named else {}
        self.ask(client, method, {"sessionId": session, "_meta": meta})

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), terminal=st.booleans())
    def client_opens(self, data: st.DataObject, terminal: bool) -> None:
        client = data.draw(st.sampled_from(sorted(self.clients)))
        number = self.next_id
        if terminal:
            self.ask(client, "_lembas/terminal/open", {}, f"term_{number:012d}")
        else:
            self.ask(client, "session/new", {"cwd": "/p"}, f"ses_{number:026d}")

    @precondition(lambda self: self.clients and any(map(is_terminal_id, self.running)))
    @rule(data=st.data())
    def client_attaches_to_a_terminal(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(sorted(self.clients)))
        terminal = self.pick(data, {one for one in self.running if is_terminal_id(one)})
        self.ask(client, "_lembas/terminal/attach", {"terminalId": terminal})

    @precondition(lambda self: any(map(is_terminal_id, self.running)))
    @rule(data=st.data())
    def no_link_came_back(self, data: st.DataObject) -> None:
        terminal = self.pick(data, {one for one in self.running if is_terminal_id(one)})
        self.take(self.hub.feed(inputs.TimerFired(resume_timer(terminal))))

    # ── processes ───────────────────────────────────────────────────────────────────────────────

    @precondition(lambda self: self.probing)
    @rule(exists=st.booleans(), held=st.booleans())
    def store_is_looked_at(self, exists: bool, held: bool) -> None:
        session = self.probing.pop(0)
        held = held or session in self.running | self.starting
        self.take(self.hub.feed(inputs.Probed(session, exists or held, held)))

    def join(self, channel: str) -> None:
        self.starting.discard(channel)
        self.running.add(channel)
        self.connected.add(channel)
        if channel == UTILITY:
            self.take(self.hub.feed(inputs.UtilityJoined(7)))
        elif is_terminal_id(channel):
            self.take(self.hub.terminal(channel))
        else:
            self.take(self.hub.worker(channel, stored=channel in SESSIONS))

    @precondition(lambda self: self.starting)
    @rule(data=st.data())
    def process_joins(self, data: st.DataObject) -> None:
        self.join(self.pick(data, self.starting))

    @precondition(lambda self: self.running - self.connected)
    @rule(data=st.data())
    def process_comes_back(self, data: st.DataObject) -> None:
        self.join(self.pick(data, self.running - self.connected))

    @precondition(lambda self: self.connected)
    @rule(data=st.data())
    def connection_is_lost(self, data: st.DataObject) -> None:
        channel = self.pick(data, self.connected)
        self.connected.discard(channel)
        self.take(self.hub.feed(inputs.ConnectionLost(channel)))

    @precondition(lambda self: self.connected | self.starting)
    @rule(data=st.data(), code=st.sampled_from([0, 1, 75, None]))
    def process_ends(self, data: st.DataObject, code: int | None) -> None:
        channel = self.pick(data, self.connected | self.starting)
        if channel in self.connected:
            self.connected.discard(channel)
            self.take(self.hub.feed(inputs.ConnectionLost(channel)))
        self.running.discard(channel)
        self.starting.discard(channel)
        self.take(self.hub.feed(inputs.ProcessEnded(channel, code)))

    @precondition(lambda self: self.starting)
    @rule(data=st.data())
    def process_cannot_start(self, data: st.DataObject) -> None:
        channel = self.pick(data, self.starting)
        self.starting.discard(channel)
        self.take(self.hub.feed(inputs.StartFailed(channel, "no memory")))

    @precondition(lambda self: self.given)
    @rule(data=st.data(), failed=st.booleans(), again=st.booleans())
    def process_answers(self, data: st.DataObject, failed: bool, again: bool) -> None:
        passed = data.draw(st.sampled_from(self.given))
        if not again:
            self.given.remove(passed)
        if passed.channel in self.connected:
            self.take(self.hub.answer(passed, failed=failed))

    @precondition(lambda self: self.connected)
    @rule(data=st.data(), superseded=st.booleans())
    def process_would_leave(self, data: st.DataObject, superseded: bool) -> None:
        leaving = inputs.LeavingSaid(self.pick(data, self.connected), superseded)
        self.take(self.hub.feed(leaving))

    @rule(most=st.integers(1, 3))
    def few_may_run(self, most: int) -> None:
        self.most = most
        remote = Remote(enabled=True, terminal=True)
        now = Settings(remote=remote, max_workers=most, worker_memory_bytes=100)
        self.take(self.hub.feed(inputs.SettingsChanged(now)))

    @precondition(lambda self: self.connected)
    @rule(data=st.data(), rss=st.integers(99, 101), answers=st.booleans())
    def process_is_looked_at(self, data: st.DataObject, rss: int, answers: bool) -> None:
        channel = self.pick(data, self.connected)
        self.take(self.hub.feed(inputs.MemoryMeasured(channel, rss)))
        self.take(self.hub.feed(inputs.Answering(channel, answers)))

    @precondition(lambda self: self.hub.router.table.channels)
    @rule(data=st.data())
    def time_is_up(self, data: st.DataObject) -> None:
        channels = self.hub.router.table.channels
        timed = (State.STARTING, State.AWAITED, State.WAITING)
        waiting = {c.id for c in channels.values() if c.state in timed}
        if waiting:
            channel = self.pick(data, waiting)
            self.hub.now += 10
            self.take(self.hub.feed(inputs.TimerFired(channel)))
            if is_terminal_id(channel) or channel == UTILITY:
                self.running.discard(channel)

    @precondition(lambda self: not self.stopped)
    @rule(chance=st.integers(0, 20))
    def everything_is_to_stop(self, chance: int) -> None:
        if chance == 0:
            self.stopped = True
            self.take(self.hub.feed(inputs.StopAsked("stopping")))

    # ── what always holds ───────────────────────────────────────────────────────────────────────

    @invariant()
    def nothing_is_answered_twice(self) -> None:
        assert all(count == 1 for count in self.answered.values())

    @invariant()
    def what_is_open_is_open_and_nothing_else(self) -> None:
        unanswered = self.asked - set(self.answered)
        assert len(self.hub.router.table.requests) == len(unanswered)

    @invariant()
    def what_is_open_waits_for_something_that_can_come(self) -> None:
        table = self.hub.router.table
        for number in range(1, self.next_id + 2000):
            pending = table.requests.get(number)
            if pending is not None:
                assert pending.process in table.channels
                channel = table.channels[pending.process]
                alive = self.connected | self.starting | set(self.probing)
                comes = (State.AWAITED, State.WAITING)
                ends = channel.state is State.LEAVING and channel.id in self.running
                assert channel.id in alive or channel.state in comes or ends

    def teardown(self) -> None:
        """When every process has ended and every store is known, nobody waits for an answer."""
        for _ in range(50):
            for channel in [*self.connected]:
                self.connected.discard(channel)
                self.take(self.hub.feed(inputs.ConnectionLost(channel)))
            for channel in [*self.running, *self.starting]:
                self.running.discard(channel)
                self.starting.discard(channel)
                self.take(self.hub.feed(inputs.ProcessEnded(channel, 1)))
            for session in self.probing[:]:
                self.probing.remove(session)
                self.take(self.hub.feed(inputs.Probed(session, exists=False, held=False)))
            for channel in list(self.hub.router.table.channels):
                self.take(self.hub.feed(inputs.TimerFired(channel)))
            if not self.hub.router.table.channels:
                break
        assert self.asked == {one for one in self.answered if one[0] in self.clients}
        assert len(self.hub.router.table.requests) == 0


TestRouter = RouterMachine.TestCase
TestRouter.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
