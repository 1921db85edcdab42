"""What a session asks of a person beside permissions: `_lembas/question`, `_lembas/plan`, `_lembas/show` (link.md).

Field names are the wire's. What cannot be read of an answer is no answer: the caller takes it for dismissed.
"""

from typing import Any, Final, Literal

from msgspec import UNSET, Struct, UnsetType, field

from lembasd.protocol.acp import Params
from lembasd.protocol.limits import MB

#: the protocol from which on a client is asked questions and shown plans
ASKED_FROM: Final = 2
#: questions of one card, and options of one question; more are a fault of who asks
MAX_QUESTIONS: Final = 4
MAX_OPTIONS: Final = 6
#: characters of an option's label on the card; the rest is cut, and the answer is the whole label all the same
MAX_LABEL_CHARS: Final = 240
#: UTF-8 bytes of a file that is shown; a larger one is refused before it is sent
MAX_SHOWN_BYTES: Final = MB

#: what a file is shown as
ShownAs = Literal["markdown", "code", "text", "html"]


class PatientLembas(Params, frozen=True):
    """`patient`: a person at this machine may answer too, so the client does not time the card out."""

    patient: bool | UnsetType = UNSET


class PatientMeta(Params, frozen=True):
    lembas: PatientLembas


# ── _lembas/question ────────────────────────────────────────────────────────────────────────────


class Option(Params, frozen=True):
    label: str
    description: str | UnsetType = UNSET
    recommended: bool | UnsetType = UNSET


class Question(Struct, frozen=True):
    """`multiple`: any number of the options may be chosen."""

    header: str
    question: str
    multiple: bool
    options: list[Option]


class QuestionParams(Struct, frozen=True):
    sessionId: str
    toolCallId: str
    questions: list[Question]
    why: str | UnsetType = UNSET
    meta: PatientMeta = field(name="_meta", default=PatientMeta(PatientLembas()))


class Chosen(Struct, frozen=True, tag_field="kind", tag="options"):
    """Options of the question, by their labels."""

    labels: list[str]


class Custom(Struct, frozen=True, tag_field="kind", tag="custom"):
    """The person's own words."""

    text: str


class Back(Struct, frozen=True, tag_field="kind", tag="back"):
    """A question of the person's own, which the model answers before it asks again."""

    text: str


class Skipped(Struct, frozen=True, tag_field="kind", tag="skipped"):
    """The question was left blank."""


Answer = Chosen | Custom | Back | Skipped


class QuestionResult(Struct, frozen=True):
    """`answered` with an answer for each question, in order; any other outcome is `dismissed`."""

    outcome: str
    answers: list[Answer] = []


# ── _lembas/plan ────────────────────────────────────────────────────────────────────────────────


class PlanParams(Struct, frozen=True):
    """`path`: the plan's file, relative to the project; `text`: the plan as markdown; `plan`: its structure."""

    sessionId: str
    toolCallId: str
    path: str
    text: str
    plan: Any = UNSET
    meta: PatientMeta = field(name="_meta", default=PatientMeta(PatientLembas()))


class PlanResult(Struct, frozen=True):
    """`approve` with a mode, `revise` with feedback; any other outcome is `dismissed`."""

    outcome: str
    mode: str | None = None
    feedback: str | None = None


# ── _lembas/show ────────────────────────────────────────────────────────────────────────────────


class ShowParams(Params, frozen=True):
    """`path` is relative to the session's directory; `line`, from 1 on, is the one to look at."""

    sessionId: str
    toolCallId: str
    path: str
    kind: ShownAs
    text: str
    language: str | UnsetType = UNSET
    line: int | UnsetType = UNSET


class ShowResult(Struct, frozen=True):
    """`reason`: why it is not shown."""

    shown: bool
    reason: str | None = None
