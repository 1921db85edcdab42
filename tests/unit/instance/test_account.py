"""What the pocket instance keeps of its account: the month's use, and the personalization."""

import msgspec
import pytest

from lembasd.engine.native.core.levels import Price
from lembasd.instance.core import account, use
from lembasd.instance.core.account import MAX_CHARS, Account, NotTaken
from lembasd.instance.core.meter import MAX_WHOLE_BYTES, Meter, Taken
from lembasd.instance.core.use import MAX_CURRENCIES, MAX_DEVICES, Use

EVENTS = "text/event-stream; charset=utf-8"
PRICE = Price("EUR", input=1.0, output=2.0, cached=0.5)


def metered(content_type: str, *pieces: bytes, price: Price | None = None) -> Taken | None:
    meter = Meter(content_type)
    for piece in pieces:
        meter.feed(piece)
    return meter.taken(price)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", b'{"usage": {"prompt_tokens": 7, "completion_tokens": 3}}'),
        (
            EVENTS,
            (
                b'data: {"usage": {"prompt_tokens": 1, "completion_tokens": 1}}\n\n'
                b'data: {"choices": [], "usage": null}\n\n'
                b'data: {"usage": {"prompt_tokens": 7, "completion_tokens": 3}}\n\ndata: [DONE]\n\n'
            ),
        ),
    ],
)
def test_the_servers_last_count_is_taken_however_its_answer_is_cut(
    content_type: str, body: bytes
) -> None:
    whole = metered(content_type, body)
    in_bytes = metered(content_type, *(body[at : at + 1] for at in range(len(body))))
    assert whole == in_bytes == Taken(7, 3)


@pytest.mark.parametrize(
    ("usage", "price", "cost"),
    [
        ('{"prompt_tokens": 4000000, "completion_tokens": 1000000}', PRICE, (6.0, "EUR")),
        (
            '{"prompt_tokens": 4000000, "prompt_tokens_details": {"cached_tokens": 2000000}}',
            PRICE,
            (3.0, "EUR"),
        ),
        ('{"prompt_tokens": 4, "cost": 0.25}', PRICE, (0.25, "USD")),
        ('{"prompt_tokens": 4, "cost": true}', None, None),
        ('{"prompt_tokens": 4, "cost": -1}', None, None),
        ('{"prompt_tokens": 4}', None, None),
    ],
)
def test_the_cost_is_the_servers_word_or_by_the_price_of_the_model(
    usage: str, price: Price | None, cost: tuple[float, str] | None
) -> None:
    taken = metered("application/json", f'{{"usage": {usage}}}'.encode(), price=price)
    assert taken is not None
    assert taken.cost == cost


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"usage": 7}', b'{"usage": null}', b"{}"])
@pytest.mark.parametrize("content_type", ["", EVENTS])
def test_an_answer_that_counts_nothing_took_nothing_that_is_known(
    content_type: str, body: bytes
) -> None:
    assert metered(content_type, body) is None
    assert metered(EVENTS, b"data: " + body + b"\n\n") is None


def test_an_odd_count_is_none() -> None:
    body = b'{"usage": {"prompt_tokens": "7", "completion_tokens": -3, "x": true}}'
    assert metered("", body) == Taken(0, 0)


@pytest.mark.parametrize("content_type", ["", EVENTS])
def test_an_answer_without_end_is_passed_and_not_counted(content_type: str) -> None:
    meter = Meter(content_type)
    meter.feed(b"x" * (MAX_WHOLE_BYTES + 1))
    meter.feed(b'{"usage": {"prompt_tokens": 7}}\n\n')
    assert meter.taken(None) is None


def test_a_month_is_counted_by_device_and_currency_and_no_two_are_added() -> None:
    counted = Use()
    counted.add("2026-11", "a", Taken(10, 5, (2.0, "EUR")))
    assert counted.shown("2026-11", "a") == {
        "month": {
            "from": "2026-11-01T00:00:00Z",
            "tokens_in": 10,
            "tokens_out": 5,
            "cost_money": 2.0,
            "cost_by_currency": {"EUR": 2.0},
            "cost": None,
        },
        "device": {"tokens_in": 10, "tokens_out": 5, "cost": None, "cost_money": None},
        "currency": "EUR",
        "admin": True,
        "unit": "money",
        "plan": None,
        "balance": None,
        "balance_money": None,
        "windows": [],
    }
    counted.add("2026-11", "b", Taken(1, 1, (0.75, "USD")))
    counted.add("2026-11", "b", Taken(1, 1))
    said = counted.shown("2026-11", "b")
    assert said["month"]["cost_by_currency"] == {"EUR": 2.0, "USD": 0.75}
    assert (said["month"]["cost_money"], said["currency"]) == (None, None)
    assert (said["month"]["tokens_in"], said["device"]["tokens_in"]) == (12, 2)
    assert counted.shown("2026-11", "c")["device"]["tokens_in"] == 0


def test_a_new_month_begins_from_nothing() -> None:
    counted = Use()
    counted.add("2026-11", "a", Taken(10, 5, (2.0, "EUR")))
    month = counted.shown("2026-12", "a")["month"]
    assert (month["from"], month["tokens_in"]) == ("2026-12-01T00:00:00Z", 0)
    assert month["cost_by_currency"] == {}


def test_what_was_counted_is_read_again_as_it_was_written() -> None:
    counted = Use()
    counted.add("2026-11", "a", Taken(10, 5, (2.0, "EUR")))
    again = use.decode(counted.encode())
    assert again.shown("2026-11", "a") == counted.shown("2026-11", "a")
    with pytest.raises(msgspec.MsgspecError):
        use.decode(b"{")


def test_devices_and_currencies_are_bounded_and_the_month_stays_whole() -> None:
    counted = Use()
    for number in range(MAX_DEVICES + 1):
        counted.add("2026-11", f"d{number}", Taken(1, 0, (1.0, f"C{number}")))
    month = counted.shown("2026-11", "d0")["month"]
    assert month["tokens_in"] == MAX_DEVICES + 1
    assert counted.shown("2026-11", "d0")["device"]["tokens_in"] == 0
    assert counted.shown("2026-11", "d1")["device"]["tokens_in"] == 1
    assert len(month["cost_by_currency"]) == MAX_CURRENCIES


def test_a_change_of_one_field_leaves_the_others() -> None:
    was = Account(enabled=True, personality="friendly", instructions="be brief")
    now = was.changed({"personality": "", "enabled": True, "available": False, "other": 7})
    assert now == Account(enabled=True, personality="", instructions="be brief")
    assert now.shown() == {
        "enabled": True,
        "available": True,
        "personality": "",
        "personality_custom": "",
        "instructions": "be brief",
    }
    assert account.decode(now.encode()) == now


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"enabled": "yes"}, "enabled must be true or false"),
        ({"enabled": 1}, "enabled must be true or false"),
        ({"instructions": None}, "instructions must be a text"),
        ({"personality": ["x"]}, "personality must be a text"),
        ({"instructions": "x" * (MAX_CHARS + 1)}, "instructions has at most 20000 characters"),
    ],
)
def test_a_field_of_another_kind_is_refused_whole(fields: dict[str, object], said: str) -> None:
    with pytest.raises(NotTaken, match=said):
        Account().changed({"personality_custom": "kept out", **fields})
