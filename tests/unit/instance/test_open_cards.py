"""Open cards: known by device, session and toolCallId; bounded; taken down once."""

from lembasd.instance.core.open_cards import MAX_CARDS, Card, OpenCards


def card(
    call: str = "call_1", session: str = "ses_a", device: str = "dev", request: bytes = b'"1"'
) -> Card:
    return Card(call, session, device, "title", {}, request)


def test_the_same_call_of_two_sessions_is_two_cards() -> None:
    cards = OpenCards()
    first, second = card(), card(session="ses_b")
    assert [cards.ask(first), cards.ask(second)] == [None, None]
    assert cards.find("call_1") == [first, second]
    assert cards.find("call_1", "ses_b") == [second]


def test_a_card_that_is_asked_again_is_answered_at_its_newer_request() -> None:
    cards = OpenCards()
    cards.ask(card())
    cards.ask(card(request=b'"2"'))
    assert cards.all() == [card(request=b'"2"')]


def test_a_settled_card_is_down_and_stays_down() -> None:
    cards = OpenCards()
    cards.ask(card())
    cards.settle(card().key)
    cards.settle(card().key)
    assert cards.all() == []


def test_a_device_that_went_takes_its_cards_alone() -> None:
    cards = OpenCards()
    cards.ask(card())
    cards.ask(card(device="other"))
    cards.forget("dev")
    assert cards.all() == [card(device="other")]


def test_one_card_too_many_cancels_the_oldest() -> None:
    cards = OpenCards()
    asked = [card(f"call_{number}") for number in range(MAX_CARDS + 1)]
    assert [cards.ask(one) for one in asked] == [None] * MAX_CARDS + [asked[0]]
    assert cards.all() == asked[1:]


def test_options_are_read_from_what_the_device_sent_however_odd() -> None:
    odd = [{"optionId": "once"}, {"name": "no id"}, "text"]
    cards = [
        Card("c", "s", "d", "", {"options": odd}, b"1"),
        Card("c", "s", "d", "", {"options": "none"}, b"1"),
        Card("c", "s", "d", "", {}, b"1"),
    ]
    assert [one.options for one in cards] == [["once"], [], []]


def test_a_card_is_shown_without_its_request_id() -> None:
    assert card().shown() == {
        "tool_call_id": "call_1",
        "session_id": "ses_a",
        "device": "dev",
        "title": "title",
        "params": {},
    }


def test_a_session_that_is_deleted_takes_its_cards_with_it() -> None:
    cards = OpenCards()
    for device, session in (("dev", "ses_a"), ("dev", "ses_b"), ("other", "ses_a")):
        cards.ask(card(device=device, session=session))
    cards.drop("dev", "ses_a")
    assert cards.all() == [card(session="ses_b"), card(device="other")]
