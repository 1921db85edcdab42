"""Clocks that jump, for the processes of one install: a small library that is loaded before the others (Linux, with a compiler)."""

import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Final

_SOURCE: Final = Path(__file__).with_name("clock.c")


class Clock:
    """`environment` is for the processes whose clocks these are."""

    def __init__(self, base: Path) -> None:
        self._file = base / "clock"
        self._library = base / "clock.so"
        self._wall_s = 0
        self._slept_s = 0
        self._write()

    @classmethod
    def make(cls, base: Path) -> "Clock | None":
        """None where it cannot be had."""
        compiler = shutil.which("cc")
        if sys.platform != "linux" or compiler is None:
            return None
        clock = cls(base)
        command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(clock._library), str(_SOURCE)]
        done = subprocess.run([*command, "-ldl"], capture_output=True, check=False)
        return clock if done.returncode == 0 else None

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "CHAOS_CLOCK": str(self._file)}

    def jump(self, seconds: int) -> None:
        """Somebody sets the wall clock."""
        self._wall_s += seconds
        self._write()

    def sleep(self, seconds: int) -> None:
        """The machine sleeps: the wall clock goes on, what counts awake time does not."""
        self._slept_s += seconds
        self.jump(seconds)

    def _write(self) -> None:
        if not self._file.exists():
            self._file.write_bytes(bytes(16))
        with self._file.open("r+b") as file:
            file.write(struct.pack("qq", self._wall_s, self._slept_s))
