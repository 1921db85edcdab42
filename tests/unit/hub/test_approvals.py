"""Where cards are shown, and who is told when one is settled."""

from lembasd.hub.core.approvals import MAX_CARDS, Approvals

SESSION = "ses_" + "a" * 26


def test_every_place_but_the_one_that_answered_is_told() -> None:
    approvals = Approvals()
    for client in (3, 1, 2):
        approvals.shown(SESSION, "call1", client)
    approvals.shown(SESSION, "call2", 1)
    assert approvals.settled(SESSION, "call1", by=2) == [1, 3]
    assert approvals.cards(SESSION) == ["call2"]
    assert approvals.settled(SESSION, "call1", by=0) == []


def test_a_client_that_left_is_not_told() -> None:
    approvals = Approvals()
    for client in (1, 3):
        approvals.shown(SESSION, "call1", client)
    approvals.client_left(1)
    assert approvals.settled(SESSION, "call1", by=0) == [3]


def test_the_cards_of_a_session_end_with_it() -> None:
    approvals = Approvals()
    approvals.shown(SESSION, "call1", 1)
    approvals.waiting(SESSION, "call2")
    assert approvals.session_ended(SESSION) == {"call1": [1], "call2": []}
    assert approvals.cards(SESSION) == []


def test_a_flood_of_cards_is_bounded_and_the_oldest_forgotten() -> None:
    approvals = Approvals()
    for number in range(MAX_CARDS + 1):
        approvals.waiting(SESSION, f"call{number}")
    assert len(approvals.cards(SESSION)) == MAX_CARDS
    assert "call0" not in approvals.cards(SESSION)
