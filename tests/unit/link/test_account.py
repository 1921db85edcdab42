"""What the device makes of the account's models, money, texts and refusals."""

from typing import Any

import pytest

from lembasd.link.core import model_kinds, money, personalization, refusal_words
from lembasd.protocol.http_api import Personalization

LISTED = {
    "data": [
        {"id": "voice", "kind": "tts"},
        {"id": "embed", "kind": "embedding"},
        {"id": "plain"},
        {"id": "big", "kind": "chat", "context": 1000},
        {"id": "big", "kind": "chat", "context": 2000},
        {"id": "embed-2", "kind": "embedding"},
        {"id": "odd", "kind": 7},
        {"id": ""},
        {"id": 7},
        "text",
        {},
    ]
}


def test_models_for_chats_are_those_of_that_kind_or_of_none() -> None:
    assert model_kinds.for_chat(LISTED) == [
        {"id": "plain"},
        {"id": "big", "kind": "chat", "context": 2000},
    ]


@pytest.mark.parametrize("listed", [None, [], "x", {}, {"data": None}, {"data": {"id": "x"}}])
def test_what_is_no_list_holds_no_models(listed: Any) -> None:
    assert not model_kinds.is_list(listed)
    assert model_kinds.for_chat(listed) == []
    assert model_kinds.embedding(listed, "home") is None


def test_the_embedding_setting_is_the_first_embedding_model_below_the_connection() -> None:
    assert model_kinds.embedding(LISTED, "home") == "home/embed"
    assert model_kinds.embedding(LISTED, None) == "embed"
    assert model_kinds.embedding({"data": [{"id": "plain"}]}, "home") is None


@pytest.mark.parametrize(
    ("ref", "connection", "served"),
    [
        (None, "home", None),
        ("big", "home", "big"),
        ("home/big", "home", "big"),
        ("home/big", "work", "home/big"),
        ("home/big", None, "home/big"),
        ("home/gone", "home", "home/gone"),
    ],
)
def test_the_older_form_of_a_models_name_still_names_it(
    ref: str | None, connection: str | None, served: str | None
) -> None:
    assert model_kinds.served(ref, LISTED, connection) == served


@pytest.mark.parametrize(
    ("currency", "value", "shown"),
    [
        ("EUR", 2, "€2.00"),
        ("USD", 0.75, "$0.75"),
        ("USD", 1234.5, "$1,234.50"),
        ("USD", 0.0004, "$0.0004"),
        ("USD", 1e-9, "$1e-09"),
        ("USD", 0.0, "$0.00"),
        ("USD", -1.5, "-$1.50"),
        ("JPY", 120.4, "¥120"),
        ("CHF", 2.5, "CHF 2.50"),
        ("\x1b[2J" * 9, 1, "[2J [2J… 1.00"),
    ],
)
def test_an_amount_is_shown_in_its_currency(currency: str, value: float, shown: str) -> None:
    assert money.amount(currency, value) == shown


def test_amounts_of_two_currencies_stand_beside_each_other() -> None:
    assert money.amounts({"USD": 0.75, "EUR": 2.0}) == "€2.00 · $0.75"
    assert money.amounts({}) == ""


LOCAL: dict[str, str | None] = {"personality": "mine", "instructions": ""}
ACCOUNT = Personalization(enabled=True, available=True, personality="theirs", instructions="")


@pytest.mark.parametrize(
    ("account", "personality"),
    [
        (None, "mine"),
        (Personalization(enabled=True, available=False, personality="theirs"), "mine"),
        (ACCOUNT, "theirs"),
        (Personalization(enabled=False, available=True, personality="theirs"), None),
    ],
)
def test_the_account_counts_where_it_is_available_and_nothing_where_it_is_off(
    account: Personalization | None, personality: str | None
) -> None:
    assert personalization.effective(account, LOCAL) == {
        "personality": personality,
        "personality_custom": None,
        "instructions": None,
    }
    assert personalization.has_account(account) is (personality != "mine")


def test_a_change_names_its_one_field_and_that_it_is_to_count() -> None:
    assert personalization.change("instructions", "be brief") == {
        "instructions": "be brief",
        "enabled": True,
    }
    assert personalization.change("personality", None) == {"personality": "", "enabled": True}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"detail": "not a device"}', "not a device"),
        (b'{"detail": [{"loc": ["x"], "msg": "must be text"}]}', "must be text"),
        (b'{"detail": []}', ""),
        (b'{"detail": ["x"]}', ""),
        (b'{"detail": 7}', ""),
        (b'{"error": {"message": "no scope"}}', "no scope"),
        (b'{"error": "no"}', ""),
        (b'["x"]', ""),
        (b"<html>", ""),
        (b"[" * 50_000, ""),
        (b'{"detail": "\\u001b[2Jx"}', "[2Jx"),
    ],
)
def test_the_servers_reason_is_found_wherever_it_puts_it(body: bytes, said: str) -> None:
    assert refusal_words.detail(body) == said
