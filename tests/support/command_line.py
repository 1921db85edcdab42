"""Runs a command line of ours in this process, as its console script does."""

import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lembasd.cli import person, service
from lembasd.device.paths import Paths


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        """What `--json` printed."""
        return msgspec.json.decode(self.out)

    @property
    def values(self) -> list[Any]:
        """The same where it is one object a line."""
        return [msgspec.json.decode(line) for line in self.out.splitlines()]


class CommandLine:
    """`lembas` and `lembasd` with a scratch LEMBAS_HOME."""

    def __init__(
        self, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.paths = Paths(config=home / "config", state=home / "state", run=home / "run")
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        monkeypatch.setenv("LEMBAS_HOME", str(home))

    def lembas(self, *args: str, stdin: bytes = b"") -> Done:
        self._monkeypatch.setattr("sys.argv", ["lembas", *args])
        self._monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        return self._done(person.main())

    def lembasd(self, *args: str) -> Done:
        self._monkeypatch.setattr("sys.argv", ["lembasd", *args])
        return self._done(service.main())

    def said(self) -> str:
        """What was printed since."""
        sys.stdout.flush()
        return self._capsys.readouterr().out

    def _done(self, code: int) -> Done:
        sys.stdout.flush()
        said = self._capsys.readouterr()
        return Done(code, said.out, said.err)
