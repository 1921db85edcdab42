"""A command line with a scratch home."""

from pathlib import Path

import pytest

from tests.support.command_line import CommandLine


@pytest.fixture
def run(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    return CommandLine(short_tmp / "h", monkeypatch, capsys)
