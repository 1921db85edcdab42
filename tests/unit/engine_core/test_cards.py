"""What the card machine decides, input by input."""

import msgspec
import pytest

from lembasd.engine.api import CardRequest, Decision
from lembasd.engine.core import cards
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
    Replied,
    SetTimer,
    Settle,
    Show,
    TimerFired,
)
from lembasd.protocol.control import CardInfo

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


def machine(*clients: tuple[int, bool]) -> Cards:
    made = Cards(SESSION, 2)
    for client, local in clients:
        made.handle(Attached(client, local), 0.0)
    return made


def ids(effects: list[cards.Effect]) -> dict[int, str]:
    return {
        effect.client: msgspec.json.decode(effect.payload)["id"]
        for effect in effects
        if isinstance(effect, Show)
    }


def decisions(effects: list[cards.Effect]) -> list[Decision]:
    return [effect.decision for effect in effects if isinstance(effect, Decided)]


@pytest.mark.spec("card: purpose")
def test_every_client_is_asked_with_an_id_of_its_own_after_the_hub_is_told() -> None:
    effects = machine((1, False), (2, False)).handle(Ask(CARD, 300.0), 10.0)
    assert effects[0] == Announce(CardInfo(id=f"{SESSION}:2:1", tool_call_id="call_1"))
    assert ids(effects) == {1: f"{SESSION}:2:2", 2: f"{SESSION}:2:3"}
    assert effects[-1] == SetTimer("call_1", 310.0)
    shown = effects[1]
    assert isinstance(shown, Show)
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
    shown = machine((1, True)).handle(Ask(bare, None), 0.0)[1]
    assert isinstance(shown, Show)
    params = msgspec.json.decode(shown.payload)["params"]
    assert [one["optionId"] for one in params["options"]] == ["once", "deny"]
    assert params["_meta"] == {"lembas": {"reason": "r", "patient": True}}
    assert "content" not in params["toolCall"]


def test_the_first_answer_decides_and_a_late_one_finds_nothing() -> None:
    made = machine((1, False), (2, False))
    asked = ids(made.handle(Ask(CARD, 300.0), 0.0))
    effects = made.handle(Replied(2, asked[2], ONCE), 1.0)
    assert effects[0] == CancelTimer("call_1")
    assert isinstance(effects[1], Settle)
    assert (effects[1].tool_call_id, effects[1].client) == ("call_1", 2)
    assert decisions(effects) == [Decision(outcome="once")]
    assert made.handle(Replied(1, asked[1], ONCE), 2.0) == []
    assert made.waiting == []


def test_an_error_reply_decides_nothing() -> None:
    made = machine((1, False))
    asked = ids(made.handle(Ask(CARD, None), 0.0))
    assert made.handle(Replied(1, asked[1], b""), 1.0) == []
    assert decisions(made.handle(Replied(1, asked[1], ONCE), 1.0)) == [Decision(outcome="once")]


def test_who_attaches_later_is_asked_what_waits_under_a_new_id() -> None:
    made = machine((1, False))
    made.handle(Ask(CARD, None), 0.0)
    effects = made.handle(Attached(5, False), 1.0)
    assert ids(effects) == {5: f"{SESSION}:2:3"}
    assert made.waiting == [CardInfo(id=f"{SESSION}:2:3", tool_call_id="call_1")]


def test_nobody_answering_is_a_timeout() -> None:
    made = machine()
    made.handle(Ask(CARD, 300.0), 0.0)
    effects = made.handle(TimerFired("call_1"), 300.0)
    assert decisions(effects) == [Decision(outcome="timeout")]
    assert not any(isinstance(one, CancelTimer) for one in effects)
    assert made.handle(TimerFired("call_1"), 301.0) == []


def test_a_card_that_a_person_here_sees_waits_until_that_person_leaves() -> None:
    made = machine((1, True), (2, False))
    assert not any(isinstance(one, SetTimer) for one in made.handle(Ask(CARD, 300.0), 0.0))
    assert made.handle(Detached(2), 1.0) == []
    assert made.handle(Detached(1), 50.0) == [SetTimer("call_1", 350.0)]
    assert made.handle(Detached(1), 60.0) == []


def test_a_card_without_a_time_waits_when_the_hub_is_gone() -> None:
    made = machine((1, True))
    asked = ids(made.handle(Ask(CARD, None), 0.0))
    assert made.handle(AllDetached(), 1.0) == []
    assert made.handle(Replied(1, asked[1], ONCE), 2.0) == []
    assert len(made.waiting) == 1


def test_a_cancelled_turn_takes_its_cards_down() -> None:
    made = machine()
    made.handle(Ask(CARD, None), 0.0)
    assert made.handle(Cancelled("another"), 1.0) == []
    assert decisions(made.handle(Cancelled(), 1.0)) == [Decision(outcome="cancelled")]


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
    assert cards.read_answer(result, always=True) == decision


def test_allowing_for_the_session_where_it_was_not_offered_is_a_denial() -> None:
    result = b'{"outcome":{"outcome":"selected","optionId":"session"}}'
    assert cards.read_answer(result, always=False) == Decision(outcome="deny")
