"""What the card machine decides, input by input."""

import msgspec
import pytest

from lembasd.engine.api import (
    CardRequest,
    Decision,
    PlanOutcome,
    PlanRequest,
    QuestionOutcome,
    QuestionRequest,
    ShowOutcome,
    ShowRequest,
)
from lembasd.engine.core import card_kinds, cards
from lembasd.engine.core.card_kinds import Watcher
from lembasd.engine.core.cards import (
    AllDetached,
    Announce,
    Ask,
    Attached,
    Cancelled,
    CancelTimer,
    Cards,
    Decided,
    Detached,
    Judge,
    Judged,
    Lowered,
    Outdated,
    Replied,
    Send,
    SetTimer,
    Settle,
    TimerFired,
)
from lembasd.protocol.control import CardInfo
from lembasd.protocol.interact import MAX_SHOWN_BYTES, Option, Question, Skipped

SESSION = "ses_" + "0" * 26
CARD = CardRequest(
    tool_call_id="call_1",
    name="bash",
    title="make",
    kind="execute",
    args={"command": "make"},
    reason="asked in this mode",
    purpose="build it",
    always="make",
    content=[],
)
ONCE = b'{"outcome":{"outcome":"selected","optionId":"once"}}'


HERE, LINK = Watcher(local=True, protocol=3), Watcher(local=False, protocol=3)


def machine(*clients: tuple[int, Watcher]) -> Cards:
    made = Cards(SESSION, 2)
    for client, watcher in clients:
        made.handle(Attached(client, watcher), 0.0)
    return made


def ids(effects: list[cards.Effect]) -> dict[int, str]:
    return {
        effect.client: msgspec.json.decode(effect.payload)["id"]
        for effect in effects
        if isinstance(effect, Send)
    }


def outcomes(effects: list[cards.Effect]) -> list[card_kinds.Outcome]:
    return [effect.outcome for effect in effects if isinstance(effect, Decided)]


def reply(made: Cards, client: int, request_id: str, result: bytes) -> list[cards.Effect]:
    """An answer, and, where it is the link's, that the limits let it count."""
    effects = made.handle(Replied(client, request_id, result), 1.0)
    if effects != [Judge(request_id)]:
        return effects
    return made.handle(Judged(request_id, "", "auto"), 1.0)


@pytest.mark.spec("card: purpose")
def test_every_client_is_asked_with_an_id_of_its_own_after_the_hub_is_told() -> None:
    effects = machine((1, LINK), (2, LINK)).handle(Ask(CARD, 300.0), 10.0)
    assert effects[0] == Announce(CardInfo(id=f"{SESSION}:2:1", tool_call_id="call_1"))
    assert ids(effects) == {1: f"{SESSION}:2:2", 2: f"{SESSION}:2:3"}
    assert effects[-1] == SetTimer("call_1", 310.0)
    shown = effects[1]
    assert isinstance(shown, Send)
    assert msgspec.json.decode(shown.payload) == {
        "jsonrpc": "2.0",
        "id": f"{SESSION}:2:2",
        "method": "session/request_permission",
        "params": {
            "sessionId": SESSION,
            "toolCall": {
                "toolCallId": "call_1",
                "title": "make",
                "kind": "execute",
                "rawInput": {"command": "make"},
                "status": "pending",
                "content": [],
            },
            "options": [
                {"optionId": "once", "name": "Allow once", "kind": "allow_once"},
                {"optionId": "session", "name": "Allow for this session", "kind": "allow_always"},
                {"optionId": "deny", "name": "Deny", "kind": "reject_once"},
            ],
            "_meta": {
                "lembas": {"reason": "asked in this mode", "purpose": "build it", "always": "make"}
            },
        },
    }


@pytest.mark.spec("card: session absent where it is never offered")
def test_what_is_not_there_is_left_out_and_always_is_not_offered() -> None:
    bare = CardRequest(tool_call_id="c", name="n", title="t", kind="edit", args={}, reason="r")
    shown = machine((1, HERE)).handle(Ask(bare, None), 0.0)[1]
    assert isinstance(shown, Send)
    params = msgspec.json.decode(shown.payload)["params"]
    assert [one["optionId"] for one in params["options"]] == ["once", "deny"]
    assert params["_meta"] == {"lembas": {"reason": "r", "patient": True}}
    assert "content" not in params["toolCall"]


def test_the_first_answer_decides_and_a_late_one_finds_nothing() -> None:
    made = machine((1, LINK), (2, LINK))
    asked = ids(made.handle(Ask(CARD, 300.0), 0.0))
    effects = reply(made, 2, asked[2], ONCE)
    assert effects[0] == CancelTimer("call_1")
    assert isinstance(effects[1], Settle)
    assert (effects[1].tool_call_id, effects[1].client) == ("call_1", 2)
    assert outcomes(effects) == [Decision(outcome="once")]
    assert made.handle(Replied(1, asked[1], ONCE), 2.0) == []
    assert made.waiting == []


def test_an_error_reply_decides_nothing() -> None:
    made = machine((1, LINK))
    asked = ids(made.handle(Ask(CARD, None), 0.0))
    assert made.handle(Replied(1, asked[1], b""), 1.0) == []
    assert outcomes(reply(made, 1, asked[1], ONCE)) == [Decision(outcome="once")]


def test_who_attaches_later_is_asked_what_waits_under_a_new_id() -> None:
    made = machine((1, LINK))
    made.handle(Ask(CARD, None), 0.0)
    effects = made.handle(Attached(5, LINK), 1.0)
    assert ids(effects) == {5: f"{SESSION}:2:3"}
    assert made.waiting == [CardInfo(id=f"{SESSION}:2:3", tool_call_id="call_1")]


def test_nobody_answering_is_a_timeout() -> None:
    made = machine()
    made.handle(Ask(CARD, 300.0), 0.0)
    effects = made.handle(TimerFired("call_1"), 300.0)
    assert outcomes(effects) == [Decision(outcome="timeout")]
    assert not any(isinstance(one, CancelTimer) for one in effects)
    assert made.handle(TimerFired("call_1"), 301.0) == []


def test_a_card_that_a_person_here_sees_waits_until_that_person_leaves() -> None:
    made = machine((1, HERE), (2, LINK))
    assert not any(isinstance(one, SetTimer) for one in made.handle(Ask(CARD, 300.0), 0.0))
    assert made.handle(Detached(2), 1.0) == []
    assert made.handle(Detached(1), 50.0) == [SetTimer("call_1", 350.0)]
    assert made.handle(Detached(1), 60.0) == []


def test_a_card_without_a_time_waits_when_the_hub_is_gone() -> None:
    made = machine((1, HERE))
    asked = ids(made.handle(Ask(CARD, None), 0.0))
    assert made.handle(AllDetached(), 1.0) == []
    assert made.handle(Replied(1, asked[1], ONCE), 2.0) == []
    assert len(made.waiting) == 1


def test_a_cancelled_turn_takes_its_cards_down() -> None:
    made = machine()
    made.handle(Ask(CARD, None), 0.0)
    assert made.handle(Cancelled("another"), 1.0) == []
    assert outcomes(made.handle(Cancelled(), 1.0)) == [Decision(outcome="cancelled")]


def test_a_call_that_waits_cannot_be_asked_again() -> None:
    made = machine()
    made.handle(Ask(CARD, None), 0.0)
    with pytest.raises(ValueError, match="waits already"):
        made.handle(Ask(CARD, None), 0.0)


@pytest.mark.parametrize(
    ("result", "decision"),
    [
        (ONCE, Decision(outcome="once")),
        (
            b'{"outcome":{"outcome":"selected","optionId":"once"},"_meta":{"lembas":{"command":"ls -l"}}}',
            Decision(outcome="once", command="ls -l"),
        ),
        (b'{"outcome":{"outcome":"selected","optionId":"session"}}', Decision(outcome="session")),
        (
            b'{"outcome":{"outcome":"selected","optionId":"deny"},"_meta":{"lembas":{"feedback":"no"}}}',
            Decision(outcome="deny", feedback="no"),
        ),
        (b'{"outcome":{"outcome":"cancelled"}}', Decision(outcome="deny")),
        (b'{"outcome":{"outcome":"selected","optionId":"whatever"}}', Decision(outcome="deny")),
        (b'"yes"', Decision(outcome="deny")),
    ],
)
def test_an_answer_is_read_and_what_cannot_be_read_is_a_denial(
    result: bytes, decision: Decision
) -> None:
    assert card_kinds.read_permission(result, always=True) == decision


def test_allowing_for_the_session_where_it_was_not_offered_is_a_denial() -> None:
    result = b'{"outcome":{"outcome":"selected","optionId":"session"}}'
    assert card_kinds.read_permission(result, always=False) == Decision(outcome="deny")


# ── the link's answers and the limits ───────────────────────────────────────────────────────────


def test_the_links_answer_is_judged_and_only_its_first() -> None:
    made = machine((1, LINK))
    asked = ids(made.handle(Ask(CARD, 300.0), 0.0))[1]
    assert made.handle(Replied(1, asked, ONCE), 1.0) == [Judge(asked)]
    assert made.handle(Replied(1, asked, ONCE), 1.0) == []
    assert outcomes(made.handle(Judged(asked, "", "auto"), 2.0)) == [Decision(outcome="once")]
    assert made.handle(Judged(asked, "", "auto"), 2.0) == []


def test_an_answer_that_the_limits_refuse_is_a_denial_that_says_why() -> None:
    made = machine((1, LINK))
    asked = ids(made.handle(Ask(CARD, 300.0), 0.0))[1]
    made.handle(Replied(1, asked, ONCE), 1.0)
    assert outcomes(made.handle(Judged(asked, "remote work is off", "auto"), 2.0)) == [
        Decision(outcome="deny", feedback="remote work is off")
    ]


def test_an_answer_that_the_limits_refuse_leaves_the_card_to_a_person_here() -> None:
    made = machine((1, LINK), (2, HERE))
    asked = ids(made.handle(Ask(CARD, 300.0), 0.0))
    made.handle(Replied(1, asked[1], ONCE), 1.0)
    assert made.handle(Judged(asked[1], "remote work is off", "auto"), 2.0) == []
    assert outcomes(reply(made, 2, asked[2], ONCE)) == [Decision(outcome="once")]


def test_an_answer_counts_whose_link_went_down_while_it_was_judged() -> None:
    made = machine((1, LINK))
    asked = ids(made.handle(Ask(CARD, 300.0), 0.0))[1]
    made.handle(Replied(1, asked, ONCE), 1.0)
    made.handle(Detached(1), 1.0)
    assert outcomes(made.handle(Judged(asked, "", "auto"), 2.0)) == [Decision(outcome="once")]


def test_nobody_answers_for_another() -> None:
    made = machine((1, LINK), (2, HERE))
    asked = ids(made.handle(Ask(CARD, 300.0), 0.0))
    assert made.handle(Replied(2, asked[1], ONCE), 1.0) == []


# ── questions, plans and files ──────────────────────────────────────────────────────────────────

QUESTION = QuestionRequest(
    tool_call_id="call_q", questions=[Question("DB", "Which?", False, [Option("SQLite")])]
)
PLAN = PlanRequest(tool_call_id="call_p", path="p.md", text="# P")
SHOW = ShowRequest(tool_call_id="call_s", path="a", kind="text", text="a")
ANSWERED = b'{"outcome":"answered","answers":[{"kind":"skipped"}]}'
VIEWER = Watcher(local=False, protocol=3, shows=True, opened=True)
EDITOR, OLD = Watcher(local=True), Watcher(local=False, protocol=1)
NOBODY = QuestionOutcome(outcome="nobody")
UNKNOWN = -32601


def test_a_question_waits_like_a_card_and_is_asked_again_on_the_next_link() -> None:
    made = machine((1, LINK), (3, EDITOR))
    effects = made.handle(Ask(QUESTION, 300.0), 0.0)
    assert effects[0] == Announce(CardInfo(f"{SESSION}:2:1", "call_q", "question"))
    first = ids(effects)
    assert list(first) == [1]
    assert effects[-1] == SetTimer("call_q", 300.0)
    assert made.handle(Detached(1), 1.0) == []
    again = ids(made.handle(Attached(4, LINK), 2.0))
    assert made.handle(Replied(1, first[1], ANSWERED), 2.0) == []
    settled = reply(made, 4, again[4], ANSWERED)
    assert settled[0] == CancelTimer("call_q")
    assert isinstance(settled[1], Settle)
    assert outcomes(settled) == [QuestionOutcome(outcome="answered", answers=[Skipped()])]


def test_a_question_is_patient_where_a_person_here_is_asked_it_too() -> None:
    made = machine((1, LINK), (2, HERE))
    effects = made.handle(Ask(QUESTION, 300.0), 0.0)
    assert list(ids(effects)) == [1, 2]
    assert not any(isinstance(one, SetTimer) for one in effects)
    assert made.waiting[0].patient
    assert made.handle(Detached(2), 5.0) == [SetTimer("call_q", 305.0)]


def test_nobody_is_asked_who_did_not_say_that_it_knows_questions() -> None:
    made = machine((1, OLD), (2, EDITOR))
    assert made.handle(Ask(QUESTION, 300.0), 0.0) == [Decided("call_q", NOBODY)]
    assert made.handle(Ask(PLAN, 300.0), 0.0) == [Decided("call_p", PlanOutcome(outcome="nobody"))]
    assert made.waiting == []


def test_a_question_waits_for_a_link_that_is_down_and_not_where_there_is_none() -> None:
    assert outcomes(machine().handle(Ask(QUESTION, None), 0.0)) == [NOBODY]
    made = machine((2, EDITOR))
    made.handle(Ask(QUESTION, 300.0), 0.0)
    assert list(ids(made.handle(Attached(4, LINK), 2.0))) == [4]


def test_a_question_that_nobody_answers_in_time_is_dismissed() -> None:
    made = machine((1, LINK))
    made.handle(Ask(QUESTION, 300.0), 0.0)
    made.handle(Ask(PLAN, 300.0), 0.0)
    assert outcomes(made.handle(TimerFired("call_q"), 300.0)) == [
        QuestionOutcome(outcome="dismissed")
    ]
    assert outcomes(made.handle(TimerFired("call_p"), 300.0)) == [PlanOutcome(outcome="dismissed")]


def test_a_cancelled_turn_takes_every_kind_down() -> None:
    made = machine((1, VIEWER))
    for request in (QUESTION, PLAN, SHOW):
        made.handle(Ask(request, 300.0), 0.0)
    assert outcomes(made.handle(Cancelled(), 1.0)) == [
        QuestionOutcome(outcome="cancelled"),
        PlanOutcome(outcome="cancelled"),
        ShowOutcome(outcome="cancelled"),
    ]


@pytest.mark.spec("versions: a client that knows no question is one of protocol 1")
def test_who_knows_no_question_is_asked_none_any_more() -> None:
    made = machine((1, VIEWER))
    asked = ids(made.handle(Ask(QUESTION, 300.0), 0.0))[1]
    made.handle(Ask(PLAN, 300.0), 0.0)
    made.handle(Ask(SHOW, 300.0), 0.0)
    effects = made.handle(Replied(1, asked, b"", UNKNOWN), 1.0)
    assert effects[0] == Outdated(1)
    assert outcomes(effects) == [PlanOutcome(outcome="nobody"), NOBODY]
    assert outcomes(made.handle(Ask(QUESTION, 300.0), 0.0)) == [NOBODY]
    assert made.handle(Lowered(1), 2.0) == []
    assert made.handle(Lowered(9), 2.0) == []


def test_a_card_goes_on_elsewhere_when_one_client_does_not_know_it() -> None:
    made = machine((1, LINK), (2, HERE))
    asked = ids(made.handle(Ask(QUESTION, 300.0), 0.0))
    assert made.handle(Replied(1, asked[1], b"", UNKNOWN), 1.0) == [Outdated(1)]
    assert outcomes(reply(made, 2, asked[2], ANSWERED)) == [
        QuestionOutcome(outcome="answered", answers=[Skipped()])
    ]


def test_a_card_waits_for_the_link_when_a_client_here_does_not_know_it() -> None:
    made = machine((2, HERE))
    made.handle(Ask(QUESTION, 300.0), 0.0)
    assert made.handle(Lowered(2), 1.0) == []
    assert list(ids(made.handle(Attached(4, LINK), 2.0))) == [4]


def test_who_was_found_out_in_another_session_is_asked_no_question_in_this_one() -> None:
    made = machine((1, LINK))
    made.handle(Ask(CARD, 300.0), 0.0)
    made.handle(Ask(QUESTION, 300.0), 0.0)
    assert outcomes(made.handle(Lowered(1), 1.0)) == [NOBODY]
    assert [one.kind for one in made.waiting] == ["permission"]


def test_an_error_to_a_question_is_no_answer_and_the_last_one_ends_it() -> None:
    made = machine((1, LINK), (2, HERE))
    asked = ids(made.handle(Ask(QUESTION, 300.0), 0.0))
    assert made.handle(Replied(2, asked[2], b"", -32603), 1.0) == []
    assert outcomes(made.handle(Replied(1, asked[1], b"", -32603), 1.0)) == [
        QuestionOutcome(outcome="dismissed")
    ]


def test_a_plan_approved_in_a_mode_that_the_link_may_not_choose_decides_nothing() -> None:
    made = machine((1, LINK), (2, HERE))
    asked = ids(made.handle(Ask(PLAN, 300.0), 0.0))
    approve = b'{"outcome":"approve","mode":"manual"}'
    made.handle(Replied(1, asked[1], approve), 1.0)
    assert made.handle(Judged(asked[1], "", "plan"), 1.0) == []
    assert outcomes(made.handle(Replied(2, asked[2], approve), 2.0)) == [
        PlanOutcome(outcome="approve", mode="manual")
    ]


def test_a_plan_that_nobody_else_may_approve_is_dismissed_then() -> None:
    made = machine((1, LINK))
    asked = ids(made.handle(Ask(PLAN, 300.0), 0.0))
    made.handle(Replied(1, asked[1], b'{"outcome":"approve","mode":"edit"}'), 1.0)
    effects = made.handle(Judged(asked[1], "", "plan"), 1.0)
    assert outcomes(effects) == [PlanOutcome(outcome="dismissed")]


def test_a_file_is_no_card() -> None:
    made = machine((1, VIEWER), (2, HERE))
    sent, timer = made.handle(Ask(SHOW, 60.0), 0.0)
    assert isinstance(sent, Send)
    assert sent.card == ""
    assert timer == SetTimer("call_s", 60.0)
    assert made.waiting == []
    asked = ids([sent])[1]
    assert made.handle(Replied(1, asked, b'{"shown":true}'), 1.0) == [
        CancelTimer("call_s"),
        Decided("call_s", ShowOutcome(outcome="shown")),
    ]


def test_a_file_that_is_not_shown_says_why() -> None:
    made = machine((1, VIEWER))
    for answer in ("silence", "unknown", "nobody", "large"):
        request = SHOW
        if answer == "large":
            request = msgspec.structs.replace(SHOW, text="a" * (MAX_SHOWN_BYTES + 1))
        if answer == "nobody":
            made.handle(Detached(1), 1.0)
        effects = made.handle(Ask(request, 60.0), 0.0)
        if answer == "silence":
            effects = made.handle(TimerFired("call_s"), 60.0)
        if answer == "unknown":
            effects = made.handle(Replied(1, ids(effects)[1], b"", UNKNOWN), 1.0)
        (outcome,) = outcomes(effects)
        assert isinstance(outcome, ShowOutcome)
        assert (outcome.outcome, bool(outcome.reason)) == (
            ("nobody", False) if answer == "nobody" else ("refused", True)
        )


def test_too_many_questions_are_a_fault() -> None:
    with pytest.raises(ValueError, match="at once"):
        machine((1, LINK)).handle(Ask(QuestionRequest(tool_call_id="c", questions=[]), None), 0.0)
