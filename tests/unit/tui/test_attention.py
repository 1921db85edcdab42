"""When a card may have the keys."""

from lembasd.tui.core import attention


def test_a_card_has_the_keys_only_when_nobody_types() -> None:
    assert attention.may_take_keys(typed="", quiet_s=1.0)
    assert not attention.may_take_keys(typed="half a se", quiet_s=60.0)
    assert not attention.may_take_keys(typed="", quiet_s=0.2)


def test_a_key_answers_a_card_that_could_be_seen() -> None:
    assert attention.counts(shown_s=0.5)
    assert not attention.counts(shown_s=0.1)
