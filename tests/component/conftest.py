"""What the component tests of the engine begin with."""

from pathlib import Path

import pytest

from tests.support.recorder_host import RecorderHost
from tests.support.scripted_model import ScriptedModel


@pytest.fixture
def host(short_tmp: Path, model: ScriptedModel) -> RecorderHost:
    """A host whose project is empty and whose server is the scripted model."""
    root = (short_tmp / "project").resolve()
    root.mkdir()
    return RecorderHost(root, model.base_url)
