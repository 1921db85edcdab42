"""A mute link is given up in bounded awake time, one that answers never is, whatever the clocks do."""

from hypothesis import given
from hypothesis import strategies as st

from lembasd.link.core.liveness import Dead, Liveness, Opened, Ping, SetTimer, TimerFired

INTERVAL_S = 20.0
TIMEOUT_S = 5.0
#: how late a timer comes, and how long the machine sleeps before it does
_pauses = st.lists(
    st.tuples(st.floats(0, 100), st.one_of(st.just(0.0), st.floats(0, 1e6))),
    min_size=8,
    max_size=40,
)


@given(_pauses, st.booleans())
def test_only_a_mute_link_is_given_up_and_soon(
    pauses: list[tuple[float, float]], answers: bool
) -> None:
    liveness = Liveness(INTERVAL_S, TIMEOUT_S)
    now = slept_s = 0.0
    pings = 0
    effects = liveness.handle(Opened(), now)
    for late_s, sleep_s in pauses:
        (due,) = [one.at for one in effects if isinstance(one, SetTimer)]
        now, slept_s = due + late_s, slept_s + sleep_s
        effects = liveness.handle(TimerFired(slept_s), now)
        if any(isinstance(one, Dead) for one in effects):
            assert not answers
            assert 1 <= pings <= 2
            return
        if Ping() in effects:
            pings += 1
            if answers:
                liveness.heard()
    assert answers
