"""Whoever is shown a card and did not answer it is told when it is settled, once."""

from hypothesis import given
from hypothesis import strategies as st

from lembasd.hub.core.approvals import Approvals

SESSIONS = st.sampled_from(["ses_a", "ses_b"])
CARDS = st.sampled_from(["call1", "call2"])
CLIENTS = st.integers(1, 4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("shown"), SESSIONS, CARDS, CLIENTS),
        st.tuples(st.just("settled"), SESSIONS, CARDS, st.integers(0, 4)),
        st.tuples(st.just("left"), SESSIONS, CARDS, CLIENTS),
        st.tuples(st.just("ended"), SESSIONS, CARDS, CLIENTS),
    ),
    max_size=60,
)


@given(STEPS)
def test_every_other_place_is_told_exactly_once(
    steps: list[tuple[str, str, str, int]],
) -> None:
    approvals = Approvals()
    shown: set[tuple[str, str, int]] = set()
    for step, session, card, client in steps:
        if step == "shown":
            approvals.shown(session, card, client)
            shown.add((session, card, client))
        elif step == "settled":
            due = {c for s, k, c in shown if (s, k) == (session, card)} - {client}
            assert approvals.settled(session, card, client) == sorted(due)
            shown = {one for one in shown if one[:2] != (session, card)}
        elif step == "left":
            approvals.client_left(client)
            shown = {one for one in shown if one[2] != client}
        else:
            told = approvals.session_ended(session)
            ended = {(k, c) for s, k, c in shown if s == session}
            assert {(k, c) for k, clients in told.items() for c in clients} == ended
            shown = {one for one in shown if one[0] != session}
