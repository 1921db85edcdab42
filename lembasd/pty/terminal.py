"""One terminal: what the hub asks of it, what it says. Performs what `core/flow` decides."""

import asyncio
from pathlib import Path
from typing import Final, assert_never

import msgspec
from structlog.typing import FilteringBoundLogger

from lembasd.device.limits import judge_root, resolved_roots
from lembasd.device.milestones import reached
from lembasd.device.person import Person
from lembasd.ipc.peer import Peer
from lembasd.protocol import envelope as kinds
from lembasd.protocol import jsonrpc
from lembasd.protocol.control import Attached, Credit, Settings, TerminalState
from lembasd.protocol.envelope import Envelope
from lembasd.protocol.errors import INVALID_PARAMS, METHOD_NOT_FOUND, RequestRefused
from lembasd.protocol.hello import TerminalHello
from lembasd.protocol.lembas import (
    TerminalExit,
    TerminalInputParams,
    TerminalOpenParams,
    TerminalOpenResult,
    TerminalOutput,
    TerminalResizeParams,
)
from lembasd.protocol.limits import TERMINAL_COLS, TERMINAL_ROWS
from lembasd.pty.core import flow
from lembasd.pty.master import Master, exit_code
from lembasd.pty.shell import start_shell

OUTPUT: Final = "_lembas/terminal/output"
EXIT: Final = "_lembas/terminal/exit"

_open: Final = msgspec.json.Decoder(TerminalOpenParams)
_input: Final = msgspec.json.Decoder(TerminalInputParams)
_resize: Final = msgspec.json.Decoder(TerminalResizeParams)
_settings: Final = msgspec.json.Decoder(Settings)
_attached: Final = msgspec.json.Decoder(Attached)
_credit: Final = msgspec.json.Decoder(Credit)


def output_overhead(terminal: str) -> int:
    """Payload bytes of an output message beside its base64."""
    return len(jsonrpc.notification(OUTPUT, TerminalOutput(terminalId=terminal, data=b"")))


def _within(value: int, bounds: tuple[int, int]) -> int:
    return max(bounds[0], min(bounds[1], value))


class Terminal:
    """The terminal of one assignment. `ended` is set when its exit was said and nothing more is to come."""

    def __init__(
        self, terminal: str, person: Person, log: FilteringBoundLogger, *, link: bool
    ) -> None:
        self.id = terminal
        self.link = link
        self.ended = asyncio.Event()
        self.peer: Peer | None = None
        self._person = person
        self._log = log
        self._flow = flow.Flow(output_overhead(terminal))
        self._settings = Settings()
        self._master: Master | None = None
        self._opening: asyncio.Task[None] | None = None
        self._hung_up = False
        self._status: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._state = TerminalState()
        self._loop = asyncio.get_running_loop()

    @property
    def opened(self) -> bool:
        return self._opening is not None

    def hello(self) -> TerminalHello:
        state = self._state
        return TerminalHello(
            terminal_id=self.id,
            link=self.link,
            shell_pid=state.shell_pid,
            cwd=state.cwd,
            cols=state.cols,
            rows=state.rows,
            shell=state.shell,
        )

    # ── what the hub says ───────────────────────────────────────────────────────────────────────

    def message(self, peer: Peer, message: Envelope) -> None:
        """Take one message. A payload that cannot be read ends the connection, never the terminal."""
        try:
            self._take(peer, message)
        except (msgspec.MsgspecError, RecursionError):
            peer.close("the payload of a frame cannot be read")

    def _take(self, peer: Peer, message: Envelope) -> None:
        match message.kind:
            case kinds.RPC:
                self._rpc(message)
            case kinds.CREDIT:
                self._handle(flow.Credited(_credit.decode(message.payload).bytes))
            case kinds.ATTACHED:
                self._handle(flow.ViewerAttached(_attached.decode(message.payload).client))
            case kinds.DETACHED:
                self._handle(flow.ViewerDetached(message.client))
            case kinds.SETTINGS:
                self._settings = _settings.decode(message.payload)
            case kinds.STOP:
                self.hang_up("the hub said so")
            case _:
                peer.answer_unknown(message)

    def lost_hub(self) -> None:
        """The connection is gone."""
        self.peer = None
        self._handle(flow.HubLost())

    def _rpc(self, message: Envelope) -> None:
        try:
            seen = jsonrpc.peek(message.payload)
            self._call(message, seen)
        except RequestRefused as refused:
            self._refuse(message, refused)
        except msgspec.MsgspecError as error:
            self._refuse(message, RequestRefused(INVALID_PARAMS, f"the params are wrong: {error}"))

    def _call(self, message: Envelope, seen: jsonrpc.Message) -> None:
        """Raises RequestRefused, MsgspecError."""
        match seen.method:
            case "_lembas/terminal/open":
                if self._opening is not None:
                    raise RequestRefused(INVALID_PARAMS, "this terminal is open already")
                params = _open.decode(seen.params or b"{}")
                self._opening = self._loop.create_task(self._open_shell(message, seen, params))
                return
            case "_lembas/terminal/input":
                self._running().write(_input.decode(seen.params).data)
            case "_lembas/terminal/resize":
                size = _resize.decode(seen.params)
                self._resize(self._running(), size.cols, size.rows)
            case "_lembas/terminal/close":
                self.hang_up("its client closed it")
            case _:
                raise RequestRefused(
                    METHOD_NOT_FOUND, f"{seen.method} is not answered by a terminal"
                )
        if message.request:
            self._answer(message, jsonrpc.result(seen.id, {}))

    def _running(self) -> Master:
        if self._master is None:
            raise RequestRefused(INVALID_PARAMS, "this terminal is not open; open it first")
        return self._master

    # ── open, resize, close ─────────────────────────────────────────────────────────────────────

    async def _open_shell(
        self, message: Envelope, seen: jsonrpc.Message, params: TerminalOpenParams
    ) -> None:
        cols = _within(params.cols, TERMINAL_COLS)
        rows = _within(params.rows, TERMINAL_ROWS)
        try:
            cwd = await asyncio.to_thread(
                place, params.cwd, self._settings, self._person, local=not self.link
            )
            if self._hung_up:
                raise RequestRefused(INVALID_PARAMS, "the terminal was closed before it was open")
            started = start_shell(self._person, cwd, cols, rows)
        except RequestRefused as refused:
            self._not_opened(message, refused)
            return
        except OSError as error:
            text = f"the shell {self._person.shell.path} could not be started: {error}"
            self._not_opened(message, RequestRefused(INVALID_PARAMS, text))
            return
        self._state = TerminalState(
            shell_pid=started.process.pid,
            cwd=str(cwd),
            cols=cols,
            rows=rows,
            shell=self._person.shell.kind,
        )
        self._say_state()
        result = TerminalOpenResult(terminalId=self.id, cwd=str(cwd), cols=cols, rows=rows)
        self._answer(message, jsonrpc.result(seen.id, result))
        self._master = Master(started, self._output, self._shell_ended)
        if self._flow.paused:
            self._master.pause()
        self._log.info("shell_started", terminal_id=self.id, shell_pid=started.process.pid)
        reached("pty.shell_started", terminal_id=self.id, shell_pid=started.process.pid)

    def _not_opened(self, message: Envelope, refused: RequestRefused) -> None:
        self._refuse(message, refused)
        self.ended.set()

    def _resize(self, master: Master, cols: int, rows: int) -> None:
        cols, rows = _within(cols, TERMINAL_COLS), _within(rows, TERMINAL_ROWS)
        master.resize(cols, rows)
        self._state = msgspec.structs.replace(self._state, cols=cols, rows=rows)
        self._say_state()

    def hang_up(self, why: str) -> None:
        """End the shell and what it runs; `ended` follows."""
        if self._hung_up:
            return
        self._hung_up = True
        self._log.info("terminal_hangs_up", terminal_id=self.id, reason=why)
        if self._master is not None:
            self._master.hang_up()
        elif not self.opened:
            self.ended.set()
        reached("pty.hung_up", terminal_id=self.id)

    # ── output ──────────────────────────────────────────────────────────────────────────────────

    def _output(self, data: bytes) -> None:
        self._handle(flow.Read(data))

    def _shell_ended(self, status: int | None) -> None:
        self._status = status
        self._handle(flow.OutputEnded())

    def _handle(self, what: flow.Input) -> None:
        for effect in self._flow.handle(what, self._loop.time()):
            self._perform(effect)

    def _perform(self, effect: flow.Effect) -> None:
        match effect:
            case flow.Send(data):
                self._say(self._output_message(data, audience=kinds.ALL))
            case flow.Replay(viewer, data):
                self._say(self._output_message(data, audience=kinds.ONE, client=viewer))
            case flow.PauseReading():
                if self._master is not None:
                    self._master.pause()
            case flow.ResumeReading():
                if self._master is not None:
                    self._master.resume()
            case flow.SetTimer(at):
                self._timer = self._loop.call_at(at, self._handle, flow.TimerFired())
            case flow.CancelTimer():
                if self._timer is not None:
                    self._timer.cancel()
            case flow.Finished():
                self._finish()
            case _:
                assert_never(effect)

    def _output_message(self, data: bytes, *, audience: str, client: int = 0) -> Envelope:
        payload = jsonrpc.notification(OUTPUT, TerminalOutput(terminalId=self.id, data=data))
        return Envelope(
            kind=kinds.RPC,
            channel=self.id,
            audience=audience,
            client=client,
            delta=True,
            payload=payload,
        )

    def _finish(self) -> None:
        code = exit_code(self._status)
        # who is told of the end may open another: the hub is to count this one no more by then
        self._state = msgspec.structs.replace(self._state, ended=True)
        self._say_state()
        payload = jsonrpc.notification(EXIT, TerminalExit(terminalId=self.id, code=code))
        self._say(Envelope(kind=kinds.RPC, channel=self.id, audience=kinds.ALL, payload=payload))
        self._log.info("shell_ended", terminal_id=self.id, code=code)
        self.ended.set()

    # ── sending ─────────────────────────────────────────────────────────────────────────────────

    def _say(self, message: Envelope) -> None:
        if self.peer is not None:
            self.peer.send(message)

    def _say_state(self) -> None:
        payload = msgspec.json.encode(self._state)
        self._say(Envelope(kind=kinds.STATE, channel=self.id, payload=payload))

    def _answer(self, message: Envelope, payload: bytes, *, failed: bool = False) -> None:
        self._say(
            Envelope(
                kind=kinds.RPC,
                channel=self.id,
                client=message.client,
                request=message.request,
                audience=kinds.ONE,
                failed=failed,
                payload=payload,
            )
        )

    def _refuse(self, message: Envelope, refused: RequestRefused) -> None:
        """Answer a request with an error; a notification has nobody to tell."""
        if message.request:
            seen = jsonrpc.peek(message.payload)
            self._answer(message, jsonrpc.refusal(seen.id, refused), failed=True)

    async def aclose(self) -> None:
        """Free the terminal."""
        if self._timer is not None:
            self._timer.cancel()
        if self._opening is not None:
            await self._opening
        if self._master is not None:
            self._master.close()


def place(cwd: str | None, settings: Settings, person: Person, *, local: bool) -> Path:
    """Where the shell starts: in `cwd`, else at home or, for the link, in the first root.

    The link may be anywhere inside the roots: trust is about what a project tells an agent, and a shell asks none.
    Raises RequestRefused.
    """
    if not local and not settings.remote.terminal:
        raise RequestRefused(
            INVALID_PARAMS,
            "terminals are off on this device; turn them on there with `lembas remote terminal on`",
            {"reason": "terminal_off"},
        )
    remote = msgspec.structs.replace(settings.remote, require_trust=False)
    untrusted = msgspec.structs.replace(settings, remote=remote)
    if cwd is None:
        roots = resolved_roots(settings) if not local else []
        cwd = str(roots[0]) if roots else person.home
    return judge_root(cwd, untrusted, local=local)
