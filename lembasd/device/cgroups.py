"""A control group for each worker: what its tools start is born in it, and ends with it, whatever it does to get away.

Only where systemd has delegated a group of cgroup v2 to the service (`Delegate=yes` of the unit). Everywhere else, and
with LEMBASD_PORTABLE=1, `find` gives none, and tools are found by the process tree and their marker alone.

The groups lie in `<the service's group>/lembas-<install>/<session>.<pid of its worker>`: hubs of two installs that share
a service's group (one of them started in a terminal of the other) never touch each other's. The hub, zygotes and
terminals stay in the service's own group.
"""

import hashlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from lembasd.device import process_tree
from lembasd.device.paths import Paths
from lembasd.protocol.ids import is_session_id

#: how long the processes of a killed group may take to be gone; the next sweep tries to remove it again
GONE_S: Final = 2.0
#: how systemd marks a group that its unit may divide: for a person's services, for the system's
_MARKS: Final = ("user.delegate", "trusted.delegate")
_INSTALL_CHARS: Final = 12
_FIRST_WAIT_S: Final = 0.0005
_LONGEST_WAIT_S: Final = 0.02


class Group(Struct, frozen=True, order=True):
    """The group of one worker."""

    session_id: str
    pid: int

    @property
    def name(self) -> str:
        return f"{self.session_id}.{self.pid}"


class Groups:
    """Those of one install. Its methods block for at most about GONE_S; they never raise."""

    def __init__(self, base: Path, gone_s: float = GONE_S) -> None:
        self._base = base
        self._gone_s = gone_s

    def enter(self, session_id: str) -> None:
        """Have this process, and all that it starts from now on, be in a group of its own; as it is where that fails."""
        path = self._path(Group(session_id, os.getpid()))
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            # 0 is whoever writes it
            (path / "cgroup.procs").write_text("0", encoding="ascii")
        except OSError:
            with suppress(OSError):
                path.rmdir()

    def close(self) -> None:
        """Nobody of ours is there any more: take the directory of the groups away, if none is left."""
        with suppress(OSError):
            self._base.rmdir()

    def found(self) -> list[Group]:
        """The groups that are there, in the order of their sessions."""
        try:
            names = [one.name for one in self._base.iterdir()]
        except OSError:
            return []
        return sorted(group for name in names if (group := _read(name)) is not None)

    def left(self) -> list[Group]:
        """The groups whose worker is gone."""
        return [one for one in self.found() if process_tree.is_gone(one.pid)]

    def members(self, group: Group) -> list[int]:
        """The pids in a group, those in groups below it too."""
        return sorted(pid for path in _tree(self._path(group)) for pid in _pids(path))

    def end_worker(self, pid: int) -> list[int]:
        """A worker is gone: end what is left in its group. As `end`."""
        return [one for group in self.found() if group.pid == pid for one in self.end(group)]

    def end(self, group: Group) -> list[int]:
        """Kill what is in a group at one stroke, and remove it; which pids were in it."""
        path = self._path(group)
        pids = self.members(group)
        waited, step = 0.0, _FIRST_WAIT_S
        _kill(path)
        while not _remove(path) and waited < self._gone_s:
            time.sleep(step)
            waited += step
            step = min(step * 2, _LONGEST_WAIT_S)
        return pids

    def _path(self, group: Group) -> Path:
        return self._base / group.name


def own_group() -> Path | None:
    """The directory of the group of cgroup v2 that this process is in; None where there is no cgroup v2."""
    root, own = _mounted(), _group_of("self")
    return None if root is None or own is None else root / own.lstrip("/")


def find(paths: Paths, own: Path | None = None) -> Groups | None:
    """The groups of this install; None where no group is delegated to this process.

    `own`: the directory of the group of this process; looked up when left out.
    """
    if process_tree.is_portable():
        return None
    own = own_group() if own is None else own
    if own is None or not _is_delegated(own):
        return None
    return Groups(own / base_name(paths))


def worker_of(paths: Paths, pid: int) -> int | None:
    """In which worker's group of this install the process is: the worker's pid, which may be its own; None: in none."""
    parts = (_group_of(str(pid)) or "").split("/")
    base = base_name(paths)
    if base not in parts[:-1]:
        return None
    found = _read(parts[parts.index(base) + 1])
    return None if found is None else found.pid


def base_name(paths: Paths) -> str:
    """What the directory is called that holds the groups of this install."""
    install = hashlib.sha256(os.fsencode(paths.state)).hexdigest()
    return f"lembas-{install[:_INSTALL_CHARS]}"


def _read(name: str) -> Group | None:
    session_id, _, pid = name.rpartition(".")
    return Group(session_id, int(pid)) if is_session_id(session_id) and pid.isdigit() else None


def _is_delegated(group: Path) -> bool:
    if sys.platform != "linux" or not os.access(group, os.W_OK | os.X_OK):
        return False
    for mark in _MARKS:
        with suppress(OSError):
            return os.getxattr(group, mark) == b"1"
    return False


def _mounted() -> Path | None:
    """Where cgroup v2 is mounted (proc_pid_mountinfo(5): what follows the dash is the type)."""
    with suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
            place, _, kind = line.partition(" - ")
            if kind.startswith("cgroup2 "):
                return Path(place.split()[4])
    return None


def _group_of(process: str) -> str | None:
    """The group of a process in the hierarchy of cgroup v2 (cgroups(7)): `0::/user.slice/…`."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/cgroup").read_text(encoding="utf-8").splitlines():
            if line.startswith("0::"):
                return line.removeprefix("0::")
    return None


def _tree(path: Path) -> Iterator[Path]:
    """A group and those below it, each after what is below it: a program in it may have made some."""
    with suppress(OSError):
        for one in list(path.iterdir()):
            if one.is_dir() and not one.is_symlink():
                yield from _tree(one)
        yield path


def _pids(path: Path) -> list[int]:
    with suppress(OSError):
        return [*map(int, (path / "cgroup.procs").read_text(encoding="ascii").split())]
    return []


def _kill(path: Path) -> None:
    """Kill all that is in the group at once: no fork gets between. Before Linux 5.14 there is no such file."""
    try:
        handle = os.open(path / "cgroup.kill", os.O_WRONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        process_tree.end_tree_blocking([pid for one in _tree(path) for pid in _pids(one)])
        return
    except OSError:
        return
    try:
        os.write(handle, b"1")
    except OSError:
        pass  # removed meanwhile
    finally:
        os.close(handle)


def _remove(path: Path) -> bool:
    """Remove the empty groups; whether none is left."""
    for one in _tree(path):
        try:
            one.rmdir()
        except FileNotFoundError:
            pass
        except OSError:  # something in it is not gone yet
            return False
    return True
