"""One chat: which session it shows, what is asked of the hub for the person, and what the person is told.

A session is made with the first prompt, so that looking leaves nothing behind. What the person has said is kept until its
answer came: a hub that comes back is asked again with the same turn id, and a turn runs once.
"""

from typing import Any, Final, assert_never

import msgspec
from msgspec import UNSET

from lembasd.protocol import events
from lembasd.protocol.acp import PromptResult
from lembasd.protocol.errors import INVALID_PARAMS
from lembasd.protocol.lembas import AvailableCommand, Snapshot
from lembasd.tui.core import commands, help_text, incoming, inputs, snapshot
from lembasd.tui.core.activity import Activity
from lembasd.tui.core.cards import Card
from lembasd.tui.core.effects import (
    Answer,
    Ask,
    Compose,
    Copy,
    Effect,
    Look,
    NotAnswered,
    Notify,
    Open,
    Quit,
    ReadFile,
    Reset,
    Run,
)
from lembasd.tui.core.plain import clean_line
from lembasd.tui.core.transcript import Transcript
from lembasd.tui.core.waiting import Attachment, Message, Waiting

#: what Shift-Tab goes through; auto asks nobody anything, so it is chosen by its name alone
CYCLED: Final = ("plan", "manual", "edit")
MODES: Final = (*CYCLED, "auto")
#: files of one prompt (docs/protocol.md); more are refused there
MAX_FILES: Final = 100
GONE: Final = "lembasd is gone; this waits for its return"
STOPPED: Final = "lembasd was stopped; `lembasd run` starts it, and this goes on then"

NOT_NOW: Final = "lembasd is not there; do it again once it is back"

Input = incoming.FromHub | inputs.FromHere

_prompted: Final = msgspec.json.Decoder(PromptResult)
_SETTLED: Final = {
    "terminal": "the card was answered at another terminal",
    "instance": "the card was answered on the instance",
}
_STOPS: Final = {
    "cancelled": "cancelled",
    "max_turn_requests": "stopped at the limit of steps; say `continue` to go on",
    "max_tokens": "the answer was cut at the model's limit; say `continue` to go on",
}


class Chat:
    """The machine. Everything it shows is public; `revision` grows with each change."""

    def __init__(self, cwd: str, session_id: str = "") -> None:
        self.cwd = cwd
        self.session_id = session_id
        self.transcript = Transcript()
        self.activity = Activity()
        self.waiting = Waiting()
        self.cards: list[Card] = []
        self.attachments: list[Attachment] = []
        self.title = ""
        self.model = ""
        self.effort = ""
        self.mode = ""
        self.month = ""
        #: a line above everything while something is wrong, or on its way
        self.banner = ""
        self.connected = False
        #: the history has not come: what is told meanwhile is in it
        self.loading = False
        self.revision = 0
        #: the instance shows it
        self.shared = False
        self._queue: list[tuple[str, str]] = []
        #: what the person was told while no hub was there, to be said once there is room for it
        self._started = ""
        self._session_commands: list[AvailableCommand] = []
        self._chosen: dict[str, str] = {}
        self._making = False
        self._shown = False
        self._out: list[Effect] = []

    @property
    def commands(self) -> list[commands.Command]:
        """What can follow a /, by name."""
        return commands.all_of(self._session_commands)

    @property
    def shown_waiting(self) -> list[tuple[str, str]]:
        """What was said and is not in the transcript: a line for each, and what it waits for."""
        shown = []
        for one in self.waiting.shown:
            how = "at the next step" if one.steers else "after this turn"
            if not self.connected:
                how = "when lembasd is back"
            elif not one.steers and not self.activity.busy:
                how = "sending"
            shown.append((one.label, how))
        own = {one.turn_id for one in self.waiting.messages}
        return shown + [
            (clean_line(text), "after this turn")
            for turn_id, text in self._queue
            if turn_id not in own
        ]

    def handle(self, what: Input, now: float) -> list[Effect]:
        """Take one input; `now` is monotonic seconds. The effects are to be performed in order."""
        self._out = []
        self.revision += 1
        match what:
            case incoming.EventCame(event):
                self._event(event, now)
            case incoming.OutputCame(call_id, text):
                self.transcript.output(call_id, text)
            case incoming.CommandsCame(found):
                self._session_commands = found
            case incoming.PlanCame(tasks):
                self.transcript.plan(tasks)
            case incoming.QueueCame(queued):
                self._queue = list(queued)
            case (
                incoming.CardCame()
                | incoming.Settled()
                | incoming.Deleted()
                | incoming.GapCame()
                | incoming.Unreadable()
            ):
                self._from_hub(what)
            case inputs.Answered() | inputs.Refused():
                self._reply(what, now)
            case _:
                self._from_here(what)
        return self._out

    def _from_hub(
        self,
        what: incoming.CardCame
        | incoming.Settled
        | incoming.Deleted
        | incoming.GapCame
        | incoming.Unreadable,
    ) -> None:
        match what:
            case incoming.CardCame(card):
                self.cards = [one for one in self.cards if one.call_id != card.call_id]
                self.cards.append(card)
            case incoming.Settled(call_id, by):
                if any(one.call_id == call_id for one in self.cards):
                    self.cards = [one for one in self.cards if one.call_id != call_id]
                    self.transcript.note(_SETTLED.get(by, "the card is no longer waited for"))
            case incoming.Deleted():
                self._leave("this session was deleted elsewhere; the next prompt begins a new one")
            case incoming.GapCame():
                self._attach("")
            case incoming.Unreadable(key, method):
                self._out.append(NotAnswered(key, method))
            case _:
                assert_never(what)

    def _from_here(self, what: inputs.FromHere) -> None:
        match what:
            case inputs.Connected(since):
                self._connected(since)
            case inputs.HubLost(stopped):
                self._lost(stopped=stopped)
            case inputs.Starting(said):
                self.banner = self._started = said
            case inputs.Submitted():
                self._submitted(what)
            case inputs.Cancelled():
                self._cancel()
            case inputs.Chose(key, words):
                self._chose(key, words)
            case inputs.ModeCycled():
                at = CYCLED.index(self.mode) if self.mode in CYCLED else -1
                self._set_mode(CYCLED[(at + 1) % len(CYCLED)])
            case inputs.Picked(picked, value):
                self._picked(picked, value)
            case _:
                self._told(what)

    def _told(self, what: inputs.FromHere) -> None:
        match what:
            case inputs.FileRead():
                self.attachments.append(Attachment(what.name, what.mime, what.data, what.size))
                del self.attachments[MAX_FILES:]
            case inputs.Detached():
                del self.attachments[-1:]
            case inputs.Said(text, level):
                self.transcript.note(text, level)
            case inputs.MonthCame(text):
                self.month = text
            case inputs.DefaultsCame(model, mode, effort):
                if not self.session_id:
                    self.model = self.model or model
                    self.mode = self.mode or mode
                    self.effort = self.effort or effort
            case _:
                raise TypeError(what)

    # ── the hub ─────────────────────────────────────────────────────────────────────────────────

    def _connected(self, since: str) -> None:
        self.connected, self.banner = True, ""
        self._out.append(Look("month"))
        if not self.session_id:
            self._out.append(Look("defaults"))
            self._ask("commands", "_lembas/commands", {"cwd": self.cwd})
            self._say_started()
        else:
            self._attach(since if self._shown else "")
        self._send_waiting()

    def _say_started(self) -> None:
        if self._started:
            self.transcript.note(self._started)
            self._started = ""

    def _attach(self, since: str) -> None:
        """See the session from here on: what came after `since`, or all of it."""
        self.loading = not since
        params = {"sessionId": self.session_id}
        self._ask("attach", "_hub/attach", {**params, "since": since} if since else params)

    def _lost(self, *, stopped: bool) -> None:
        self.connected, self._making = False, False
        self.banner = STOPPED if stopped else GONE
        # each is asked again by the next hub
        self.cards.clear()
        self.waiting.hub_lost()

    def _ask(self, about: str, method: str, params: Any) -> None:
        if self.connected:
            self._out.append(Ask(about, method, params))
        else:
            self.transcript.note(NOT_NOW, "error")

    def _event(self, event: events.AnyEvent, now: float) -> None:
        self.activity.take(event, now)
        if not self.loading:
            self.transcript.take(event)
        match event:
            case events.Prompt(turnId=turn_id):
                self.waiting.begun(turn_id)
            case events.Steered(texts=texts, ids=ids):
                self.waiting.steered(texts, [] if ids is UNSET else ids)
            case events.Session():
                self._is(event.title, event.model, event.mode, event.effort)
                self.cwd = event.root or self.cwd
            case events.Title(title=title):
                self.title = clean_line(title)
            case events.ModeChanged(mode=mode):
                self.mode = clean_line(mode)
            case events.ModelChanged(ref=ref, effort=effort):
                self._is(self.title, ref, self.mode, effort)
            case events.Task(state="end"):
                self.waiting.turn_ended()
                self._out.append(Look("month"))
            case _:
                pass

    def _is(self, title: str, model: str, mode: str, effort: str) -> None:
        self.title, self.model = clean_line(title), clean_line(model)
        self.mode, self.effort = clean_line(mode), clean_line(effort)

    # ── answers ─────────────────────────────────────────────────────────────────────────────────

    def _reply(self, what: inputs.Answered | inputs.Refused, now: float) -> None:
        about, _, turn_id = what.about.partition(":")
        if isinstance(what, inputs.Refused):
            self._refused(about, turn_id, what)
            return
        match about:
            case "new":
                self._made(msgspec.json.decode(what.result))
            case "attach":
                found = snapshot.read(what.result)
                self.loading, self._shown = False, True
                if found is not None:
                    self._stands(found, now)
            case "prompt":
                self._prompt_ended(turn_id, _prompted.decode(what.result))
            case "steer":
                steered = self.waiting.find(turn_id)
                if steered is not None:
                    steered.given, steered.asked = True, False
            case "commands":
                listed = msgspec.json.decode(what.result)["commands"]
                self._session_commands = msgspec.convert(listed, list[AvailableCommand])
            case "delete":
                self._leave("the session is deleted; the next prompt begins a new one")
            case "share":
                self.shared = bool(msgspec.json.decode(what.result)["shared"])
                self.transcript.note(
                    "the instance shows this session now"
                    if self.shared
                    else "the instance shows this session no more"
                )
            case _:
                pass  # what was set is told as an event

    def _made(self, result: dict[str, Any]) -> None:
        self._making, self._shown = False, True
        self.session_id = str(result["sessionId"])
        said = result.get("_meta", {}).get("lembas", {})
        self._is(
            self.title,
            str(said.get("model", self.model)),
            str(said.get("mode", self.mode)),
            str(said.get("effort", self.effort)),
        )
        self._send_waiting()

    def _stands(self, found: Snapshot, now: float) -> None:
        """Show the session as it is."""
        self.transcript.load(found.turns)
        self._is(found.title, found.model, found.mode, found.effort)
        self.cwd, self.shared = found.root or self.cwd, found.shared
        self._queue = [(one.turnId, one.text) for one in found.queued]
        self.cards = [one for one in self.cards if one.call_id in found.cards]
        self.activity = Activity()
        if found.turnId:
            self.activity.begins(found.turnId, now)
            self.waiting.begun(found.turnId)
        for event in snapshot.live(found):
            self.activity.take(event, now)
            if isinstance(event, events.ToolOutput):
                self.transcript.output(event.toolCallId, event.text)
            else:
                self.transcript.take(event)
        self._say_started()

    def _prompt_ended(self, turn_id: str, result: PromptResult) -> None:
        self.waiting.drop(turn_id)
        said = result.meta.lembas
        if result.stopReason in _STOPS:
            self.transcript.note(_STOPS[result.stopReason])
        if said.message is not UNSET:
            self.transcript.note(said.message)
        if said.undone is None:
            self.transcript.note("there is nothing to undo")
        elif said.undone is not UNSET:
            self._attach("")
            self._out.append(Compose(said.undone.prompt))
        self._say_again(turn_id, [] if said.unsent is UNSET else said.unsent)

    def _say_again(self, turn_id: str, unsent: list[str]) -> None:
        """What the turn did not take in becomes the next prompt (link.md, _lembas/steer)."""
        if unsent:
            self.waiting.turn_ended()
            self.waiting.add(Message(f"{turn_id}.next", "\n\n".join(unsent)))
            self._send_waiting()

    def _refused(self, about: str, turn_id: str, what: inputs.Refused) -> None:
        if what.code == 0:
            return  # the next hub is asked again
        if about == "steer" and what.code == INVALID_PARAMS:
            found = self.waiting.find(turn_id)
            if found is not None:
                # the turn has ended meanwhile
                found.steers, found.asked = False, False
                self._send_waiting()
            return
        match about:
            case "new":
                self._making = False
                self._give_back()
            case "prompt":
                refused = self.waiting.drop(turn_id)
                if refused is not None and not refused.begun:
                    # it never ran: the person has it again
                    self.attachments = [*refused.attachments, *self.attachments]
                    self._out.append(Compose(refused.text))
            case "attach":
                self.loading = False
            case "commands":
                return
            case _:
                pass
        self.transcript.note(what.message, "error")
        if about == "prompt":
            unsent = what.data.get("unsent", []) if isinstance(what.data, dict) else []
            self._say_again(turn_id, [str(one) for one in unsent])

    def _give_back(self) -> None:
        """No session was made: the person has the text again."""
        texts = [one.text for one in self.waiting.messages]
        self.waiting.messages.clear()
        self._out.append(Compose("\n\n".join(texts)))

    # ── the person ──────────────────────────────────────────────────────────────────────────────

    def _submitted(self, what: inputs.Submitted) -> None:
        own = commands.own(what.text)
        if own is not None:
            self._command(*own)
            return
        if not what.text.strip() and not self.attachments:
            return
        files, self.attachments = tuple(self.attachments), []
        steers = self.activity.busy and not what.after and not files and self.connected
        message = Message(what.turn_id, what.text, files, steers=steers)
        self.waiting.add(message)
        self._send_waiting()

    def _send_waiting(self) -> None:
        if not self.connected or not self.waiting.to_ask:
            return
        if not self.session_id:
            if not self._making:
                self._making = True
                meta: dict[str, Any] = {k: v for k, v in self._chosen.items() if v}
                self._ask("new", "session/new", {"cwd": self.cwd, "mcpServers": [], "_meta": meta})
            return
        for one in self.waiting.to_ask:
            one.asked = True
            if one.steers:
                params = {"sessionId": self.session_id, "text": one.text, "messageId": one.turn_id}
                self._ask(f"steer:{one.turn_id}", "_lembas/steer", params)
                continue
            prompt = {
                "sessionId": self.session_id,
                "prompt": one.blocks,
                "_meta": {"lembas": {"turnId": one.turn_id}},
            }
            self._ask(f"prompt:{one.turn_id}", "session/prompt", prompt)

    def _cancel(self) -> None:
        if self.connected and self.session_id:
            self._out.append(Notify("session/cancel", {"sessionId": self.session_id}))

    def _chose(self, key: str, words: str) -> None:
        if not self.cards:
            return
        card = self.cards[0]
        result = card.choose(key, words)
        if result is not None:
            self.cards.remove(card)
            self._out.append(Answer(card.key, result))

    def _picked(self, what: str, value: str) -> None:
        match what:
            case "sessions":
                self._open(value)
            case "models":
                self._set_model(value)
            case "efforts":
                self._set_effort(value)
            case "modes":
                self._set_mode(value)
            case _:
                self._out.append(Compose(f"/settings {value} "))

    def _set_mode(self, mode: str) -> None:
        if mode not in MODES:
            self.transcript.note(f"{mode!r} is no mode; choose {', '.join(MODES)}", "error")
            return
        if not self.session_id:
            self._chosen["mode"] = self.mode = mode
            return
        self._ask("mode", "session/set_mode", {"sessionId": self.session_id, "modeId": mode})

    def _set_model(self, model: str) -> None:
        if not self.session_id:
            self._chosen["model"] = self.model = model
            return
        self._ask("model", "_lembas/configure", {"sessionId": self.session_id, "model": model})

    def _set_effort(self, effort: str) -> None:
        if not self.session_id:
            self._chosen["effort"] = self.effort = effort
            return
        self._ask("effort", "_lembas/configure", {"sessionId": self.session_id, "effort": effort})

    # ── own commands ────────────────────────────────────────────────────────────────────────────

    def _command(self, name: str, argument: str) -> None:
        match name:
            case "quit":
                self._out.append(Quit())
            case "help":
                self.transcript.note(help_text.text(), "help")
            case "new":
                self._leave("")
            case "sessions":
                self._out.append(Open("sessions", argument))
            case "model" | "effort" | "mode":
                if argument:
                    self._picked(f"{name}s", argument)
                else:
                    self._out.append(Open(f"{name}s"))
            case "copy":
                self._out.append(Copy(self.transcript.last_reply()))
            case "attach" if argument:
                self._out.append(ReadFile(argument))
            case _:
                self._account_command(name, argument)

    def _account_command(self, name: str, argument: str) -> None:
        match name:
            case "usage":
                self._out.append(Look("usage"))
            case "settings":
                key, _, value = argument.partition(" ")
                look = Look("set", key, value.strip()) if value.strip() else None
                self._out.append(look or Open("settings", key))
            case "login":
                server = ("--server", argument) if argument else ()
                self._out.append(Run(("login", *server)))
            case _:
                self._session_command(name, argument)

    def _session_command(self, name: str, argument: str) -> None:
        params: dict[str, Any] = {"sessionId": self.session_id}
        if name == "attach":
            self.transcript.note("name a file: /attach picture.png", "error")
        elif not self.session_id:
            self.transcript.note("there is no session yet; it begins with your first prompt")
        elif name == "delete":
            self._ask("delete", "_lembas/session/delete", params)
        elif name == "title" and argument:
            self._ask("title", "_lembas/session/title", {**params, "title": argument})
        elif name == "title":
            self.transcript.note(f"this session is called {self.title or 'nothing yet'}")
        else:
            on = argument.lower() not in ("off", "no", "false")
            self._ask("share", "_hub/share", {**params, "shared": on})

    # ── sessions ────────────────────────────────────────────────────────────────────────────────

    def _leave(self, said: str) -> None:
        """From here on it is a new session in this directory."""
        self._show("")
        if said:
            self.transcript.note(said)

    def _open(self, session_id: str) -> None:
        if session_id and session_id != self.session_id:
            self._show(session_id)

    def _show(self, session_id: str) -> None:
        """Another session, on a connection of its own: who is attached to one is told of it as long as it is there."""
        self.session_id, self.connected, self._making = session_id, False, False
        self.transcript.clear()
        self.activity, self.waiting = Activity(), Waiting()
        self.cards, self.title, self._shown = [], "", False
        self._session_commands, self._chosen = [], {}
        self._queue, self.shared = [], False
        self._out.append(Reset())
