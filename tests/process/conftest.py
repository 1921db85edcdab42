"""A scratch install for each test, on both start paths where the path matters."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.daemon import Install
from tests.support.scripted_model import ScriptedModel


@pytest.fixture(params=["zygote", "portable"])
async def install(
    request: pytest.FixtureRequest, short_tmp: Path, model: ScriptedModel
) -> AsyncIterator[Install]:
    """Logged in to the scripted model, remote work on; on both start paths."""
    async with Install(short_tmp, portable=request.param == "portable") as one:
        one.configure()
        one.log_in(model.base_url)
        yield one


@pytest.fixture
async def zygote_install(short_tmp: Path, model: ScriptedModel) -> AsyncIterator[Install]:
    """The same on the zygote path alone."""
    async with Install(short_tmp) as one:
        one.configure()
        one.log_in(model.base_url)
        yield one
