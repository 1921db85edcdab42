"""What a permission, a question, a plan and a file to show differ in: who is asked, what is sent, how an answer is read."""

from itertools import count
from typing import Final, Literal, assert_never

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from lembasd.engine.api import (
    CardRequest,
    Decision,
    PlanOutcome,
    PlanRequest,
    QuestionOutcome,
    QuestionRequest,
    ShowOutcome,
    ShowRequest,
)
from lembasd.protocol import interact
from lembasd.protocol.acp import (
    CardLembas,
    CardMeta,
    PermissionOption,
    PermissionParams,
    PermissionResult,
    ToolCall,
    lowered,
)
from lembasd.protocol.control import Mode

Request = CardRequest | QuestionRequest | PlanRequest | ShowRequest
Outcome = Decision | QuestionOutcome | PlanOutcome | ShowOutcome
#: why a card ends that nobody answered: its time is over, nobody is there who could, the turn was cancelled, the only
#: answer that came is one that does not count
Why = Literal["timeout", "nobody", "cancelled", "void"]

_ONCE: Final = PermissionOption(optionId="once", name="Allow once", kind="allow_once")
_SESSION: Final = PermissionOption(
    optionId="session", name="Allow for this session", kind="allow_always"
)
_DENY: Final = PermissionOption(optionId="deny", name="Deny", kind="reject_once")
_TOO_LARGE: Final = (
    f"the file has more than {interact.MAX_SHOWN_BYTES // 1_000_000} MB, which is not sent; "
    "name its path to the person, or write a shorter one"
)
_NOT_SHOWN: Final = "the person's client did not show the file; name its path to the person"

_permission: Final = msgspec.json.Decoder(PermissionResult)
_question: Final = msgspec.json.Decoder(interact.QuestionResult)
_plan: Final = msgspec.json.Decoder(interact.PlanResult)
_show: Final = msgspec.json.Decoder(interact.ShowResult)


class Watcher(Struct, frozen=True):
    """An attached client, as far as cards go.

    `protocol` as it said, `shows`: it shows files. `opened`: the session was opened for it. `local`: a person here.
    """

    local: bool
    protocol: int = 0
    shows: bool = False
    opened: bool = False


def name(request: Request) -> str:
    """The kind, as the hub is told it."""
    match request:
        case CardRequest():
            return "permission"
        case QuestionRequest():
            return "question"
        case PlanRequest():
            return "plan"
        case ShowRequest():
            return "show"
        case _:
            assert_never(request)


def check(request: Request) -> None:
    """Raises ValueError for questions that no card holds: a fault of who asks."""
    if isinstance(request, QuestionRequest):
        if not 0 < len(request.questions) <= interact.MAX_QUESTIONS:
            raise ValueError(f"1 to {interact.MAX_QUESTIONS} questions are asked at once")
        if any(len(one.options) > interact.MAX_OPTIONS for one in request.questions):
            raise ValueError(f"a question has at most {interact.MAX_OPTIONS} options")


def refusal(request: Request) -> ShowOutcome | None:
    """Why it is put to nobody: a file that is too large to be sent."""
    if isinstance(request, ShowRequest):
        size = len(request.text.encode(errors="surrogatepass"))
        if size > interact.MAX_SHOWN_BYTES:
            return ShowOutcome(outcome="refused", reason=_TOO_LARGE)
    return None


def may_see(request: Request, watcher: Watcher) -> bool:
    """Whether a client is asked: a permission by all, the rest by who said that it knows it."""
    match request:
        case CardRequest():
            return True
        case QuestionRequest() | PlanRequest():
            return watcher.protocol >= interact.ASKED_FROM
        case ShowRequest():
            return watcher.shows and watcher.opened
        case _:
            assert_never(request)


# ── what is sent ────────────────────────────────────────────────────────────────────────────────


def sent(session_id: str, request: Request, *, patient: bool) -> tuple[str, Struct]:
    """Method and params. `patient`: a person at this machine may answer too."""
    match request:
        case CardRequest():
            params = _permission_params(session_id, request, patient=patient)
            return "session/request_permission", params
        case QuestionRequest():
            return "_lembas/question", interact.QuestionParams(
                sessionId=session_id,
                toolCallId=request.tool_call_id,
                questions=[_on_card(one) for one in request.questions],
                why=UNSET if request.why is None else request.why,
                meta=_patient_meta(patient=patient),
            )
        case PlanRequest():
            return "_lembas/plan", interact.PlanParams(
                sessionId=session_id,
                toolCallId=request.tool_call_id,
                path=request.path,
                text=request.text,
                plan=UNSET if request.plan is None else request.plan,
                meta=_patient_meta(patient=patient),
            )
        case ShowRequest():
            return "_lembas/show", interact.ShowParams(
                sessionId=session_id,
                toolCallId=request.tool_call_id,
                path=request.path,
                kind=request.kind,
                text=request.text,
                language=UNSET if request.language is None else request.language,
                line=UNSET if request.line is None else request.line,
            )
        case _:
            assert_never(request)


def _patient_meta(*, patient: bool) -> interact.PatientMeta:
    return interact.PatientMeta(interact.PatientLembas(True if patient else UNSET))


def _permission_params(session_id: str, card: CardRequest, *, patient: bool) -> PermissionParams:
    options = [_ONCE, _DENY] if card.always is None else [_ONCE, _SESSION, _DENY]
    return PermissionParams(
        sessionId=session_id,
        toolCall=ToolCall(
            toolCallId=card.tool_call_id,
            title=card.title,
            kind=card.kind,
            rawInput=card.args,
            content=UNSET if card.content is None else card.content,
        ),
        options=options,
        meta=CardMeta(
            lembas=CardLembas(
                reason=card.reason,
                purpose=UNSET if card.purpose is None else card.purpose,
                always=UNSET if card.always is None else card.always,
                patient=True if patient else UNSET,
            )
        ),
    )


def _on_card(question: interact.Question) -> interact.Question:
    """The question as it is sent: what is recommended first, labels cut."""
    labels = _card_labels(question)
    options = [
        replace(option, label=label) for label, option in zip(labels, question.options, strict=True)
    ]
    options.sort(key=lambda one: one.recommended is not True)
    return replace(question, options=options)


def _card_labels(question: interact.Question) -> list[str]:
    """The label of each option on the card. Of labels that differ only behind the cut, the later ones end in a number."""
    seen: dict[str, str] = {}
    labels: list[str] = []
    for option in question.options:
        label = option.label[: interact.MAX_LABEL_CHARS]
        numbers = count(2)
        while seen.get(label, option.label) != option.label:
            mark = f" ({next(numbers)})"
            label = option.label[: interact.MAX_LABEL_CHARS - len(mark)] + mark
        seen[label] = option.label
        labels.append(label)
    return labels


# ── what is answered ────────────────────────────────────────────────────────────────────────────


def read(request: Request, result: bytes, ceiling: Mode | None) -> Outcome | None:
    """What a client's result says; what cannot be read, or was not offered, allows nothing.

    `ceiling`: the widest mode that this client may choose, None: any. None: the answer decides nothing.
    """
    match request:
        case CardRequest():
            return read_permission(result, always=request.always is not None)
        case QuestionRequest():
            return _read_question(request, result)
        case PlanRequest():
            return _read_plan(result, ceiling)
        case ShowRequest():
            return _read_show(result)
        case _:
            assert_never(request)


def read_permission(result: bytes, *, always: bool) -> Decision:
    """What a result says of a permission; `always`: "allow for this session" was offered."""
    try:
        answer = _permission.decode(result)
    except (msgspec.MsgspecError, RecursionError):
        return Decision(outcome="deny")
    said, option = answer.meta.lembas, answer.outcome.optionId
    if answer.outcome.outcome == "selected":
        if option == "once":
            return Decision(outcome="once", command=said.command)
        if option == "session" and always:
            return Decision(outcome="session")
    return Decision(outcome="deny", feedback=said.feedback)


def _read_question(request: QuestionRequest, result: bytes) -> QuestionOutcome:
    dismissed = QuestionOutcome(outcome="dismissed")
    try:
        said = _question.decode(result)
    except (msgspec.MsgspecError, RecursionError):
        return dismissed
    if said.outcome != "answered" or len(said.answers) != len(request.questions):
        return dismissed
    answers: list[interact.Answer] = []
    for question, answer in zip(request.questions, said.answers, strict=True):
        read_one = _read_chosen(question, answer) if isinstance(answer, interact.Chosen) else answer
        if read_one is None:
            return dismissed
        answers.append(read_one)
    return QuestionOutcome(outcome="answered", answers=answers)


def _read_chosen(
    question: interact.Question, answer: interact.Chosen
) -> interact.Chosen | interact.Skipped | None:
    """The whole labels of what was chosen, each once; None: something that was not offered."""
    on_card = _card_labels(question)
    whole = dict(zip(on_card, (one.label for one in question.options), strict=True))
    chosen = list(dict.fromkeys(answer.labels))
    if any(label not in whole for label in chosen):
        return None
    if not chosen:
        return interact.Skipped()
    if len(chosen) > 1 and not question.multiple:
        return None
    return interact.Chosen([whole[label] for label in chosen])


def _read_plan(result: bytes, ceiling: Mode | None) -> PlanOutcome | None:
    try:
        said = _plan.decode(result)
    except (msgspec.MsgspecError, RecursionError):
        return PlanOutcome(outcome="dismissed")
    mode: Mode
    match said:
        case interact.PlanResult(outcome="approve", mode="edit" | "manual" as mode):
            mode = mode if ceiling is None else lowered(mode, ceiling)
            return None if mode == "plan" else PlanOutcome(outcome="approve", mode=mode)
        case interact.PlanResult(outcome="revise", feedback=str() as feedback):
            return PlanOutcome(outcome="revise", feedback=feedback)
        case _:
            return PlanOutcome(outcome="dismissed")


def _read_show(result: bytes) -> ShowOutcome:
    try:
        said = _show.decode(result)
    except (msgspec.MsgspecError, RecursionError):
        return ShowOutcome(outcome="refused", reason=_NOT_SHOWN)
    if said.shown:
        return ShowOutcome(outcome="shown")
    return ShowOutcome(outcome="refused", reason=said.reason or _NOT_SHOWN)


def unanswered(request: Request, why: Why, reason: str = "") -> Outcome:
    """How it ends without an answer. `reason`: of `void`, why the answer does not count."""
    match request, why:
        case CardRequest(), "timeout" | "cancelled":
            return Decision(outcome=why)
        case CardRequest(), _:
            return Decision(outcome="deny", feedback=reason or None)
        case QuestionRequest(), "nobody" | "cancelled":
            return QuestionOutcome(outcome=why)
        case QuestionRequest(), _:
            return QuestionOutcome(outcome="dismissed")
        case PlanRequest(), "nobody" | "cancelled":
            return PlanOutcome(outcome=why)
        case PlanRequest(), _:
            return PlanOutcome(outcome="dismissed")
        case _, "nobody" | "cancelled":
            return ShowOutcome(outcome=why)
        case _:
            return ShowOutcome(outcome="refused", reason=_NOT_SHOWN)
