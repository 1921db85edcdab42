"""Fixtures every test may use."""

import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.scripted_model import ScriptedModel


@pytest.fixture(
    params=[pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop")], scope="session"
)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


@pytest.fixture
def short_tmp() -> Iterator[Path]:
    """A directory with a short path: a Unix socket's path must fit in 103 bytes."""
    path = Path(tempfile.mkdtemp(prefix="lb", dir="/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    """A model's server that plays what the test scripts."""
    async with ScriptedModel() as scripted:
        yield scripted


# started with `&` by a script, the suite inherits ignored signals and would hand them to every process it starts
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

settings.register_profile("lembasd", deadline=None)
settings.load_profile("lembasd")
