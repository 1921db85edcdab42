"""For whom a session was opened, whoever comes back."""

import pytest

from lembasd.protocol.control import Attached
from lembasd.worker.core.openers import Openers


def opened(openers: Openers, **fields: object) -> bool:
    return openers.resolved(Attached(client=1, **fields)).opened  # type: ignore[arg-type]


def test_who_the_hub_says_opened_it_has() -> None:
    assert opened(Openers(by_link=False), opened=True)
    assert opened(Openers(by_link=False), opened=True, local=True)


@pytest.mark.parametrize("by_link", [True, False])
def test_a_person_here_who_only_looks_has_not(by_link: bool) -> None:
    openers = Openers(by_link=by_link)
    opened(openers, opened=True)
    assert not opened(openers, local=True)
    assert not opened(openers, local=True, since="1:7")


def test_the_links_client_is_the_same_on_its_next_link() -> None:
    openers = Openers(by_link=False)
    assert not opened(openers)
    opened(openers, opened=True)
    assert opened(openers)
    assert opened(Openers(by_link=True))


def test_a_local_client_that_says_what_it_saw_was_here_before_its_hub_ended() -> None:
    openers = Openers(by_link=False)
    opened(openers, opened=True, local=True)
    assert opened(openers, local=True, since="1:7")
    assert not opened(openers, local=True)
    assert not opened(openers)
