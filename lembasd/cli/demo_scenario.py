"""What the demo does: real processes in a scratch home, driven through the pocket instance's API."""

import asyncio
import base64
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

import httpx
import msgspec
import psutil

from lembasd.device.paths import Paths

_SERVICE: Final = "import sys; from lembasd.cli.service import main; sys.exit(main())"
_PERSON: Final = "import sys; from lembasd.cli.person import main; sys.exit(main())"
#: between two looks at a state that the API has no event for
POLL_S: Final = 0.05
#: text of the turns that are killed in their middle: slow enough to be caught, fast enough to wait for
_SLOW: Final = "count to 60 slowly"
_BUG: Final = 'def greet(name):\n    return "Helo, " + name\n\n\nprint(greet("world"))\n'


class StepFailed(Exception):
    """A step did not show what it had to; the text says what was seen."""


class Demo:
    """One scratch home with its processes. Leaving it ends them and removes it."""

    def __init__(self) -> None:
        # a short path: the hub's socket lies in it
        self._base = Path(tempfile.mkdtemp(prefix="lembas-demo-", dir="/tmp"))
        home = self.home = self._base / "home"
        self._paths = Paths(config=home / "config", state=home / "state", run=home / "run")
        self._project = self._base / "project"
        self._children: list[subprocess.Popen[bytes]] = []
        self._hub: subprocess.Popen[bytes] | None = None
        self._api = httpx.AsyncClient()
        self._sessions: list[str] = []
        self.page = ""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LEMBAS")}
        # the terminal's login shell must not wait for, or write, what the person's own start-up files do
        self._environment = {**kept, "LEMBAS_HOME": str(home), "HOME": str(self._base)}
        if "LEMBASD_PORTABLE" in os.environ:
            self._environment["LEMBASD_PORTABLE"] = os.environ["LEMBASD_PORTABLE"]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._api.aclose()
        for child in self._children:
            with suppress(ProcessLookupError):
                child.kill()
            await asyncio.to_thread(child.wait)
        shutil.rmtree(self._base, ignore_errors=True)

    def output(self) -> str:
        """What the processes printed, for a step that failed."""
        with suppress(OSError):
            return (self._base / "output").read_text(errors="replace")
        return ""

    # ── processes ───────────────────────────────────────────────────────────────────────────────

    def _start(self, code: str, *args: str, pipe: bool = False) -> subprocess.Popen[bytes]:
        with (self._base / "output").open("ab") as log:
            child = subprocess.Popen(
                [sys.executable, "-c", code, *args],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if pipe else log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C at the terminal is the demo's own to handle
            )
        self._children.append(child)
        return child

    async def _run_to_end(self, code: str, *args: str) -> tuple[int, str]:
        child = self._start(code, *args, pipe=True)
        out, _ = await asyncio.to_thread(child.communicate)
        self._children.remove(child)
        return child.returncode, out.decode()

    async def _run(self, code: str, *args: str) -> str:
        returned, out = await self._run_to_end(code, *args)
        if returned:
            raise StepFailed(f"`{' '.join(args)}` ended with {returned}")
        return out

    async def _status(self) -> dict[str, Any]:
        status: dict[str, Any] = msgspec.json.decode(await self._run(_SERVICE, "status", "--json"))
        return status

    # ── the instance's API ──────────────────────────────────────────────────────────────────────

    async def _get(self, path: str) -> Any:
        answer = await self._api.get(path)
        if answer.status_code != 200:
            raise StepFailed(f"GET {path}: {answer.status_code} {answer.text[:200]}")
        return answer.json()

    async def _post(self, path: str, body: dict[str, Any]) -> Any:
        answer = await self._api.post(path, json=body)
        if answer.status_code >= 300:
            raise StepFailed(f"POST {path}: {answer.status_code} {answer.text[:200]}")
        return answer.json()

    async def _until(self, look: Callable[[], Awaitable[Any]]) -> Any:
        """Look until there is something; the step's own time-out bounds it."""
        while not (found := await look()):  # noqa: ASYNC110 - another process, over HTTP
            await asyncio.sleep(POLL_S)
        return found

    async def _prompt(self, session: str, text: str) -> str:
        answer = await self._post(f"/api/local/sessions/{session}/prompt", {"text": text})
        return str(answer["turn_id"])

    async def _ended(self, session: str, turn_id: str) -> dict[str, Any]:
        """The turn's row once it is done."""

        async def look() -> dict[str, Any] | None:
            about = await self._get(f"/api/local/sessions/{session}")
            rows: list[dict[str, Any]] = about["turns"]
            return next(
                (row for row in rows if row["turn_id"] == turn_id and row["state"] == "done"), None
            )

        row: dict[str, Any] = await self._until(look)
        return row

    async def _history(self, session: str) -> list[dict[str, Any]]:
        turns: list[dict[str, Any]] = (await self._get(f"/api/local/sessions/{session}/history"))[
            "turns"
        ]
        return turns

    async def _last_text(self, session: str) -> str:
        said = [turn["text"] for turn in await self._history(session) if turn["role"] != "user"]
        return str(said[-1]) if said else ""

    async def _worker(self, session: str) -> dict[str, Any]:
        """The session's worker in `lembasd status`, while it works on a turn."""

        async def look() -> dict[str, Any] | None:
            workers: list[dict[str, Any]] = (await self._status())["workers"]
            return next(
                (one for one in workers if one["session_id"] == session and one["turn_id"]), None
            )

        worker: dict[str, Any] = await self._until(look)
        return worker

    async def _linked(self) -> bool:
        devices = (await self._get("/api/local/devices"))["devices"]
        return any(device["linked"] for device in devices)

    # ── the steps ───────────────────────────────────────────────────────────────────────────────

    async def start_instance(self) -> str:
        child = self._start(_PERSON, "instance", "--port", "0", "--approve", pipe=True)
        if child.stdout is None:
            raise StepFailed("the instance has no output")
        line = (await asyncio.to_thread(child.stdout.readline)).decode()
        self.page = next((word for word in line.split() if word.startswith("http://")), "")
        if not self.page:
            raise StepFailed(f"it printed no address but {line!r}")
        parts = urlsplit(self.page)
        secret = parse_qs(parts.query)["secret"][0]
        await self._api.aclose()
        self._api = httpx.AsyncClient(
            base_url=f"{parts.scheme}://{parts.netloc}",
            headers={"Authorization": f"Bearer {secret}"},
            timeout=30.0,
            trust_env=False,
        )
        return f"on {parts.netloc}, with a scripted demo model"

    async def log_in(self) -> str:
        self._paths.make()
        self._paths.config_file.write_text(
            "remote:\n  enabled: true\n  max_mode: auto\n  terminal: true\n"
            f"  roots: [{msgspec.json.encode(str(self._project)).decode()}]\n"
        )
        self._project.mkdir()
        (self._project / "greet.py").write_text(_BUG)
        if shutil.which("git"):
            git = ["git", "init", "--quiet", str(self._project)]
            await asyncio.to_thread(subprocess.run, git, check=True, capture_output=True)
        await self._run(_PERSON, "trust", "add", str(self._project))
        out = await self._run(_PERSON, "login", "--server", str(self._api.base_url), "--json")
        code = msgspec.json.decode(out.splitlines()[0], type=dict[str, Any])
        return f"device grant, code {code['user_code']}"

    async def start_hub(self) -> str:
        self._hub = self._start(_SERVICE, "run")
        await self._until(self._linked)
        status = await self._status()
        return f"pid {status['hub']['pid']}"

    async def open_sessions(self) -> str:
        for _ in range(2):
            body = {"cwd": str(self._project), "mode": "edit"}
            answer = await self._post("/api/local/sessions", body)
            self._sessions.append(answer["session_id"])
        workers = {one["session_id"]: one["pid"] for one in (await self._status())["workers"]}
        return "pids " + ", ".join(str(workers[session]) for session in self._sessions)

    async def run_turn(self) -> str:
        session = self._sessions[0]
        turn_id = await self._prompt(session, "fix greet.py")

        async def card() -> dict[str, Any] | None:
            cards: list[dict[str, Any]] = (await self._get("/api/local/cards"))["cards"]
            return next(iter(cards), None)

        asked = await self._until(card)
        await self._post(f"/api/local/cards/{asked['tool_call_id']}", {"option": "once"})
        row = await self._ended(session, turn_id)
        if row["error"] or "Hello" not in (self._project / "greet.py").read_text():
            raise StepFailed(f"the file was not mended: {row}")
        tools = [tool for turn in await self._history(session) for tool in turn.get("tools", [])]
        names = [tool["name"] for tool in tools]
        if names != ["read", "edit", "bash"] or "Hello, world" not in tools[-1]["output"]:
            raise StepFailed(f"the tools were {names}")
        return f"{', '.join(names)}; approved: {asked['title']}"

    async def use_terminal(self) -> str:
        body = {"cwd": str(self._project), "cols": 80, "rows": 24}
        terminal = (await self._post("/api/local/terminals", body))["terminal_id"]
        # the answer is not in what is typed, so that the echo does not pass for it
        typed = base64.b64encode(b"echo $((6 * 7))-from-the-shell\n").decode()
        await self._post(f"/api/local/terminals/{terminal}/input", {"data": typed})

        async def shown() -> bool:
            about = await self._get(f"/api/local/terminals/{terminal}/output")
            return b"42-from-the-shell" in base64.b64decode(about["data"])

        await self._until(shown)
        pid = next(
            one["pid"]
            for one in (await self._status())["terminals"]
            if one["terminal_id"] == terminal
        )
        await self._post(f"/api/local/terminals/{terminal}/close", {})
        return f"pid {pid}"

    async def kill_worker(self) -> str:
        killed, other = self._sessions
        killed_turn = await self._prompt(killed, _SLOW)
        other_turn = await self._prompt(other, _SLOW)
        pid = int((await self._worker(killed))["pid"])
        await self._worker(other)
        os.kill(pid, signal.SIGKILL)
        row = await self._ended(killed, killed_turn)
        if not row["error"]:
            raise StepFailed(f"the killed worker's turn ended as if nothing had been: {row}")
        other_row = await self._ended(other, other_turn)
        if other_row["error"] or "60" not in await self._last_text(other):
            raise StepFailed(f"the other session did not go on: {other_row}")
        return f"killed {pid}: “{row['error']['message']}”"

    async def reopen(self) -> str:
        session = self._sessions[0]
        before = await self._history(session)
        turn_id = await self._prompt(session, "are you there?")
        row = await self._ended(session, turn_id)
        after = await self._history(session)
        if row["error"] or after[: len(before)] != before or len(after) <= len(before):
            raise StepFailed(f"its history is not what it was: {row}")
        return f"{len(before)} entries from before, {len(after)} now"

    async def kill_hub(self) -> str:
        if self._hub is None:
            raise StepFailed("there is no hub")
        session = self._sessions[1]
        turn_id = await self._prompt(session, _SLOW)
        worker = int((await self._worker(session))["pid"])
        self._hub.kill()
        await asyncio.to_thread(self._hub.wait)
        self._hub = self._start(_SERVICE, "run")
        row = await self._ended(session, turn_id)
        if row["error"] or "60" not in await self._last_text(session):
            raise StepFailed(f"the answer did not arrive: {row}")
        adopted = [one["pid"] for one in (await self._status())["workers"]]
        if worker not in adopted:
            raise StepFailed("the worker was not adopted by the new hub")
        return f"worker {worker} went on and was adopted"

    async def stop(self) -> str:
        """End everything through `lembasd stop`, then look for what is left."""
        await self._run_to_end(_SERVICE, "stop")
        for child in self._children:
            if child.poll() is None:
                child.terminate()
            await asyncio.to_thread(child.wait)
        left = await asyncio.to_thread(self._left)
        if left:
            raise StepFailed(f"still running: {', '.join(left)}")
        return ""

    def _left(self) -> list[str]:
        """Processes that work below the scratch home or were started for it."""
        found = []
        for process in psutil.process_iter(["pid", "name"]):
            with suppress(psutil.Error):
                here = process.environ().get("LEMBAS_HOME") == self._environment["LEMBAS_HOME"]
                if here or Path(process.cwd()).is_relative_to(self._base):
                    found.append(f"{process.pid} {process.name()}")
        return found
