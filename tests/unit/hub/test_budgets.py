"""When too little is left, and when there is enough again."""

import pytest

from lembasd.hub.core.budgets import (
    ENOUGH_DISK_BYTES,
    ENOUGH_DISK_FILES,
    LOW_DISK_BYTES,
    LOW_DISK_FILES,
    Began,
    Budgets,
    Disk,
    Effect,
    Measured,
    Over,
    Used,
)


def disk(free: int, files: int | None = None) -> Measured:
    return Measured(disk=Disk(free, files))


def kinds(effects: list[Effect]) -> list[tuple[type, str]]:
    return [(type(one), one.kind) for one in effects]


def test_a_disk_is_low_under_its_bound_until_there_is_clearly_more() -> None:
    machine = Budgets()
    assert machine.handle(disk(LOW_DISK_BYTES)) == []
    assert machine.handle(disk(LOW_DISK_BYTES - 1)) == [
        Began(
            "disk",
            "hardly any room is left where sessions are kept (127 MiB): no turn begins until some is freed, "
            "what runs goes on",
        )
    ]
    assert machine.low_disk
    assert machine.handle(disk(0)) == []
    assert machine.handle(disk(ENOUGH_DISK_BYTES - 1)) == []
    assert machine.low_disk
    assert machine.handle(disk(ENOUGH_DISK_BYTES)) == [Over("disk")]
    assert not machine.low_disk
    assert machine.handle(disk(ENOUGH_DISK_BYTES)) == []


def test_a_disk_that_can_hold_no_more_files_is_low_too() -> None:
    machine = Budgets()
    much = 10 * ENOUGH_DISK_BYTES
    (began,) = machine.handle(disk(much, LOW_DISK_FILES - 1))
    assert isinstance(began, Began)
    assert "(for 199 files)" in began.text
    assert machine.handle(disk(much, ENOUGH_DISK_FILES - 1)) == []
    assert machine.handle(disk(much, ENOUGH_DISK_FILES)) == [Over("disk")]


def test_what_cannot_be_measured_changes_nothing() -> None:
    machine = Budgets()
    machine.handle(disk(0))
    assert machine.handle(Measured(descriptors=Used(5, -1), terminals=None)) == []
    assert machine.low_disk


@pytest.mark.parametrize("kind", ["descriptors", "terminals"])
def test_most_of_a_bound_is_told_until_clearly_less_is_used(kind: str) -> None:
    machine = Budgets()

    def used(number: int) -> list[tuple[type, str]]:
        share = Used(number, 100)
        if kind == "descriptors":
            return kinds(machine.handle(Measured(descriptors=share)))
        return kinds(machine.handle(Measured(terminals=share)))

    assert used(79) == []
    assert used(80) == [(Began, kind)]
    assert used(100) == used(70) == []
    assert used(69) == [(Over, kind)]
    assert used(69) == []
