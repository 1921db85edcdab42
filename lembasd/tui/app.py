"""The program on the screen: its parts, its keys, and what is drawn when."""

import asyncio
import gc
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

import msgspec
from rich.style import Style
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.css.query import NoMatches
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from lembasd.device.milestones import reached
from lembasd.device.paths import Paths
from lembasd.ipc.connect import NoHub
from lembasd.protocol.errors import LembasError, RequestRefused, says
from lembasd.protocol.lembas import FilesSearchResult
from lembasd.tui.connection import Connection
from lembasd.tui.core import attention, commands, composing, inputs, status_line
from lembasd.tui.core.cards import Choice
from lembasd.tui.core.chat import Chat
from lembasd.tui.core.plain import clean_line
from lembasd.tui.drafts import Drafts
from lembasd.tui.drawing import palette, text
from lembasd.tui.ports import Ports
from lembasd.tui.widgets.card import CardView
from lembasd.tui.widgets.completions import Completion, Completions
from lembasd.tui.widgets.composer import Composer
from lembasd.tui.widgets.lines import Lines
from lembasd.tui.widgets.transcript import TranscriptView

if TYPE_CHECKING:
    from lembasd.tui.widgets.picker import Picker

W = TypeVar("W", bound=Widget)
#: between two drawings of what the agent says; keys are drawn at once
FRAME_S: Final = 1 / 20
#: how often times on the screen go on
_TICK_S: Final = 0.5
#: a draft is kept this long after the last key
_DRAFT_S: Final = 0.5
#: two presses of Ctrl-C within it leave
_TWICE_S: Final = 2.0
_TURN_ID_BYTES: Final = 12
_TONES: Final = {
    "busy": palette.BUSY,
    "ask": palette.ASK,
    "plain": palette.PLAIN,
    "dim": palette.DIM,
    "warn": palette.WARN,
}


class LembasApp(App[None]):
    """One chat. `failure` is why it could not even begin, for the command to say."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: ansi_default; }
    #composing { height: auto; border-top: solid ansi_bright_black; }
    #composing:nocolor { border-top: solid; }
    #asks { width: auto; height: 1; padding: 0 0 0 1; }
    #status { display: block; height: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", priority=True, show=False),
        Binding("ctrl+d", "end", priority=True, show=False),
        Binding("ctrl+z", "suspend_process", priority=True, show=False),
        Binding("escape", "escape", show=False),
        Binding("shift+tab", "cycle_mode", priority=True, show=False),
        Binding("pageup", "scroll(-1)", priority=True, show=False),
        Binding("pagedown", "scroll(1)", priority=True, show=False),
        Binding("ctrl+home", "to_start", priority=True, show=False),
        Binding("ctrl+end", "to_end", priority=True, show=False),
        Binding("ctrl+o", "calls", priority=True, show=False),
        Binding("ctrl+t", "thoughts", priority=True, show=False),
        Binding("ctrl+r", "sessions", priority=True, show=False),
        Binding("ctrl+y", "answer", priority=True, show=False),
    ]

    def __init__(
        self,
        paths: Paths,
        ports: Ports,
        chat: Chat,
        random: Callable[[int], bytes],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.chat = chat
        self.failure: LembasError | None = None
        self._paths = paths
        self._ports = ports
        self._random = random
        self._clock = clock
        self._drafts = Drafts(paths)
        self._connection = Connection(paths, ports, chat, self, clock)
        self._draws = False
        #: the transcript whose prompts the arrow keys know
        self._generation = chat.transcript.generation
        self._typed_at = 0.0
        self._early: list[events.Key] | None = []
        self._interrupted_at = 0.0
        #: the terminal has the focus, as far as it says
        self._is_looked_at = True
        self._answering: Choice | None = None
        self._kept_draft = ""
        #: the person went back from the card that waits to typing
        self._left_card = False
        self._word: composing.Word | None = None
        self._searching = 0
        self._draft_timer: asyncio.TimerHandle | None = None

    # ── the screen ──────────────────────────────────────────────────────────────────────────────

    def compose(self) -> ComposeResult:
        yield Lines("banner", self._banner_lines, most=3)
        yield TranscriptView(self.chat.transcript)
        yield Lines("waiting", self._waiting_lines, most=5)
        yield CardView(self._clock)
        yield Completions()
        with Horizontal(id="composing"):
            yield Static("> ", id="asks", markup=False)
            yield Composer()
        yield Lines("status", self._status_lines, most=1)

    def on_mount(self) -> None:
        composer = self._part(Composer)
        composer.focus()
        composer.put(self._drafts.load(self.chat.session_id, self.chat.cwd))
        self.set_interval(_TICK_S, self._tick)
        self.app_resume_signal.subscribe(self, self._resumed)
        if not self.is_headless:
            # the terminal is given back first
            for number in (signal.SIGTERM, signal.SIGHUP):
                asyncio.get_running_loop().add_signal_handler(number, self.leave)
        self._draw()
        self.call_after_refresh(self._begin)

    def _resumed(self, _app: App[None]) -> None:
        """The terminal is ours again, and empty."""
        self.refresh(layout=True)
        self.screen.refresh(repaint=True, layout=True)

    async def on_event(self, event: events.Event) -> None:
        """Keys that come before there is anything to type in are kept for it."""
        if self._early is not None and isinstance(event, events.Key):
            # typed before the terminal was ours: there, Enter is a line's end
            enter = event.key in ("ctrl+j", "enter")
            self._early.append(events.Key("enter", "\r") if enter else event)
            return
        await super().on_event(event)

    def _begin(self) -> None:
        reached("tui.painted")
        gc.freeze()
        gc.enable()
        early, self._early = self._early, None
        for key in early or []:
            self.post_message(key)
        self.run_worker(self._connect())
        # a thread of its own: while the hub is asked there is time
        self.run_worker(text.warm, thread=True, exit_on_error=False)
        self.run_worker(self._drafts.sweep, thread=True, exit_on_error=False)

    async def _connect(self) -> None:
        try:
            await self._connection.run()
        except LembasError as error:
            self.failure = error
            self.exit()

    def changed(self) -> None:
        """Draw soon; much that happens at once is drawn once."""
        if not self._draws:
            self._draws = True
            asyncio.get_running_loop().call_later(FRAME_S, self._draw)

    def _part(self, kind: type[W], name: str = "") -> W:
        """A widget of the chat's own screen, whatever list is open above it. Raises NoMatches once the program ends."""
        if not self.screen_stack:
            raise NoMatches("there is no screen any more")
        chat = self.screen_stack[0]
        return chat.query_one(name, kind) if name else chat.query_one(kind)

    def _draw(self) -> None:
        self._draws = False
        if len(self.screen_stack) != 1:
            return
        with suppress(NoMatches):
            composer, transcript = self._part(Composer), self.chat.transcript
            composer.queues = self.chat.activity.busy
            if transcript.generation != self._generation:
                self._generation = transcript.generation
                composer.recall.begins_with(transcript.typed)
            self._part(TranscriptView).show(transcript)
            for name in ("#banner", "#waiting", "#status"):
                self._part(Lines, name).show()
            self._draw_card()

    def _draw_card(self) -> None:
        view = self._part(CardView)
        cards = self.chat.cards
        if view.show(cards[0] if cards else None, len(cards) - 1):
            self._left_card = False
            if not self._is_looked_at:
                self.bell()
        if not cards:
            if view.has_focus:
                self._part(Composer).focus()
            if self._answering is not None:
                self._end_answering()
        self._offer_keys()

    def _offer_keys(self) -> None:
        """A card that waits has the keys once nobody is typing; who has left it comes back by a key."""
        view, composer = self._part(CardView), self._part(Composer)
        if not self.chat.cards or self._left_card or self._answering is not None:
            return
        quiet_s = self._clock() - self._typed_at
        if composer.has_focus and attention.may_take_keys(typed=composer.text, quiet_s=quiet_s):
            view.focus()

    def on_app_blur(self) -> None:
        self._is_looked_at = False

    def on_app_focus(self) -> None:
        self._is_looked_at = True

    def _tick(self) -> None:
        if len(self.screen_stack) != 1:
            return
        with suppress(NoMatches):
            self._offer_keys()
            if self.chat.activity.busy:
                self._part(Lines, "#status").show()

    def _banner_lines(self, width: int) -> list[Strip]:
        return text.plain(self.chat.banner, width, palette.WARN) if self.chat.banner else []

    def _waiting_lines(self, width: int) -> list[Strip]:
        lines: list[Strip] = []
        for label, how in self.chat.shown_waiting:
            lines += text.spans([(f"{how}  ", palette.BUSY), (label, palette.DIM)], width)
        for one in self.chat.attachments:
            lines += text.spans([("with  ", palette.BUSY), (one.name, palette.PLAIN)], width)
        return lines

    def _status_lines(self, width: int) -> list[Strip]:
        follows = self._part(TranscriptView).follows
        line = status_line.line(self.chat, self._clock(), width, follows=follows)
        left = [(f"{one.text}  ", _TONES[one.tone]) for one in line.left]
        right = [(f"  {one.text}", _TONES[one.tone]) for one in line.right]
        fill = max(0, width - sum(len(said) for said, _ in [*left, *right]))
        gap: list[tuple[str, Style]] = [(" " * fill, palette.PLAIN)]
        return text.spans([*left, *gap, *right], width)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Above a list the keys are the list's; only suspending is everybody's."""
        return action == "suspend_process" or len(self.screen_stack) == 1

    # ── keys ────────────────────────────────────────────────────────────────────────────────────

    def action_interrupt(self) -> None:
        """Ctrl-C: what is typed, the turn, the program, in this order."""
        composer = self._part(Composer)
        if self._answering is not None:
            self._end_answering()
        elif composer.text:
            composer.put("")
            self._composer_changed()
        elif self.chat.activity.busy and self._clock() - self._interrupted_at > _TWICE_S:
            self._interrupted_at = self._clock()
            self._connection.feed(inputs.Cancelled())
        elif self._clock() - self._interrupted_at > _TWICE_S:
            self._interrupted_at = self._clock()
            self._connection.feed(inputs.Said("Ctrl-C again leaves; the session goes on"))
        else:
            self.leave()

    def action_end(self) -> None:
        composer = self._part(Composer)
        if composer.text:
            composer.action_delete_right()
        else:
            self.leave()

    def action_escape(self) -> None:
        if self._part(Completions).found:
            self._show_completions([])
        elif self._answering is not None:
            self._end_answering()
        elif self._part(TranscriptView).has_focus:
            self._part(Composer).focus()
        elif self.chat.activity.busy:
            self._connection.feed(inputs.Cancelled())

    def action_cycle_mode(self) -> None:
        self._connection.feed(inputs.ModeCycled())

    def action_scroll(self, direction: int) -> None:
        card = self._part(CardView)
        if card.has_focus:
            card.scroll_body(direction)
        else:
            self._part(TranscriptView).scroll_page(direction)
            self._part(Lines, "#status").show()

    def action_to_start(self) -> None:
        self._part(TranscriptView).to_start()
        self._part(Lines, "#status").show()

    def action_to_end(self) -> None:
        self._part(TranscriptView).to_end()
        self._part(Lines, "#status").show()

    def action_calls(self) -> None:
        view = self._part(TranscriptView)
        if view.has_focus:
            self._part(Composer).focus()
        else:
            view.focus()

    def action_thoughts(self) -> None:
        self._part(TranscriptView).toggle_thoughts()

    def action_sessions(self) -> None:
        self.show_list("sessions", "")

    def action_answer(self) -> None:
        if self.chat.cards:
            self._part(CardView).focus()

    def on_key(self, event: events.Key) -> None:
        view = self._part(TranscriptView)
        if not view.has_focus:
            return
        match event.key:
            case "up" | "k":
                view.choose(-1)
            case "down" | "j":
                view.choose(1)
            case "enter" | "space":
                view.toggle()
            case _ if event.is_printable and event.character:
                composer = self._part(Composer)
                composer.focus()
                composer.insert(event.character)
            case _:
                return
        event.stop()

    # ── typing ──────────────────────────────────────────────────────────────────────────────────

    def on_composer_sent(self, sent: Composer.Sent) -> None:
        composer = self._part(Composer)
        if self._answering is not None:
            choice = self._answering
            self._end_answering()
            self._connection.feed(inputs.Chose(choice.key, sent.text))
            return
        composer.recall.sent(sent.text)
        self._composer_changed()
        self._part(TranscriptView).to_end()
        turn_id = f"turn_{self._random(_TURN_ID_BYTES).hex()}"
        self._connection.feed(inputs.Submitted(sent.text, turn_id, after=sent.after))
        self._save_draft()

    def on_composer_typed(self) -> None:
        self._typed_at = self._clock()
        self._composer_changed()

    def on_composer_pasted(self, pasted: Composer.Pasted) -> None:
        self._connection.read_file(pasted.path)

    def on_text_area_changed(self) -> None:
        self._composer_changed()

    def _composer_changed(self) -> None:
        if self._answering is None:
            self._complete()
            self._keep_draft()

    def _keep_draft(self) -> None:
        if self._draft_timer is not None:
            self._draft_timer.cancel()
        self._draft_timer = asyncio.get_running_loop().call_later(_DRAFT_S, self._save_draft)

    def _save_draft(self) -> None:
        if self._draft_timer is not None:
            self._draft_timer.cancel()
            self._draft_timer = None
        with suppress(NoMatches):
            typed = self._part(Composer).text
            draft = self._kept_draft if self._answering is not None else typed
            self._drafts.save(self.chat.session_id, self.chat.cwd, draft)

    # ── completions ─────────────────────────────────────────────────────────────────────────────

    def _complete(self) -> None:
        word = composing.word(self._part(Composer).before_cursor)
        if word == self._word:
            return
        self._word = word
        if word is None:
            self._show_completions([])
        elif word.kind == "command":
            found = commands.matching(self.chat.commands, word.typed)
            self._show_completions(
                [
                    Completion(f"/{one.name} ", f"/{one.name} {one.hint}".rstrip(), one.description)
                    for one in found
                ]
            )
        else:
            self._searching += 1
            self.run_worker(self._search(word, self._searching), exit_on_error=False)

    async def _search(self, word: composing.Word, number: int) -> None:
        try:
            answer = await self._connection.search_files(word.typed)
        except (NoHub, RequestRefused, TimeoutError):
            return
        if number != self._searching or word != self._word:
            return
        found = msgspec.json.decode(answer, type=FilesSearchResult).files
        self._show_completions(
            [
                Completion(
                    composing.mention(str(one["path"]), directory=one["kind"] == "dir"),
                    clean_line(str(one["path"])),
                )
                for one in found
                # a name that a terminal would obey is not typed
                if str(one["path"]).isprintable()
            ]
        )

    def _show_completions(self, found: list[Completion]) -> None:
        composer = self._part(Composer)
        composer.completing = bool(found)
        composer.is_whole = any(one.text.rstrip() == composer.text for one in found)
        self._part(Completions).fill(found)

    def on_composer_completed(self, completed: Composer.Completed) -> None:
        completions = self._part(Completions)
        if completed.what != "take":
            completions.step(1 if completed.what == "down" else -1)
        elif completions.chosen is not None and self._word is not None:
            self._part(Composer).complete(self._word.start, completions.chosen.text)
            self._complete()

    # ── cards ───────────────────────────────────────────────────────────────────────────────────

    def on_card_view_chosen(self, chosen: CardView.Chosen) -> None:
        self._connection.feed(inputs.Chose(chosen.key))

    def on_card_view_words(self, words: CardView.Words) -> None:
        composer = self._part(Composer)
        self._kept_draft, self._answering = composer.text, words.choice
        self._show_completions([])
        self._part(Static, "#asks").update(f"{words.choice.asks}: ")
        composer.put(words.choice.filled)
        composer.focus()

    def on_card_view_left(self) -> None:
        self._left_card = True
        self._part(Composer).focus()

    def _end_answering(self) -> None:
        self._answering = None
        self._part(Static, "#asks").update("> ")
        composer = self._part(Composer)
        composer.put(self._kept_draft)
        self._kept_draft = ""
        if self.chat.cards:
            self._part(CardView).focus()

    # ── what the chat wants of the screen ───────────────────────────────────────────────────────

    def show_list(self, what: str, typed: str) -> None:
        """A list to choose from; what has to be asked for comes into it."""
        from lembasd.tui import lists
        from lembasd.tui.widgets.picker import Picker

        search = partial(lists.said, self._paths) if what == "sessions" else None
        picker = Picker(lists.TITLES[what], typed, search)

        def chosen(value: str | None) -> None:
            self._draw()
            if value is not None:
                self._connection.feed(inputs.Picked(what, value))

        self.push_screen(picker, chosen)
        self.run_worker(self._fill(picker, what), exit_on_error=False)

    async def _fill(self, picker: "Picker", what: str) -> None:
        from lembasd.tui import lists

        try:
            picker.fill(await lists.items(what, self.chat, self._paths, self._ports))
        except LembasError as error:
            picker.dismiss(None)
            self._connection.feed(inputs.Said(str(error), "error"))
        except OSError as error:
            picker.dismiss(None)
            self._connection.feed(inputs.Said(says(error), "error"))

    def run_command(self, arguments: tuple[str, ...]) -> None:
        """In this terminal, which is taken back after it."""
        with self.suspend():
            self._ports.command(arguments)
            with suppress(EOFError, KeyboardInterrupt):
                input("Enter goes on in lembas ")
        self.refresh(layout=True)

    def copy_text(self, text: str) -> None:
        if not text:
            self._connection.feed(inputs.Said("there is no answer yet"))
            return
        self.copy_to_clipboard(text)
        self._connection.feed(inputs.Said("the last answer is on the clipboard"))

    def compose_text(self, text: str) -> None:
        with suppress(NoMatches):
            composer = self._part(Composer)
            typed = composer.text.strip()
            composer.put(f"{text}\n\n{composer.text}" if typed else text)

    def another_session(self) -> None:
        self._part(Composer).put(self._drafts.load(self.chat.session_id, self.chat.cwd))
        self._word = None
        self._show_completions([])

    def leave(self) -> None:
        """End the program; the session goes on."""
        self._save_draft()
        self._connection.close()
        self.exit()

    def on_unmount(self) -> None:
        if self._draft_timer is not None:
            self._draft_timer.cancel()
        self._connection.close()
