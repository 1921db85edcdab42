"""Whatever is counted in whatever order: the month is the sum of its answers, and each currency of its own alone."""

import math

from hypothesis import given
from hypothesis import strategies as st

from lembasd.instance.core.meter import Taken
from lembasd.instance.core.use import Use

_COST = st.none() | st.tuples(st.floats(0, 1e6), st.sampled_from(["EUR", "USD", "CHF"]))
_TAKEN = st.builds(Taken, st.integers(0, 10**6), st.integers(0, 10**6), _COST)


@given(st.lists(st.tuples(st.sampled_from("abc"), _TAKEN), max_size=40))
def test_a_month_is_the_sum_of_its_answers_in_each_currency(
    answers: list[tuple[str, Taken]],
) -> None:
    use = Use()
    for device, taken in answers:
        use.add("2026-11", device, taken)
    said = use.shown("2026-11", "a")
    costs = [taken.cost for _, taken in answers if taken.cost is not None]
    by_currency = said["month"]["cost_by_currency"]
    assert set(by_currency) == {currency for _, currency in costs}
    for currency, amount in by_currency.items():
        assert math.isclose(amount, sum(cost for cost, its in costs if its == currency))
    assert said["month"]["tokens_in"] == sum(taken.tokens_in for _, taken in answers)
    assert said["device"]["tokens_out"] == sum(
        taken.tokens_out for device, taken in answers if device == "a"
    )
    assert (said["month"]["cost_money"] is None) is (len(by_currency) != 1)
