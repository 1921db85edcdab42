"""What a person has said is asked of each hub once, and is on the screen until its turn has begun, whatever dies when."""

from collections import Counter
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lembasd.protocol import events
from lembasd.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS
from lembasd.tui.core import incoming, inputs
from lembasd.tui.core.chat import Chat, Input
from lembasd.tui.core.effects import Ask, Compose

SESSION = "ses_1"


class Talking(RuleBasedStateMachine):
    """A person who types, and hubs that come, answer and go."""

    def __init__(self) -> None:
        super().__init__()
        self.chat = Chat("/p")
        #: what this hub was asked and has not answered
        self.open: list[str] = []
        self.asked: Counter[str] = Counter()
        self.said: dict[str, str] = {}
        self.begun: set[str] = set()
        self.running = ""

    def feed(self, what: Input) -> None:
        for effect in self.chat.handle(what, 0.0):
            if isinstance(effect, Ask):
                self.open.append(effect.about)
                self.asked[effect.about] += 1
            elif isinstance(effect, Compose):
                # given back: the person has it again
                self.said = {
                    one: text for one, text in self.said.items() if text not in effect.text
                }

    @rule(after=st.booleans())
    def says(self, *, after: bool) -> None:
        turn_id = f"t{len(self.said) + len(self.begun)}x{sum(self.asked.values())}"
        if turn_id not in self.said:
            self.said[turn_id] = f"words of {turn_id}."
            self.feed(inputs.Submitted(self.said[turn_id], turn_id, after))

    @precondition(lambda self: not self.chat.connected)
    @rule()
    def a_hub_comes(self) -> None:
        self.open, self.asked = [], Counter()
        self.feed(inputs.Connected("1:1"))

    @precondition(lambda self: self.chat.connected)
    @rule(stopped=st.booleans())
    def the_hub_goes(self, *, stopped: bool) -> None:
        self.feed(inputs.HubLost(stopped))

    @precondition(lambda self: self.chat.connected and self.open)
    @rule(
        at=st.integers(0, 20),
        refuses=st.booleans(),
        code=st.sampled_from([INTERNAL_ERROR, INVALID_PARAMS]),
    )
    def the_hub_answers(self, *, at: int, refuses: bool, code: int) -> None:
        about = self.open.pop(at % len(self.open))
        kind, _, turn_id = about.partition(":")
        if kind == "prompt":
            if turn_id == self.running:
                self.turn_ends()
            self.begun.add(turn_id)
            self.feed(incoming.EventCame(events.Prompt(self.said.get(turn_id, ""), turn_id)))
            self.said.pop(turn_id, None)
            result: Any = {"stopReason": "end_turn", "_meta": {"lembas": {"turnId": turn_id}}}
        elif kind == "new" and refuses:
            self.feed(inputs.Refused(about, "not now", code))
            return
        elif kind == "steer" and refuses:
            self.feed(inputs.Refused(about, "nothing runs", INVALID_PARAMS))
            return
        else:
            result = {
                "new": {"sessionId": SESSION},
                "attach": {"sessionId": SESSION, "seq": "1:1"},
                "commands": {"commands": []},
            }.get(kind, {})
        self.feed(inputs.Answered(about, msgspec.json.encode(result)))

    @precondition(lambda self: self.chat.connected and not self.running)
    @rule()
    def a_turn_begins(self) -> None:
        asked = [one for one in self.open if one.startswith("prompt:")]
        if asked:
            self.running = asked[0].removeprefix("prompt:")
            self.begun.add(self.running)
            self.said.pop(self.running, None)
            self.feed(incoming.EventCame(events.Prompt("", self.running)))
            self.feed(incoming.EventCame(events.Task("start", self.running)))

    @precondition(lambda self: self.chat.connected and self.running)
    @rule()
    def the_model_takes_what_was_said_meanwhile(self) -> None:
        steers = [one for one in self.chat.waiting.messages if one.steers]
        texts = [one.text for one in steers]
        self.said = {one: text for one, text in self.said.items() if text not in texts}
        self.feed(incoming.EventCame(events.Steered(texts, [one.turn_id for one in steers])))

    def turn_ends(self) -> None:
        # what it has not taken in comes with its answer, which this hub gives as the next prompt
        steers = [one for one in self.chat.waiting.messages if one.steers]
        self.said = {
            one: text for one, text in self.said.items() if one not in {s.turn_id for s in steers}
        }
        self.feed(incoming.EventCame(events.Task("end", self.running)))
        self.running = ""

    @invariant()
    def nothing_that_was_said_is_lost_from_the_screen(self) -> None:
        shown = " ".join(label for label, _ in self.chat.shown_waiting)
        assert [text for text in self.said.values() if text not in shown] == []

    @invariant()
    def no_hub_is_asked_twice(self) -> None:
        assert [
            one for one, times in self.asked.items() if one.startswith("prompt:") and times > 1
        ] == []


Talking.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
test_a_chat_loses_nothing = Talking.TestCase
