"""The hub of a section's tests: one for all of a file, or one of its own for a test that changes the device."""

from collections.abc import AsyncIterator

import pytest

from tests.support.linked_hub import LinkedHub, linked_hub


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/tests/link/" in item.path.as_posix():
            item.add_marker(pytest.mark.process)


@pytest.fixture(scope="module")
async def files_hub() -> AsyncIterator[LinkedHub]:
    async with linked_hub() as hub:
        yield hub


@pytest.fixture
async def hub(files_hub: LinkedHub) -> AsyncIterator[LinkedHub]:
    """Shared by the tests of a file: each has sessions of its own, and leaves link and configuration as they are."""
    files_hub.client.told.clear()
    files_hub.model.replies.clear()
    files_hub.model.requests.clear()
    yield files_hub
    files_hub.judged()


@pytest.fixture
async def own_hub() -> AsyncIterator[LinkedHub]:
    """One that a test may stop, kill and configure."""
    async with linked_hub() as hub:
        yield hub
