"""What the person is asked: a card's text, its choices, and what each is as an answer on the wire. Pure.

A card takes a choice, some of them with words: a corrected command, a reason, an answer of one's own.
"""

from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Struct

from lembasd.protocol.acp import PermissionParams
from lembasd.protocol.interact import PlanParams, Question, QuestionParams
from lembasd.tui.core.plain import clean, clean_line

#: the methods that are cards
PERMISSION: Final = "session/request_permission"
QUESTION: Final = "_lembas/question"
PLAN: Final = "_lembas/plan"
METHODS: Final = frozenset({PERMISSION, QUESTION, PLAN})
#: how a part of a card's body is drawn
Style = Literal["plain", "code", "diff", "markdown"]

_permission: Final = msgspec.json.Decoder(PermissionParams)
_question: Final = msgspec.json.Decoder(QuestionParams)
_plan: Final = msgspec.json.Decoder(PlanParams)


class Choice(Struct, frozen=True):
    """`key` chooses it. `asks`: what words it needs, "" for none; `filled`: the words it begins with. `chosen`: of several."""

    key: str
    label: str
    asks: str = ""
    filled: str = ""
    chosen: bool | None = None


class Part(Struct, frozen=True):
    text: str
    style: Style = "plain"


class Card:
    """One card. `key` is its JSON-RPC id, `call_id` what it is known by when it is asked again or settled."""

    kind = ""
    title = ""

    def __init__(self, key: bytes, call_id: str) -> None:
        self.key = key
        self.call_id = call_id

    @property
    def body(self) -> list[Part]:
        raise NotImplementedError

    @property
    def choices(self) -> list[Choice]:
        raise NotImplementedError

    def choose(self, key: str, words: str = "") -> dict[str, Any] | None:
        """Take a choice; the answer, or None: the card goes on."""
        raise NotImplementedError


class PermissionCard(Card):
    """Whether a tool call may run."""

    kind = "permission"

    def __init__(self, key: bytes, params: PermissionParams) -> None:
        call, said = params.toolCall, params.meta.lembas
        super().__init__(key, call.toolCallId)
        command = call.rawInput.get("command")
        self.command = clean(command) if isinstance(command, str) else ""
        title = clean_line(call.title)
        # the command itself stands below
        self.title = "run a command" if self.command and title == self.command else title
        self._purpose = "" if said.purpose is UNSET else clean(said.purpose)
        self._reason = clean(said.reason)
        self._always = "" if said.always is UNSET else clean_line(said.always)
        self._content = [] if call.content is UNSET else call.content
        self._input = call.rawInput
        self._options: dict[str, str] = {one.kind: one.optionId for one in params.options}

    @property
    def body(self) -> list[Part]:
        parts = [Part(self._purpose)] if self._purpose else []
        if self.command:
            parts.append(Part(self.command, "code"))
        shown = [part for one in self._content if (part := _content(one)) is not None]
        parts += shown or _change(self._input)
        if self._reason:
            parts.append(Part(self._reason))
        return parts

    @property
    def choices(self) -> list[Choice]:
        choices = [Choice("y", "Allow once")]
        if "allow_always" in self._options:
            what = f": {self._always}" if self._always else ""
            choices.append(Choice("s", f"Allow for this session{what}"))
        choices.append(Choice("n", "Deny"))
        choices.append(Choice("f", "Deny and say why", asks="what should be done instead?"))
        if self.command:
            choices.append(
                Choice("e", "Edit the command, then allow it once", "the command", self.command)
            )
        return choices

    def choose(self, key: str, words: str = "") -> dict[str, Any] | None:
        match key:
            case "y":
                return self._selected("allow_once")
            case "s":
                return self._selected("allow_always")
            case "n":
                return self._selected("reject_once")
            case "f":
                return self._selected("reject_once", feedback=words)
            case _:
                return self._selected("allow_once", command=words)

    def _selected(self, kind: str, **said: str) -> dict[str, Any]:
        outcome = {"outcome": "selected", "optionId": self._options[kind]}
        return {"outcome": outcome, "_meta": {"lembas": said}} if said else {"outcome": outcome}


def _content(block: Any) -> Part | None:
    """A block of ACP's: a diff of two texts, or a text."""
    match block:
        case {"type": "diff", "path": str(path), "newText": str(new)}:
            changed = [*_signed("-", block.get("oldText")), *_signed("+", new)]
            return Part(clean("\n".join([f"--- {path}", *changed])), "diff")
        case {"type": "content", "content": {"type": "text", "text": str(text)}}:
            is_diff = text.startswith(("--- ", "diff ", "@@ "))
            return Part(clean(text), "diff" if is_diff else "plain")
        case _:
            return None


def _change(given: dict[str, Any]) -> list[Part]:
    """What a tool for files is about to change, as far as its arguments tell."""
    lines: list[str] = []
    for one in (given, *_dicts(given.get("edits"))):
        lines += _signed("-", one.get("old"))
        lines += _signed("+", one.get("new"))
        lines += _signed("+", one.get("content"))
    if not lines and isinstance(given.get("patch"), str):
        lines = given["patch"].splitlines()
    return [Part(clean("\n".join(lines)), "diff")] if lines else []


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _signed(sign: str, text: Any) -> list[str]:
    return [f"{sign}{line}" for line in text.splitlines()] if isinstance(text, str) else []


class QuestionCard(Card):
    """Up to four questions, one after the other."""

    kind = "question"

    def __init__(self, key: bytes, params: QuestionParams) -> None:
        super().__init__(key, params.toolCallId)
        self._why = "" if params.why is UNSET else clean(params.why)
        self._questions = params.questions
        self._answers: list[dict[str, Any]] = []
        self._chosen: list[str] = []

    @property
    def _now(self) -> Question:
        return self._questions[len(self._answers)]

    @property
    def title(self) -> str:  # type: ignore[override]  # it changes with the question
        count = len(self._questions)
        place = f"  ({len(self._answers) + 1} of {count})" if count > 1 else ""
        return clean_line(self._now.header) + place

    @property
    def body(self) -> list[Part]:
        parts = [Part(self._why)] if self._why else []
        return [*parts, Part(clean(self._now.question), "markdown")]

    @property
    def choices(self) -> list[Choice]:
        choices = []
        for number, option in enumerate(self._now.options, 1):
            about = [clean_line(option.label)]
            if option.description is not UNSET and option.description:
                about.append(clean_line(option.description))
            recommended = option.recommended is True
            label = " — ".join(about) + (" (recommended)" if recommended else "")
            chosen = option.label in self._chosen if self._now.multiple else None
            choices.append(Choice(str(number), label, chosen=chosen))
        if self._now.multiple:
            choices.append(Choice("d", "Done"))
        choices.append(Choice("w", "Answer in my own words", asks="your answer"))
        choices.append(Choice("b", "Ask something first", asks="your question"))
        choices.append(Choice("k", "Skip it"))
        choices.append(Choice("x", "Dismiss all"))
        return choices

    def choose(self, key: str, words: str = "") -> dict[str, Any] | None:
        match key:
            case "x":
                return {"outcome": "dismissed"}
            case "w":
                return self._answered({"kind": "custom", "text": words})
            case "b":
                return self._answered({"kind": "back", "text": words})
            case "k":
                return self._answered({"kind": "skipped"})
            case "d":
                return self._answered({"kind": "options", "labels": self._chosen})
        label = self._now.options[int(key) - 1].label
        if not self._now.multiple:
            return self._answered({"kind": "options", "labels": [label]})
        if label in self._chosen:
            self._chosen.remove(label)
        else:
            self._chosen.append(label)
        return None

    def _answered(self, answer: dict[str, Any]) -> dict[str, Any] | None:
        self._answers.append(answer)
        self._chosen = []
        if len(self._answers) < len(self._questions):
            return None
        return {"outcome": "answered", "answers": self._answers}


class PlanCard(Card):
    """A plan to approve."""

    kind = "plan"

    def __init__(self, key: bytes, params: PlanParams) -> None:
        super().__init__(key, params.toolCallId)
        self.title = f"Plan: {clean_line(params.path)}"
        self._text = clean(params.text)

    @property
    def body(self) -> list[Part]:
        return [Part(self._text, "markdown")]

    @property
    def choices(self) -> list[Choice]:
        return [
            Choice("y", "Approve, and edit without asking"),
            Choice("m", "Approve, and ask before each change"),
            Choice("r", "Have it revised", asks="what should be different?"),
            Choice("n", "Dismiss"),
        ]

    def choose(self, key: str, words: str = "") -> dict[str, Any] | None:
        match key:
            case "y":
                return {"outcome": "approve", "mode": "edit"}
            case "m":
                return {"outcome": "approve", "mode": "manual"}
            case "r":
                return {"outcome": "revise", "feedback": words}
            case _:
                return {"outcome": "dismissed"}


def read(method: str, key: bytes, params: bytes) -> Card | None:
    """The card of a request; None: it cannot be read."""
    try:
        if method == PERMISSION:
            return PermissionCard(key, _permission.decode(params))
        if method == PLAN:
            return PlanCard(key, _plan.decode(params))
        asked = _question.decode(params)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return QuestionCard(key, asked) if asked.questions else None
