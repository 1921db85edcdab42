"""A small disk that can be filled, seen by the processes of one install alone (Linux, where a mount namespace may be had)."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self

#: so that there is twice what the hub wants free before it begins anything
_BYTES: Final = 384 * 1024 * 1024
#: mounts the disk where nobody else sees it, says so, and keeps it until its input ends
_KEEP: Final = 'mount -t tmpfs -o size={bytes},mode=0700 chaos "$0" && echo mounted && exec cat'
_UNSHARE: Final = ("unshare", "--mount", "--propagation", "private")
_MINE: Final = () if os.geteuid() == 0 else ("--user", "--map-root-user")


class Disk:
    """`prefix` is put before a command that is to see it; `root` is where this process finds it."""

    def __init__(self, place: Path, keeper: "subprocess.Popen[bytes]") -> None:
        self._keeper = keeper
        self.root = Path(f"/proc/{keeper.pid}/root{place}")
        self._filler = self.root / "filler"
        user = () if os.geteuid() == 0 else ("--user", "--preserve-credentials")
        self.prefix = ["nsenter", *user, "--mount", f"--target={keeper.pid}", "--"]

    @classmethod
    def mount(cls, place: Path) -> "Disk | None":
        """A disk at `place`, an empty directory. None where it cannot be had."""
        if sys.platform != "linux" or shutil.which("unshare") is None:
            return None
        keeper = subprocess.Popen(
            [*_UNSHARE, *_MINE, "sh", "-c", _KEEP.format(bytes=_BYTES), str(place)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert keeper.stdout is not None
        disk = cls(place, keeper)
        if keeper.stdout.readline() == b"mounted\n" and os.access(disk.root, os.W_OK):
            return disk
        disk.unmount()
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.unmount()

    def fill(self) -> None:
        """Leave no room for anything."""
        with self._filler.open("wb", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    continue

    def free(self) -> None:
        self._filler.unlink()

    def unmount(self) -> None:
        """Let it go; it is gone with the last process that sees it."""
        for end in (self._keeper.stdin, self._keeper.stdout):
            assert end is not None
            end.close()
        self._keeper.wait()
