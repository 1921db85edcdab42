"""Looking at the machine's processes for what belongs to whom."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from lembasd.cli.core.usage import Owner, Seen, tree

#: psutil, where it may: the proportional share of memory is read from /proc alone
_HAS_ROLLUP = sys.platform == "linux"


def owners(status: dict[str, Any]) -> list[Owner]:
    """Everything that a hub's status names, the hub first."""
    found = [Owner("hub", "", status["hub"]["pid"], alone=True)]
    found += [
        Owner("spare" if one["spare"] else "zygote", one["kind"], one["pid"], alone=True)
        for one in status["zygotes"]
    ]
    found += [Owner("utility", "", one["pid"], one["state"]) for one in status["utility"]]
    found += [
        Owner(
            "session",
            one["session_id"],
            one["pid"],
            one["state"],
            one["title"] or one["root"] or "",
            one["pss_bytes"] or 0,
        )
        for one in status["workers"]
    ]
    found += [
        Owner("terminal", one["terminal_id"], one["pid"], one["state"], one["cwd"] or "")
        for one in status["terminals"]
    ]
    return [one for one in found if one.pid]


def look(of: list[Owner]) -> dict[int, Seen]:
    """The processes of these owners now. What may not be read of one is left out, or zero."""
    parents: dict[int, int] = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            parents[process.pid] = process.ppid()
    wanted = {pid for one in of for pid in ([one.pid] if one.alone else tree(one.pid, parents))}
    found = {}
    for pid in wanted:
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            with process.oneshot():
                times = process.cpu_times()
                found[pid] = Seen(
                    started=process.create_time(),
                    parent=parents.get(pid, 0),
                    cpu_s=times.user + times.system,
                    memory_bytes=_memory(process),
                )
    return found


def _memory(process: psutil.Process) -> int:
    """Bytes: the proportional share where it may be read, which it may not of our own processes; else what is resident."""
    if _HAS_ROLLUP:
        with suppress(OSError, ValueError, IndexError):
            rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_bytes()
            return int(rollup.partition(b"\nPss:")[2].split(maxsplit=1)[0]) * 1024
    return int(process.memory_info().rss)
