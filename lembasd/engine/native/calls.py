"""One tool call, from judging it to its outcome."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from lembasd.engine.api import Host
from lembasd.engine.native.judging import Denied, Judging, Unfit, title
from lembasd.engine.native.tools.bash import Commands
from lembasd.engine.native.tools.edit import edit
from lembasd.engine.native.tools.list import list_directory
from lembasd.engine.native.tools.outcome import Outcome, Unusable, shown
from lembasd.engine.native.tools.read import read
from lembasd.engine.native.tools.recall import recall
from lembasd.engine.native.tools.write import write
from lembasd.protocol.control import Mode
from lembasd.store.records import Call

__all__ = ["Calls", "Denied", "Unfit"]

_FILE_TOOLS: Final = {"read": read, "write": write, "edit": edit}


class Calls:
    """Judges and runs calls."""

    def __init__(self, host: Host, epoch: int) -> None:
        self._host = host
        self._judging = Judging(host)
        self._commands = Commands(host.session_id, epoch, host.root)

    def title(self, call: Call) -> str:
        """What a call is shown as."""
        return title(call)

    async def judge(self, call: Call, mode: Mode) -> Denied | Unfit | dict[str, Any]:
        """The arguments to run with, after asking where the person must say; or why not."""
        return await self._judging.judge(call, mode)

    async def run(self, call: Call, args: dict[str, Any], started: Callable[[], None]) -> Outcome:
        """Run a call that was judged; `started` is called when its effect begins. Cancel ends what it started."""
        if call.name == "bash":
            return await self._commands.run(args, started)
        started()
        if call.name == "recall":
            return await recall(self._host, args)
        # a write is not given up in its middle: the thread runs to its end
        return await asyncio.shield(asyncio.to_thread(self._file_tool, call, args))

    def _file_tool(self, call: Call, args: dict[str, Any]) -> Outcome:
        name, judged = call.name, self._judging.led(call.id)
        try:
            # judged again: what the path led to may have changed since the person said yes
            facts = self._judging.facts(name, args)
            if facts != judged:
                return Outcome(f"{args.get('path')} leads elsewhere now; try again", is_error=True)
            path = Path(facts[0].path)
            if name == "list":
                return list_directory(path, shown(path, self._host.root), self._host.protected)
            return _FILE_TOOLS[name](path, shown(path, self._host.root), args)
        except Unusable as unusable:
            return Outcome(str(unusable), is_error=True)
        except (OSError, RuntimeError, ValueError) as error:
            return Outcome(f"{name} failed: {error}", is_error=True)

    async def aclose(self) -> None:
        await self._commands.aclose()
