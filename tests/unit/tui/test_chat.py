"""One chat: what is asked of the hub, and what the person is told."""

from typing import Any

import msgspec
import pytest

from lembasd.protocol import events, jsonrpc
from lembasd.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS
from lembasd.protocol.lembas import AvailableCommand
from lembasd.tui.core import incoming, inputs
from lembasd.tui.core.chat import GONE, NOT_NOW, STOPPED, Chat
from lembasd.tui.core.effects import (
    Answer,
    Ask,
    Compose,
    Copy,
    Effect,
    Look,
    NotAnswered,
    Notify,
    Open,
    Quit,
    ReadFile,
    Reset,
    Run,
)
from lembasd.tui.core.entries import Note, Prompt, Reply

SESSION = "ses_1"


class Talk:
    """A chat with what it wants done, and what it says."""

    def __init__(self, session_id: str = "") -> None:
        self.chat = Chat("/p", session_id)

    def feed(self, *what: Any, now: float = 0.0) -> list[Effect]:
        found: list[Effect] = []
        for one in what:
            found += self.chat.handle(one, now)
        return found

    def event(self, *given: events.AnyEvent) -> list[Effect]:
        return self.feed(*(incoming.EventCame(one) for one in given))

    def answer(self, about: str, **result: Any) -> list[Effect]:
        return self.feed(inputs.Answered(about, msgspec.json.encode(result)))

    def refuse(self, about: str, code: int = INTERNAL_ERROR, data: Any = None) -> list[Effect]:
        return self.feed(inputs.Refused(about, "it cannot be; try again", code, data))

    def ended(self, turn_id: str, stop: str = "end_turn", **said: Any) -> list[Effect]:
        meta = {"lembas": {"turnId": turn_id, **said}}
        return self.answer(f"prompt:{turn_id}", stopReason=stop, _meta=meta)

    def types(self, text: str, turn_id: str = "t1", *, after: bool = False) -> list[Effect]:
        return self.feed(inputs.Submitted(text, turn_id, after))

    @property
    def notes(self) -> list[str]:
        return [one.text for one in self.chat.transcript.entries if isinstance(one, Note)]

    @property
    def prompts(self) -> list[str]:
        return [one.text for one in self.chat.transcript.entries if isinstance(one, Prompt)]


def attach(session_id: str = SESSION, **since: str) -> Ask:
    return Ask("attach", "_hub/attach", {"sessionId": session_id, **since})


def prompt(text: str, turn_id: str, *files: dict[str, Any]) -> Ask:
    blocks = [{"type": "text", "text": text}] if text else []
    return Ask(
        f"prompt:{turn_id}",
        "session/prompt",
        {
            "sessionId": SESSION,
            "prompt": [*blocks, *files],
            "_meta": {"lembas": {"turnId": turn_id}},
        },
    )


def stands(**fields: Any) -> dict[str, Any]:
    known = dict.fromkeys(("title", "root", "mode", "model", "effort"), "")
    lists: dict[str, Any] = {name: [] for name in ("turns", "live", "queued", "cards")}
    rest = {"shared": False, "given": False, "plan": None, "usage": None}
    return {**known, **lists, **rest, **fields}


def open_chat() -> Talk:
    """A session that this chat has made, with nothing in it."""
    talk = Talk()
    talk.feed(inputs.Connected())
    talk.types("hello")
    talk.answer("new", sessionId=SESSION, _meta={"lembas": {"model": "m", "mode": "manual"}})
    talk.event(events.Prompt("hello", "t1"))
    talk.ended("t1")
    return talk


def working() -> Talk:
    """The same while a turn runs."""
    talk = open_chat()
    talk.types("work", "t2")
    talk.event(events.Prompt("work", "t2"), events.Task("start", "t2"))
    return talk


def card(name: str = "c1", key: str = "k1") -> incoming.CardCame:
    params = {"sessionId": SESSION, "toolCallId": name, "path": "a", "text": "b"}
    found = incoming.read(jsonrpc.peek(jsonrpc.request(key, "_lembas/plan", params)))
    assert isinstance(found, incoming.CardCame)
    return found


# ── beginning ───────────────────────────────────────────────────────────────────────────────────


def test_a_new_chat_makes_no_session_before_something_is_said() -> None:
    assert Talk().feed(inputs.Connected()) == [
        Look("month"),
        Look("defaults"),
        Ask("commands", "_lembas/commands", {"cwd": "/p"}),
    ]


def test_the_first_prompt_makes_the_session_and_is_sent_to_it() -> None:
    talk = Talk()
    talk.feed(inputs.Connected())
    new = Ask("new", "session/new", {"cwd": "/p", "mcpServers": [], "_meta": {}})
    assert talk.types("hello") == [new]
    assert talk.types("more", "t2") == []
    assert talk.chat.shown_waiting == [("hello", "sending"), ("more", "sending")]
    said = {"model": "m", "mode": "edit", "effort": "high", "instance": True}
    assert talk.answer("new", sessionId=SESSION, _meta={"lembas": said}) == [
        prompt("hello", "t1"),
        prompt("more", "t2"),
    ]
    assert (talk.chat.model, talk.chat.mode, talk.chat.effort) == ("m", "edit", "high")


def test_what_was_chosen_before_the_session_is_said_when_it_is_made() -> None:
    talk = Talk()
    talk.feed(inputs.Connected(), inputs.DefaultsCame("m0", "manual", "default"))
    assert (talk.chat.model, talk.chat.mode, talk.chat.effort) == ("m0", "manual", "default")
    for text in ("/mode plan", "/model m1", "/effort low"):
        assert talk.types(text) == []
    (new,) = talk.types("hello")
    assert isinstance(new, Ask)
    assert new.params["_meta"] == {"mode": "plan", "model": "m1", "effort": "low"}
    talk.answer("new", sessionId=SESSION)
    talk.feed(inputs.DefaultsCame("m0", "manual", "default"))
    assert (talk.chat.model, talk.chat.mode, talk.chat.effort) == ("m1", "plan", "low")


def test_a_session_that_cannot_be_made_gives_the_text_back() -> None:
    talk = Talk()
    talk.feed(inputs.Connected())
    talk.types("hello")
    talk.types("more", "t2")
    assert talk.refuse("new") == [Compose("hello\n\nmore")]
    assert (talk.notes, talk.chat.shown_waiting) == (["it cannot be; try again"], [])
    assert len(talk.types("hello", "t3")) == 1


def test_nothing_is_sent_for_an_empty_line() -> None:
    assert open_chat().types("  \n") == []


def test_before_the_hub_is_there_it_is_said_what_is_waited_for() -> None:
    talk = Talk()
    talk.feed(inputs.Starting("it is started"))
    assert talk.chat.banner == "it is started"
    assert talk.types("hello") == []
    assert talk.chat.shown_waiting == [("hello", "when lembasd is back")]
    assert talk.feed(inputs.Connected())[-1].about == "new"  # type: ignore[union-attr]
    assert (talk.chat.banner, talk.notes) == ("", ["it is started"])


def test_that_a_hub_was_started_is_said_below_the_history() -> None:
    talk = Talk(SESSION)
    talk.feed(inputs.Starting("it is started"), inputs.Connected())
    turns = [{"role": "user", "text": "do it"}]
    talk.answer("attach", sessionId=SESSION, seq="1:1", snapshot=stands(turns=turns))
    assert (talk.prompts, talk.notes) == (["do it"], ["it is started"])


# ── joining ─────────────────────────────────────────────────────────────────────────────────────


def test_a_session_is_shown_as_its_snapshot_has_it() -> None:
    talk = Talk(SESSION)
    assert talk.feed(inputs.Connected()) == [Look("month"), attach()]
    assert talk.chat.loading
    talk.event(events.Text("is in the snapshot", "m"))
    talk.feed(card("old"), card("new", "k2"))
    live = [
        {"type": "text", "text": "so far", "messageId": "m"},
        {
            "type": "tool_start",
            "toolCallId": "c",
            "name": "bash",
            "title": "ls",
            "block": "b",
            "args": {},
        },
        {"type": "tool_output", "toolCallId": "c", "text": "a\nb"},
        {"type": "of a later build"},
    ]
    snapshot = stands(
        title="A title",
        root="/p/below",
        mode="edit",
        model="m",
        effort="low",
        shared=True,
        turns=[{"role": "user", "text": "do it", "turnId": "t9"}],
        live=live,
        queued=[{"turnId": "t10", "text": "then this"}],
        usage={"type": "usage", "input": 10, "output": 2},
        cards=["new"],
        turnId="t9",
    )
    talk.answer("attach", sessionId=SESSION, seq="1:4", snapshot=snapshot)
    chat = talk.chat
    assert (chat.title, chat.cwd, chat.mode, chat.model) == ("A title", "/p/below", "edit", "m")
    assert (chat.shared, chat.loading, chat.activity.turn_id) == (True, False, "t9")
    assert chat.shown_waiting == [("then this", "after this turn")]
    assert [one.call_id for one in chat.cards] == ["new"]
    assert (talk.prompts, chat.transcript.last_reply()) == (["do it"], "so far")
    call = chat.transcript.running_call()
    assert call is not None
    assert call.output == "a\nb"
    assert chat.activity.read == 10


def test_a_hub_that_comes_back_is_asked_for_the_rest_and_again_for_what_it_owes() -> None:
    talk = open_chat()
    talk.types("work", "t2")
    talk.feed(card(), inputs.HubLost())
    assert (talk.chat.banner, talk.chat.cards) == (GONE, [])
    assert talk.chat.shown_waiting == [("work", "when lembasd is back")]
    assert talk.feed(inputs.Connected("1:7")) == [
        Look("month"),
        attach(since="1:7"),
        prompt("work", "t2"),
    ]
    talk.answer("attach", sessionId=SESSION, seq="1:9")
    assert (talk.prompts, talk.chat.banner) == (["hello"], "")


def test_a_hub_that_was_stopped_is_told_apart() -> None:
    talk = open_chat()
    talk.feed(inputs.HubLost(stopped=True))
    assert talk.chat.banner == STOPPED


def test_a_gap_is_closed_by_a_snapshot() -> None:
    talk = open_chat()
    assert talk.feed(incoming.GapCame()) == [attach()]
    turns = [{"role": "user", "text": "all of it"}]
    talk.answer("attach", sessionId=SESSION, seq="2:1", snapshot=stands(turns=turns))
    assert talk.prompts == ["all of it"]


def test_a_session_that_cannot_be_joined_says_why() -> None:
    talk = Talk(SESSION)
    talk.feed(inputs.Connected())
    talk.refuse("attach")
    assert (talk.notes, talk.chat.loading) == (["it cannot be; try again"], False)


# ── turns ───────────────────────────────────────────────────────────────────────────────────────


def test_a_prompt_waits_until_its_turn_begins() -> None:
    talk = open_chat()
    assert talk.types("work", "t2") == [prompt("work", "t2")]
    assert talk.chat.shown_waiting == [("work", "sending")]
    talk.event(events.Prompt("work", "t2"), events.Task("start", "t2"))
    assert (talk.chat.shown_waiting, talk.chat.activity.busy) == ([], True)
    assert talk.event(events.Task("end", "t2")) == [Look("month")]
    talk.ended("t2")
    assert talk.prompts == ["hello", "work"]


def test_while_a_turn_runs_what_is_said_steers_it() -> None:
    talk = working()
    assert talk.types("and quick", "t3") == [
        Ask(
            "steer:t3",
            "_lembas/steer",
            {"sessionId": SESSION, "text": "and quick", "messageId": "t3"},
        )
    ]
    talk.answer("steer:t3", queued=1)
    talk.answer("steer:unknown", queued=1)
    assert talk.chat.shown_waiting == [("and quick", "at the next step")]
    assert talk.feed(inputs.HubLost(), inputs.Connected("1:2"))[2:] == [prompt("work", "t2")]
    talk.event(events.Steered(["and quick"], ["t3"]))
    assert (talk.chat.shown_waiting, talk.prompts[-1]) == ([], "and quick")


def test_a_message_without_an_id_is_known_by_its_text() -> None:
    talk = working()
    talk.types("and quick", "t3")
    talk.event(events.Steered(["and quick"]))
    assert talk.chat.shown_waiting == []


def test_a_message_that_came_too_late_becomes_a_prompt() -> None:
    talk = working()
    talk.types("and quick", "t3")
    assert talk.refuse("steer:t3", INVALID_PARAMS) == [prompt("and quick", "t3")]
    assert talk.refuse("steer:unknown", INVALID_PARAMS) == []
    assert talk.refuse("steer:t3", INTERNAL_ERROR) == []
    assert talk.notes == ["it cannot be; try again"]


def test_what_the_turn_did_not_take_in_is_the_next_prompt() -> None:
    talk = working()
    talk.types("one", "t3")
    assert talk.ended("t2", unsent=["one", "two"]) == [prompt("one\n\ntwo", "t2.next")]
    assert [label for label, _ in talk.chat.shown_waiting] == ["one two"]


def test_a_turn_that_failed_says_why_and_gives_back_what_it_did_not_take_in() -> None:
    talk = working()
    assert talk.refuse("prompt:t2", data={"unsent": ["one"]}) == [prompt("one", "t2.next")]
    assert talk.refuse("prompt:unknown") == []
    assert talk.notes == ["it cannot be; try again"] * 2


def test_a_prompt_that_was_not_taken_is_given_back_with_its_files() -> None:
    talk = open_chat()
    talk.feed(inputs.FileRead("a.png", "image/png", "AAAA", 3))
    talk.types("look", "t2")
    assert talk.refuse("prompt:t2") == [Compose("look")]
    assert [one.name for one in talk.chat.attachments] == ["a.png"]
    assert (talk.notes, talk.chat.shown_waiting) == (["it cannot be; try again"], [])


def test_what_is_to_come_after_the_turn_is_a_prompt_of_its_own() -> None:
    talk = working()
    assert talk.types("then", "t3", after=True) == [prompt("then", "t3")]
    queue = incoming.QueueCame((("t3", "then"), ("t4", "somebody's")))
    talk.feed(queue)
    assert talk.chat.shown_waiting == [
        ("then", "after this turn"),
        ("somebody's", "after this turn"),
    ]


def test_a_connection_that_ended_first_refuses_nothing() -> None:
    talk = working()
    assert talk.refuse("prompt:t2", code=0) == []
    assert talk.notes == []


def test_a_turn_is_cancelled() -> None:
    talk = working()
    assert talk.feed(inputs.Cancelled()) == [Notify("session/cancel", {"sessionId": SESSION})]
    talk.ended("t2", "cancelled")
    assert talk.notes == ["cancelled"]
    assert Talk().feed(inputs.Cancelled()) == []


def test_what_a_command_did_is_told() -> None:
    talk = open_chat()
    talk.ended("t2", command="review", message="nothing has changed")
    talk.ended("t3", command="undo", undone=None)
    assert talk.notes == ["nothing has changed", "there is nothing to undo"]
    undone = {"prompt": "hello", "files": ["a"]}
    assert talk.ended("t4", command="undo", undone=undone) == [attach(), Compose("hello")]


def test_events_keep_what_is_known_of_the_session() -> None:
    talk = open_chat()
    talk.event(
        events.Session("T", "/p/q", "m", "plan", "low"),
        events.Title("s", "New\x1b[2J title"),
        events.ModeChanged("auto"),
        events.ModelChanged("m2", "high", None, True),
    )
    chat = talk.chat
    assert (chat.title, chat.cwd, chat.mode) == ("New title", "/p/q", "auto")
    assert (chat.model, chat.effort) == ("m2", "high")
    talk.event(events.Session("T", "", "m", "plan", "low"))
    assert chat.cwd == "/p/q"


def test_output_plans_and_commands_find_their_place() -> None:
    talk = open_chat()
    talk.event(events.ToolStart("c", "bash", "ls", "b", {}))
    talk.feed(
        incoming.OutputCame("c", "out"),
        incoming.PlanCame((("task", "pending"),)),
        incoming.CommandsCame([AvailableCommand("review", "d")]),
    )
    call = talk.chat.transcript.running_call()
    assert call is not None
    assert call.output == "out"
    assert "review" in [one.name for one in talk.chat.commands]
    talk.answer("commands", commands=[{"name": "init", "description": "d"}])
    assert "init" in [one.name for one in talk.chat.commands]
    assert talk.refuse("commands") == []
    assert talk.notes == []


# ── cards ───────────────────────────────────────────────────────────────────────────────────────


def test_a_card_is_answered_once() -> None:
    talk = open_chat()
    talk.feed(card())
    assert talk.feed(inputs.Chose("r", "smaller")) == [
        Answer(b'"k1"', {"outcome": "revise", "feedback": "smaller"})
    ]
    assert talk.feed(inputs.Chose("y")) == []


def test_a_card_that_goes_on_stays() -> None:
    talk = open_chat()
    question = {"header": "h", "question": "q", "multiple": True, "options": [{"label": "a"}]}
    params = {"sessionId": SESSION, "toolCallId": "q", "questions": [question]}
    asked = incoming.read(jsonrpc.peek(jsonrpc.request("k", "_lembas/question", params)))
    assert asked is not None
    talk.feed(asked)
    assert talk.feed(inputs.Chose("1")) == []
    assert len(talk.chat.cards) == 1


def test_a_card_that_is_asked_again_replaces_itself() -> None:
    talk = open_chat()
    talk.feed(card("c1", "k1"), card("c2", "k2"), card("c1", "k3"))
    assert [one.key for one in talk.chat.cards] == [b'"k2"', b'"k3"']


@pytest.mark.parametrize(
    ("by", "said"),
    [
        ("terminal", "the card was answered at another terminal"),
        ("instance", "the card was answered on the instance"),
        ("", "the card is no longer waited for"),
    ],
)
def test_a_card_that_was_answered_elsewhere_is_taken_down(by: str, said: str) -> None:
    talk = open_chat()
    talk.feed(card(), incoming.Settled("c1", by), incoming.Settled("c1", by))
    assert (talk.chat.cards, talk.notes) == ([], [said])


def test_a_request_that_is_not_known_is_answered_so() -> None:
    assert open_chat().feed(incoming.Unreadable(b"1", "_lembas/show")) == [
        NotAnswered(b"1", "_lembas/show")
    ]


# ── files ───────────────────────────────────────────────────────────────────────────────────────


def test_files_go_with_the_next_prompt_never_into_a_running_turn() -> None:
    talk = working()
    assert talk.types("/attach a.png") == [ReadFile("a.png")]
    talk.feed(
        inputs.FileRead("a.png", "image/png", "AAAA", 3),
        inputs.FileRead("b.txt", "text/plain", "BBBB", 3),
        inputs.FileRead("c.txt", "text/plain", "CCCC", 3),
        inputs.Detached(),
    )
    assert [one.name for one in talk.chat.attachments] == ["a.png", "b.txt"]
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png", "uri": "a.png"}
    resource = {"uri": "b.txt", "mimeType": "text/plain", "blob": "BBBB"}
    file = {"type": "resource", "resource": resource}
    assert talk.types("", "t3") == [prompt("", "t3", image, file)]
    assert talk.chat.shown_waiting == [(" [a.png] [b.txt]", "after this turn")]
    assert talk.chat.attachments == []


# ── own commands ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "effects"),
    [
        ("/quit", [Quit()]),
        ("/sessions fix it", [Open("sessions", "fix it")]),
        ("/model", [Open("models")]),
        ("/effort", [Open("efforts")]),
        ("/mode", [Open("modes")]),
        ("/copy", [Copy("")]),
        ("/usage", [Look("usage")]),
        ("/settings", [Open("settings", "")]),
        ("/settings personality", [Open("settings", "personality")]),
        ("/settings personality pirate", [Look("set", "personality", "pirate")]),
        ("/login", [Run(("login",))]),
        ("/login http://a", [Run(("login", "--server", "http://a"))]),
        ("/delete", [Ask("delete", "_lembas/session/delete", {"sessionId": SESSION})]),
        (
            "/title Other",
            [Ask("title", "_lembas/session/title", {"sessionId": SESSION, "title": "Other"})],
        ),
        ("/share", [Ask("share", "_hub/share", {"sessionId": SESSION, "shared": True})]),
        ("/share off", [Ask("share", "_hub/share", {"sessionId": SESSION, "shared": False})]),
        (
            "/mode plan",
            [Ask("mode", "session/set_mode", {"sessionId": SESSION, "modeId": "plan"})],
        ),
        (
            "/model m2",
            [Ask("model", "_lembas/configure", {"sessionId": SESSION, "model": "m2"})],
        ),
        (
            "/effort low",
            [Ask("effort", "_lembas/configure", {"sessionId": SESSION, "effort": "low"})],
        ),
        ("/review it", [prompt("/review it", "t1")]),
    ],
)
def test_each_command_does_its_own(text: str, effects: list[Effect]) -> None:
    assert open_chat().types(text) == effects


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/attach", "name a file: /attach picture.png"),
        ("/mode wild", "'wild' is no mode; choose plan, manual, edit, auto"),
        ("/title", "this session is called nothing yet"),
    ],
)
def test_a_command_that_lacks_something_says_what(text: str, said: str) -> None:
    talk = open_chat()
    assert (talk.types(text), talk.notes) == ([], [said])


def test_without_a_hub_a_command_says_that_it_was_not_done() -> None:
    talk = open_chat()
    talk.feed(inputs.HubLost())
    assert (talk.types("/delete"), talk.notes) == ([], [NOT_NOW])


def test_the_help_is_shown() -> None:
    talk = open_chat()
    talk.types("/help")
    assert "/quit" in talk.notes[0]


def test_a_command_of_a_session_needs_one() -> None:
    talk = Talk()
    talk.feed(inputs.Connected())
    assert talk.types("/delete") == []
    assert talk.notes == ["there is no session yet; it begins with your first prompt"]


def test_whether_the_instance_shows_it_is_told() -> None:
    talk = open_chat()
    talk.answer("share", shared=True)
    assert talk.chat.shared
    talk.answer("share", shared=False)
    assert talk.notes == [
        "the instance shows this session now",
        "the instance shows this session no more",
    ]


def test_what_was_set_is_told_as_an_event_and_not_twice() -> None:
    talk = open_chat()
    assert (talk.answer("mode"), talk.notes) == ([], [])
    talk.refuse("mode")
    assert talk.notes == ["it cannot be; try again"]


def test_modes_go_round_without_the_one_that_asks_nobody() -> None:
    talk = Talk()
    talk.feed(inputs.Connected())
    seen = []
    for _ in range(4):
        talk.feed(inputs.ModeCycled())
        seen.append(talk.chat.mode)
    assert seen == ["plan", "manual", "edit", "plan"]


def test_what_is_picked_is_done() -> None:
    talk = open_chat()
    assert talk.feed(inputs.Picked("settings", "mode")) == [Compose("/settings mode ")]
    assert talk.feed(inputs.Picked("modes", "edit"))[0].about == "mode"  # type: ignore[union-attr]


# ── sessions ────────────────────────────────────────────────────────────────────────────────────


def test_another_session_is_opened_on_a_connection_of_its_own() -> None:
    talk = working()
    assert talk.feed(inputs.Picked("sessions", "ses_2")) == [Reset()]
    assert (talk.chat.connected, talk.chat.transcript.entries) == (False, [])
    assert talk.feed(inputs.Connected("1:4")) == [Look("month"), attach("ses_2")]
    assert talk.feed(inputs.Picked("sessions", "ses_2")) == []


def test_a_new_session_begins_with_the_next_prompt() -> None:
    talk = open_chat()
    assert talk.types("/new") == [Reset()]
    assert (talk.chat.session_id, talk.notes) == ("", [])


def test_a_session_that_was_deleted_is_left() -> None:
    talk = open_chat()
    assert talk.answer("delete", deleted=True) == [Reset()]
    assert talk.notes == ["the session is deleted; the next prompt begins a new one"]
    other = open_chat()
    assert other.feed(incoming.Deleted()) == [Reset()]
    assert "deleted elsewhere" in other.notes[0]


# ── what is told ────────────────────────────────────────────────────────────────────────────────


def test_what_was_looked_up_is_shown() -> None:
    talk = open_chat()
    talk.feed(inputs.Said("so it is", "error"), inputs.MonthCame("€2.00"))
    assert (talk.notes, talk.chat.month) == (["so it is"], "€2.00")


def test_an_input_of_another_kind_is_a_fault() -> None:
    with pytest.raises(TypeError):
        open_chat().feed(3)


def test_every_change_is_a_revision() -> None:
    talk = open_chat()
    before = talk.chat.revision
    talk.event(events.Text("a", "m"))
    assert talk.chat.revision == before + 1
    assert isinstance(talk.chat.transcript.entries[-1], Reply)
