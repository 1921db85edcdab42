"""Deletions that wait for their device: until it answers, and not for ever."""

import msgspec
import pytest

from lembasd.instance.core.deletions import (
    MAX_REFUSALS,
    MAX_WAITING,
    Deletion,
    Deletions,
    decode,
)


def test_a_deletion_waits_for_its_own_device_until_it_is_answered() -> None:
    deletions = Deletions()
    one = deletions.add("ses_a", "dev_1")
    other = deletions.add("ses_b", "dev_2")
    assert (deletions.of("dev_1"), deletions.of("dev_2"), deletions.of("dev_3")) == (
        [one],
        [other],
        [],
    )
    deletions.done("ses_a")
    deletions.done("ses_a")
    assert (deletions.waits("ses_a"), deletions.waits("ses_b")) == (False, True)


def test_five_refusals_end_a_deletion() -> None:
    deletions = Deletions()
    deletion = deletions.add("ses_a", "dev")
    ends = [deletions.refused(deletion) for _ in range(MAX_REFUSALS)]
    assert ends == [False, False, False, False, True]
    assert not deletions.waits("ses_a")


def test_a_session_that_is_deleted_twice_is_one_deletion() -> None:
    deletions = Deletions()
    deletions.refused(deletions.add("ses_a", "dev"))
    assert deletions.add("ses_a", "dev") == Deletion("ses_a", "dev", refusals=1)


def test_the_oldest_gives_way_where_too_many_wait() -> None:
    deletions = Deletions()
    for number in range(MAX_WAITING + 1):
        deletions.add(f"ses_{number}", "dev")
    assert (deletions.waits("ses_0"), deletions.waits("ses_1")) == (False, True)
    assert len(deletions.of("dev")) == MAX_WAITING


def test_what_waits_outlives_the_instance() -> None:
    deletions = Deletions()
    deletions.refused(deletions.add("ses_a", "dev"))
    assert decode(deletions.encode()).of("dev") == [Deletion("ses_a", "dev", refusals=1)]
    with pytest.raises(msgspec.MsgspecError):
        decode(b"{}")
