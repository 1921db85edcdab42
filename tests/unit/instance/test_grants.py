"""The device authorization grant: one token for an approved code, a reason for everything else."""

import pytest

from lembasd.instance.core.grants import (
    EXPIRES_S,
    GRACE_S,
    INTERVAL_S,
    MAX_PENDING,
    REMEMBER_S,
    SLOW_DOWN_S,
    Begin,
    Begun,
    Decide,
    Decided,
    Grants,
    IssueToken,
    Login,
    NoSuchLogin,
    Poll,
    Refuse,
    plain_code,
)

POLL = Poll("secret-1", "cli")


def begun(grants: Grants, number: int = 1, now: float = 0.0, *, approve: bool = False) -> None:
    begin = Begin(f"secret-{number}", f"CODE-{number:04}", "cli", approve=approve)
    [effect] = grants.handle(begin, now)
    assert isinstance(effect, Begun)


def error(grants: Grants, now: float, poll: Poll = POLL) -> str:
    [effect] = grants.handle(poll, now)
    assert isinstance(effect, Refuse)
    return effect.error


def test_a_login_begins_with_its_codes_and_their_times() -> None:
    assert Grants().handle(Begin("secret", "BCDF-GHJK", "cli", "link"), 5.0) == [
        Begun("secret", "BCDF-GHJK", EXPIRES_S, INTERVAL_S)
    ]


def test_a_login_that_waits_is_listed_with_what_it_asks_for() -> None:
    grants = Grants()
    grants.handle(Begin("secret", "BCDF-GHJK", "cli", "link models"), 5.0)
    assert grants.pending(5.0) == [
        Login("secret", "BCDF-GHJK", "cli", "models link", 5.0 + EXPIRES_S)
    ]


def test_an_approved_code_gives_one_token() -> None:
    grants = Grants()
    begun(grants)
    assert grants.handle(Decide("code 0001", approve=True), 1.0) == [Decided("CODE-0001")]
    assert grants.handle(POLL, 2.0) == [IssueToken("cli", "models memory link")]
    assert error(grants, 3.0) == "invalid_grant"


def test_a_login_that_is_approved_at_once_waits_for_nobody() -> None:
    grants = Grants()
    begun(grants, approve=True)
    assert grants.pending(0.0) == []
    assert grants.handle(POLL, 0.0) == [IssueToken("cli", "models memory link")]


def test_a_code_that_nobody_decided_on_is_pending() -> None:
    grants = Grants()
    begun(grants)
    assert error(grants, 0.0) == "authorization_pending"
    assert error(grants, INTERVAL_S) == "authorization_pending"


def test_a_poll_a_little_early_is_forgiven() -> None:
    grants = Grants()
    begun(grants)
    error(grants, 0.0)
    assert error(grants, INTERVAL_S - GRACE_S) == "authorization_pending"


def test_each_hasty_poll_makes_the_interval_longer() -> None:
    grants = Grants()
    begun(grants)
    error(grants, 0.0)
    assert error(grants, 0.1) == "slow_down"
    assert error(grants, 0.1 + INTERVAL_S) == "slow_down"
    later = 0.1 + INTERVAL_S + INTERVAL_S + 2 * SLOW_DOWN_S
    assert error(grants, later) == "authorization_pending"


def test_a_denied_code_is_refused_with_access_denied() -> None:
    grants = Grants()
    begun(grants)
    grants.handle(Decide("CODE-0001", approve=False), 1.0)
    assert error(grants, 2.0) == "access_denied"
    assert grants.handle(Decide("CODE-0001", approve=True), 3.0) == [NoSuchLogin()]


def test_an_expired_code_is_refused_even_when_it_was_approved() -> None:
    grants = Grants()
    begun(grants)
    grants.handle(Decide("CODE-0001", approve=True), 1.0)
    assert error(grants, EXPIRES_S) == "expired_token"


def test_an_expired_code_cannot_be_approved() -> None:
    grants = Grants()
    begun(grants)
    assert grants.handle(Decide("CODE-0001", approve=True), EXPIRES_S) == [NoSuchLogin()]


def test_an_expired_code_is_forgotten_in_the_end() -> None:
    grants = Grants()
    begun(grants)
    assert error(grants, EXPIRES_S + REMEMBER_S) == "invalid_grant"


@pytest.mark.parametrize("poll", [Poll("other", "cli"), Poll("secret-1", "another")])
def test_a_code_of_somebody_else_is_unknown(poll: Poll) -> None:
    grants = Grants()
    begun(grants, approve=True)
    assert error(grants, 1.0, poll) == "invalid_grant"


def test_a_login_without_a_client_or_of_another_scope_is_refused() -> None:
    grants = Grants()
    refused = [
        grants.handle(Begin("a", "A", ""), 0.0),
        grants.handle(Begin("b", "B", "cli", "link admin"), 0.0),
    ]
    assert [[getattr(one, "error", None) for one in effects] for effects in refused] == [
        ["invalid_client"],
        ["invalid_scope"],
    ]
    assert grants.pending(0.0) == []


def test_more_logins_than_may_wait_are_refused_until_some_have_ended() -> None:
    grants = Grants()
    for number in range(MAX_PENDING):
        begun(grants, number)
    [refused] = grants.handle(Begin("x", "XXXX-XXXX", "cli"), 1.0)
    assert isinstance(refused, Refuse)
    assert refused.error == "temporarily_unavailable"
    grants.handle(Decide("CODE-0000", approve=False), 1.0)
    begun(grants, MAX_PENDING, 1.0)


def test_logins_that_ended_are_remembered_only_up_to_a_bound() -> None:
    grants = Grants()
    for number in range(MAX_PENDING + 1):
        begun(grants, number)
        grants.handle(Decide(f"CODE-{number:04}", approve=False), 0.0)
    begun(grants, 99)
    assert error(grants, 1.0, Poll("secret-0", "cli")) == "invalid_grant"
    assert error(grants, 1.0, Poll(f"secret-{MAX_PENDING}", "cli")) == "access_denied"


def test_a_code_may_be_typed_in_any_case_with_or_without_its_dash() -> None:
    assert [plain_code(text) for text in ("bcdfghjk", " BCDF ghjk", "bcdf-ghjk")] == [
        "BCDF-GHJK"
    ] * 3


def test_a_decision_is_for_the_login_with_its_code_alone() -> None:
    grants = Grants()
    begun(grants, 1)
    begun(grants, 2)
    grants.handle(Decide("CODE-0002", approve=True), 1.0)
    assert [login.user_code for login in grants.pending(1.0)] == ["CODE-0001"]
