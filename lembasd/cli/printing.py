"""One prompt of a program's, to its answer: the runner of `lembas -p`."""

import asyncio
import secrets
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from msgspec import Struct

from lembasd.cli import running, starting
from lembasd.cli.core.printed import NOBODY, Denied, Turn
from lembasd.device.paths import Paths
from lembasd.ipc.client import HubClient
from lembasd.ipc.connect import NoHub
from lembasd.protocol.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_NOT_RUNNING,
    EXIT_REFUSED,
    INVALID_PARAMS,
    RequestRefused,
    UsageError,
)
from lembasd.protocol.jsonrpc import Message

_LEMBAS: Final = {
    "protocolVersion": 1,
    "clientCapabilities": {"_meta": {"lembas": {"protocol": 3}}},
}
#: random bytes of the id of the turn
_TURN_RANDOM_BYTES: Final = 9
#: what is asked beside permissions has an answer for nobody
_DISMISSED: Final = {"outcome": "dismissed"}


class Wanted(Struct, frozen=True):
    """What a command line asks for. `session` "": a new one in `cwd`."""

    text: str
    cwd: Path
    session: str = ""
    output: str = "text"
    mode: str | None = None
    model: str | None = None
    effort: str | None = None
    max_steps: int | None = None


class Printing:
    """`write` gets each line for standard output."""

    def __init__(self, paths: Paths, wanted: Wanted, write: Callable[[str], None]) -> None:
        self._paths = paths
        self._wanted = wanted
        self._write = write
        self._client = HubClient(self._message)
        self._turn = Turn(wanted.session, f"turn_{secrets.token_hex(_TURN_RANDOM_BYTES)}")
        self._interrupts = 0
        self._left = asyncio.Event()

    async def run(self) -> int:
        """The exit code. Raises UsageError, RequestRefused when it does not even begin."""
        begun = time.monotonic()
        try:
            await self._begin()
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._interrupted)
            result, error = await self._answer()
        finally:
            self._client.close()
        if self._left.is_set():
            running.say_error(
                f"the turn goes on; `lembas attach {self._turn.session_id}` shows it, "
                f"`lembas -p --resume {self._turn.session_id}` asks on"
            )
            return EXIT_INTERRUPTED
        return self._told(result, error, round((time.monotonic() - begun) * 1000))

    # ── the session ─────────────────────────────────────────────────────────────────────────────

    async def _begin(self) -> None:
        wanted = self._wanted
        await self._connect()
        if wanted.session:
            await self._attach(None)
        else:
            self._turn.session_id = await self._new()
        session = self._turn.session_id
        if wanted.session and wanted.mode is not None:
            params = {"sessionId": session, "modeId": wanted.mode}
            await self._client.request("session/set_mode", params)
        if wanted.session and (wanted.model is not None or wanted.effort is not None):
            names = {"model": wanted.model, "effort": wanted.effort}
            asked = {key: value for key, value in names.items() if value is not None}
            await self._client.request("_lembas/configure", {"sessionId": session, **asked})
        if wanted.output == "stream-json":
            self._line({"type": "session", "session_id": session, "turn_id": self._turn.turn_id})

    async def _connect(self) -> None:
        await starting.connected(self._paths, self._client)
        await self._client.request("initialize", _LEMBAS)

    async def _new(self) -> str:
        wanted = self._wanted
        names = {"mode": wanted.mode, "model": wanted.model, "effort": wanted.effort}
        meta = {key: value for key, value in names.items() if value is not None}
        params = {"cwd": str(wanted.cwd), "mcpServers": [], "_meta": meta}
        answer = await self._client.request("session/new", params)
        session: str = msgspec.json.decode(answer)["sessionId"]
        return session

    async def _attach(self, since: str | None) -> None:
        params = {"sessionId": self._turn.session_id or self._wanted.session}
        if since is not None:
            params["since"] = since
        await self._client.request("_hub/attach", params)

    # ── the turn ────────────────────────────────────────────────────────────────────────────────

    async def _answer(self) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """The turn's result or error, through the death of hubs: the turn's id is known to the next one."""
        while True:
            asked = self._client.start("session/prompt", self._prompt)
            left = asyncio.ensure_future(self._left.wait())
            try:
                ends: list[asyncio.Future[Any]] = [asked, left]
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                if self._left.is_set():
                    return None, None
                result: dict[str, Any] = msgspec.json.decode(await asked)
                return result, None
            except RequestRefused as refused:
                told = {"code": refused.code, "message": refused.message, "data": refused.data}
                return None, told
            except NoHub:
                await self._next_hub()
            finally:
                left.cancel()

    @property
    def _prompt(self) -> dict[str, Any]:
        return {
            "sessionId": self._turn.session_id,
            "prompt": [{"type": "text", "text": self._wanted.text}],
            "_meta": {"lembas": {"turnId": self._turn.turn_id}},
        }

    async def _next_hub(self) -> None:
        """Raises UsageError when lembasd was stopped, which ended the turn too."""
        if self._paths.stopping.exists():
            raise UsageError("lembasd was stopped, and the turn with it", EXIT_NOT_RUNNING)
        since = self._client.seen(self._turn.session_id)
        self._client = HubClient(self._message)
        await self._connect()
        await self._attach(since)

    def _message(self, message: Message) -> None:
        if message.is_request:
            self._asked(message)
        elif message.method == "_lembas/event" and message.session == self._turn.session_id:
            self._event(msgspec.json.decode(message.params)["event"])

    def _event(self, event: dict[str, Any]) -> None:
        if not self._turn.take(event):
            return
        if self._wanted.output == "stream-json":
            self._line(event)
        most = self._wanted.max_steps
        if most is not None and self._turn.steps > most and not self._turn.overran:
            self._turn.overran = True
            self._turn.steps = most
            self._cancel()

    def _asked(self, message: Message) -> None:
        """Nobody is here who could approve it."""
        if message.method != "session/request_permission":
            self._client.reply(message, _DISMISSED)
            return
        params = msgspec.json.decode(message.params)
        call = params["toolCall"]
        reason = str(params.get("_meta", {}).get("lembas", {}).get("reason", ""))
        denied = Denied(call["toolCallId"], call["title"], reason)
        answer = {
            "outcome": {"outcome": "selected", "optionId": "deny"},
            "_meta": {"lembas": {"feedback": NOBODY}},
        }
        self._client.reply(message, answer)
        if all(one.toolCallId != denied.toolCallId for one in self._turn.denied):
            self._turn.denied.append(denied)
            running.say_error(
                f"denied, for nobody is here to approve it: {plain(denied.title)} "
                f"(`--mode` or a rule in config.yaml can allow it)"
            )

    # ── its end ─────────────────────────────────────────────────────────────────────────────────

    def _interrupted(self) -> None:
        self._interrupts += 1
        if self._interrupts > 1:
            self._left.set()
            return
        running.say_error("cancelling the turn; press Ctrl-C again to leave it running")
        self._cancel()

    def _cancel(self) -> None:
        try:
            self._client.notify("session/cancel", {"sessionId": self._turn.session_id})
        except NoHub:
            pass  # it is asked of the next hub, which is on its way, by the next Ctrl-C

    def _told(
        self, result: dict[str, Any] | None, error: dict[str, Any] | None, duration_ms: int
    ) -> int:
        if self._wanted.output != "text":
            self._line(self._turn.value(result, error, duration_ms))
        elif text := self._turn.text(result):
            self._write(text)
        if error is not None:
            running.say_error(plain(error["message"]))
            return EXIT_REFUSED if error["code"] == INVALID_PARAMS else EXIT_FAILED
        code, sentence = self._turn.end(result)
        if sentence:
            running.say_error(sentence)
        return code

    def _line(self, value: dict[str, Any]) -> None:
        self._write(msgspec.json.encode(value).decode())


def plain(text: str) -> str:
    """A text of somebody's as one line, without what a terminal would obey."""
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())


def to_stdout(text: str) -> None:
    """Print one text, at once."""
    click.echo(text)
    sys.stdout.flush()
