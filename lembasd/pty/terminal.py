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
    OutputMeta,
    OutputPlace,
    TerminalAckParams,
    TerminalAttachParams,
    TerminalAttachResult,
    TerminalExit,
    TerminalInputParams,
    TerminalOpenParams,
    TerminalOpenResult,
    TerminalOutput,
    TerminalResizeParams,
)
from lembasd.protocol.limits import TERMINAL_COLS, TERMINAL_ROWS
from lembasd.pty.core import flow
from lembasd.pty.core.record import Size
from lembasd.pty.master import Master, exit_code
from lembasd.pty.shell import start_shell

OUTPUT: Final = "_lembas/terminal/output"
EXIT: Final = "_lembas/terminal/exit"

_open: Final = msgspec.json.Decoder(TerminalOpenParams)
_input: Final = msgspec.json.Decoder(TerminalInputParams)
_resize: Final = msgspec.json.Decoder(TerminalResizeParams)
_ack: Final = msgspec.json.Decoder(TerminalAckParams)
_attach: Final = msgspec.json.Decoder(TerminalAttachParams)
_settings: Final = msgspec.json.Decoder(Settings)
_attached: Final = msgspec.json.Decoder(Attached)
_credit: Final = msgspec.json.Decoder(Credit)


def output_overhead(terminal: str) -> int:
    """Payload bytes of an output message beside its base64 and its place."""
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
        #: it waits for its client's next link
        self.resumes = False
        self.peer: Peer | None = None
        self._person = person
        self._log = log
        self._flow = flow.Flow(output_overhead(terminal), Size(80, 24))
        #: who looks, or is about to say from where on
        self._clients: dict[int, Attached] = {}
        #: requests to attach that wait for their answer, by client
        self._attaching: dict[int, tuple[Envelope, jsonrpc.Message]] = {}
        self._settings = Settings()
        self._master: Master | None = None
        self._opening: asyncio.Task[None] | None = None
        self._hung_up = False
        self._integrated = False
        self._status: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._end_timer: asyncio.TimerHandle | None = None
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
            resume=self.resumes,
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
            case kinds.INPUT:
                if self._master is not None:
                    self._type(self._master, message.payload)
            case kinds.CREDIT:
                count = _credit.decode(message.payload).bytes
                self._handle(flow.Credited(message.client, count))
            case kinds.DISCARDED:
                count = _credit.decode(message.payload).bytes
                self._handle(flow.Discarded(message.client, count))
            case kinds.ATTACHED:
                self._client_attached(_attached.decode(message.payload))
            case kinds.DETACHED:
                gone = self._clients.pop(message.client, None)
                returns = gone is not None and gone.resume
                self._handle(flow.ViewerDetached(message.client, returns))
            case kinds.SETTINGS:
                self._settings = _settings.decode(message.payload)
            case kinds.STOP:
                self.hang_up("the hub said so")
            case _:
                peer.answer_unknown(message)

    def lost_hub(self) -> None:
        """The connection is gone."""
        self.peer = None
        self._clients.clear()
        self._attaching.clear()
        self._handle(flow.HubLost(returns=self.resumes))

    def _client_attached(self, attached: Attached) -> None:
        self._clients[attached.client] = attached
        self.resumes = self.resumes or (self.link and attached.resume)
        if not attached.asks:
            self._handle(flow.ViewerAttached(attached.client, raw=attached.frames))

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
            case "_lembas/terminal/attach":
                self._attach(message, seen, _attach.decode(seen.params))
                return
            case "_lembas/terminal/input":
                self._type(self._running(), _input.decode(seen.params).data)
            case "_lembas/terminal/ack":
                self._handle(flow.Acknowledged(message.client, _ack.decode(seen.params).offset))
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

    def _attach(
        self, message: Envelope, seen: jsonrpc.Message, params: TerminalAttachParams
    ) -> None:
        attached = self._clients.get(message.client)
        if attached is None:
            raise RequestRefused(INVALID_PARAMS, "this client is not attached; ask again")
        self._attaching[message.client] = message, seen
        self._handle(flow.ViewerAttached(message.client, params.offset, attached.frames))

    def _type(self, master: Master, data: bytes) -> None:
        interrupts = master.interrupts(data)
        if interrupts:
            master.drop_input()
        master.write(data)
        if interrupts:
            self._handle(flow.Interrupted())

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
            integrate = self._settings.remote.terminal_integration
            started = start_shell(self._person, cwd, cols, rows, integrate=integrate)
        except RequestRefused as refused:
            self._not_opened(message, refused)
            return
        except OSError as error:
            self._not_opened(message, RequestRefused(INVALID_PARAMS, self._not_started(error)))
            return
        self._state = TerminalState(
            shell_pid=started.process.pid,
            cwd=str(cwd),
            cols=cols,
            rows=rows,
            shell=self._person.shell.kind,
        )
        self._integrated = started.integrated
        self._say_state()
        self._handle(flow.Resized(cols, rows))
        result = TerminalOpenResult(
            terminalId=self.id,
            cwd=str(cwd),
            cols=cols,
            rows=rows,
            shell=self._person.shell.kind,
            integration=started.integrated,
        )
        self._answer(message, jsonrpc.result(seen.id, result))
        self._master = Master(started, self._output, self._shell_ended)
        if self._flow.paused:
            self._master.pause()
        self._log.info("shell_started", terminal_id=self.id, shell_pid=started.process.pid)
        reached("pty.shell_started", terminal_id=self.id, shell_pid=started.process.pid)

    def _not_started(self, error: OSError) -> str:
        shell, reason = self._person.shell.path, error.strerror or str(error)
        return (
            f"your login shell {shell} could not be started ({reason}); set another one with `chsh`"
        )

    def _not_opened(self, message: Envelope, refused: RequestRefused) -> None:
        self._refuse(message, refused)
        self.ended.set()

    def _resize(self, master: Master, cols: int, rows: int) -> None:
        cols, rows = _within(cols, TERMINAL_COLS), _within(rows, TERMINAL_ROWS)
        master.resize(cols, rows)
        self._handle(flow.Resized(cols, rows))
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
            self._handle(flow.NobodyReturns())
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
            case flow.Send() | flow.SayPlace() | flow.SayEnd() | flow.Discard():
                self._tell(effect)
            case flow.PauseReading() | flow.ResumeReading() | flow.AskRedraw():
                self._of_master(effect)
            case flow.SetTimer(at):
                self._timer = self._loop.call_at(at, self._handle, flow.TimerFired())
            case flow.CancelTimer():
                if self._timer is not None:
                    self._timer.cancel()
            case flow.SetEndTimer(at):
                if self._end_timer is not None:
                    self._end_timer.cancel()
                self._end_timer = self._loop.call_at(at, self._handle, flow.EndTimerFired())
            case flow.Finished():
                self._log.info("shell_ended", terminal_id=self.id, code=exit_code(self._status))
                self.ended.set()
            case _:
                assert_never(effect)

    def _tell(self, effect: flow.Send | flow.SayPlace | flow.SayEnd | flow.Discard) -> None:
        match effect:
            case flow.Send():
                self._say(self._output_message(effect))
            case flow.SayPlace():
                self._say_place(effect)
            case flow.SayEnd(viewer):
                self._say_end(viewer)
            case flow.Discard():
                self._say(Envelope(kind=kinds.DISCARD, channel=self.id))
            case _:
                assert_never(effect)

    def _of_master(self, effect: flow.PauseReading | flow.ResumeReading | flow.AskRedraw) -> None:
        master = self._master
        if master is None:
            return
        match effect:
            case flow.PauseReading():
                master.pause()
            case flow.ResumeReading():
                master.resume()
            case flow.AskRedraw():
                master.resize(self._state.cols, self._state.rows)
            case _:
                assert_never(effect)

    def _output_message(self, sent: flow.Send) -> Envelope:
        if sent.raw:
            return Envelope(
                kind=kinds.OUTPUT,
                channel=self.id,
                audience=kinds.ONE,
                client=sent.viewer,
                delta=sent.may_leave_out,
                offset=sent.offset,
                payload=sent.data,
            )
        attached = self._clients.get(sent.viewer)
        meta: OutputMeta | None = None
        if attached is not None and (attached.flow or attached.resume):
            cols, rows = sent.size or (None, None)
            meta = OutputMeta(OutputPlace(sent.offset, cols, rows))
        output = TerminalOutput(terminalId=self.id, data=sent.data, meta=meta)
        return Envelope(
            kind=kinds.RPC,
            channel=self.id,
            audience=kinds.ONE,
            client=sent.viewer,
            delta=sent.may_leave_out,
            payload=jsonrpc.notification(OUTPUT, output),
        )

    def _say_place(self, place: flow.SayPlace) -> None:
        """Answer whoever asked to attach; who opened the terminal, or is attached again, has not asked."""
        asked = self._attaching.pop(place.viewer, None)
        if asked is None:
            return
        message, seen = asked
        state = self._state
        result = TerminalAttachResult(
            terminalId=self.id,
            cwd=state.cwd,
            cols=state.cols,
            rows=state.rows,
            shell=state.shell,
            integration=self._integrated,
            offset=place.offset,
            redraw=place.redraw,
        )
        self._answer(message, jsonrpc.result(seen.id, result))

    def _say_end(self, viewer: int) -> None:
        if not self._state.ended:
            # who is told of the end may open another: the hub is to count this one no more by then
            self._state = msgspec.structs.replace(self._state, ended=True)
            self._say_state()
        ended = TerminalExit(terminalId=self.id, code=exit_code(self._status))
        self._say(
            Envelope(
                kind=kinds.RPC,
                channel=self.id,
                audience=kinds.ONE,
                client=viewer,
                payload=jsonrpc.notification(EXIT, ended),
            )
        )

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
        for timer in (self._timer, self._end_timer):
            if timer is not None:
                timer.cancel()
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
