"""What is sent of a question, a plan and a file, and how what is answered is read."""

from typing import Any

import msgspec
import pytest

from lembasd.engine.api import (
    PlanOutcome,
    PlanRequest,
    QuestionOutcome,
    QuestionRequest,
    ShowOutcome,
    ShowRequest,
)
from lembasd.engine.core import card_kinds
from lembasd.engine.core.card_kinds import Request, Watcher
from lembasd.protocol.control import Mode
from lembasd.protocol.interact import (
    MAX_SHOWN_BYTES,
    Back,
    Chosen,
    Custom,
    Option,
    Question,
    Skipped,
)

SESSION = "ses_" + "0" * 26
LONG = "x" * 240
DATABASE = Question(
    "DB", "Which database?", False, [Option("Postgres"), Option("SQLite", "one file", True)]
)
TESTS = Question(
    "T", "Which tests?", True, [Option("unit"), Option(LONG + "a"), Option(LONG + "b")]
)
QUESTIONS = QuestionRequest(tool_call_id="c1", questions=[DATABASE, TESTS], why="both would do")
PLAN = PlanRequest(tool_call_id="c2", path="p.md", text="# P")
SHOW = ShowRequest(tool_call_id="c3", path="a.txt", kind="text", text="é")


def params(request: Request, *, patient: bool = False) -> tuple[str, Any]:
    method, sent = card_kinds.sent(SESSION, request, patient=patient)
    return method, msgspec.to_builtins(sent)


def answered(*answers: dict[str, Any], outcome: str = "answered") -> bytes:
    return msgspec.json.encode({"outcome": outcome, "answers": answers})


def chosen(*labels: str) -> dict[str, Any]:
    return {"kind": "options", "labels": labels}


def test_a_question_is_sent_with_what_is_recommended_first_and_its_labels_cut() -> None:
    method, sent = params(QUESTIONS, patient=True)
    assert method == "_lembas/question"
    assert sent == {
        "sessionId": SESSION,
        "toolCallId": "c1",
        "why": "both would do",
        "questions": [
            {
                "header": "DB",
                "question": "Which database?",
                "multiple": False,
                "options": [
                    {"label": "SQLite", "description": "one file", "recommended": True},
                    {"label": "Postgres"},
                ],
            },
            {
                "header": "T",
                "question": "Which tests?",
                "multiple": True,
                "options": [
                    {"label": "unit"},
                    {"label": LONG},
                    {"label": "x" * 236 + " (2)"},
                ],
            },
        ],
        "_meta": {"lembas": {"patient": True}},
    }


def test_what_a_plan_and_a_file_have_not_is_left_out() -> None:
    assert params(PLAN) == (
        "_lembas/plan",
        {
            "sessionId": SESSION,
            "toolCallId": "c2",
            "path": "p.md",
            "text": "# P",
            "_meta": {"lembas": {}},
        },
    )
    assert params(SHOW) == (
        "_lembas/show",
        {"sessionId": SESSION, "toolCallId": "c3", "path": "a.txt", "kind": "text", "text": "é"},
    )


@pytest.mark.parametrize(
    "questions",
    [
        [],
        [DATABASE] * 5,
        [Question("h", "q", False, [Option(str(n)) for n in range(7)])],
    ],
)
def test_questions_that_no_card_holds_are_a_fault(questions: list[Question]) -> None:
    with pytest.raises(ValueError, match=r"at once|at most"):
        card_kinds.check(QuestionRequest(tool_call_id="c", questions=questions))


def test_as_many_questions_and_options_as_a_card_holds_are_none() -> None:
    full = Question("h", "q", False, [Option(str(n)) for n in range(6)])
    card_kinds.check(QuestionRequest(tool_call_id="c", questions=[full] * 4))


def test_a_file_of_more_than_a_megabyte_is_put_to_nobody() -> None:
    most = msgspec.structs.replace(SHOW, text="é" * (MAX_SHOWN_BYTES // 2))
    assert card_kinds.refusal(most) is None
    assert card_kinds.refusal(PLAN) is None
    refused = card_kinds.refusal(msgspec.structs.replace(most, text=most.text + "a"))
    assert refused is not None
    assert refused.outcome == "refused"
    assert "1 MB" in refused.reason


@pytest.mark.parametrize(
    ("watcher", "sees"),
    [
        (Watcher(local=False), []),
        (Watcher(local=False, protocol=1, shows=True), []),
        (Watcher(local=False, protocol=1, shows=True, opened=True), [SHOW]),
        (Watcher(local=True, protocol=2, opened=True), [QUESTIONS, PLAN]),
        (Watcher(local=False, protocol=3, shows=True, opened=True), [QUESTIONS, PLAN, SHOW]),
    ],
)
def test_only_who_said_that_it_knows_a_kind_is_asked(watcher: Watcher, sees: list[Request]) -> None:
    kinds: list[Request] = [QUESTIONS, PLAN, SHOW]
    assert [one for one in kinds if card_kinds.may_see(one, watcher)] == sees


@pytest.mark.parametrize(
    ("result", "answers"),
    [
        (answered(chosen("SQLite"), chosen("unit")), [Chosen(["SQLite"]), Chosen(["unit"])]),
        (
            answered(chosen("Postgres"), chosen(LONG, "x" * 236 + " (2)", LONG)),
            [Chosen(["Postgres"]), Chosen([LONG + "a", LONG + "b"])],
        ),
        (
            answered({"kind": "custom", "text": "MySQL"}, {"kind": "back", "text": "why?"}),
            [Custom("MySQL"), Back("why?")],
        ),
        (answered({"kind": "skipped"}, chosen()), [Skipped(), Skipped()]),
    ],
)
def test_answers_name_whole_labels(result: bytes, answers: list[Any]) -> None:
    assert card_kinds.read(QUESTIONS, result, None) == QuestionOutcome(
        outcome="answered", answers=answers
    )


@pytest.mark.parametrize(
    "result",
    [
        b'{"outcome":"dismissed"}',
        b"null",
        b"[" * 5000 + b"]" * 5000,
        answered(chosen("SQLite"), chosen("unit"), outcome="later"),
        answered(chosen("SQLite")),
        answered(chosen("SQLite"), chosen("unit"), chosen("unit")),
        answered(chosen("SQLite", "Postgres"), chosen("unit")),
        answered(chosen("Oracle"), chosen("unit")),
        answered(chosen("SQLite"), {"kind": "perhaps"}),
        answered(chosen("SQLite"), {"kind": "custom"}),
    ],
)
def test_anything_else_reads_as_dismissed(result: bytes) -> None:
    assert card_kinds.read(QUESTIONS, result, None) == QuestionOutcome(outcome="dismissed")


@pytest.mark.parametrize(
    ("result", "ceiling", "outcome"),
    [
        (b'{"outcome":"approve","mode":"edit"}', None, PlanOutcome(outcome="approve", mode="edit")),
        (
            b'{"outcome":"approve","mode":"edit"}',
            "auto",
            PlanOutcome(outcome="approve", mode="edit"),
        ),
        (
            b'{"outcome":"approve","mode":"edit"}',
            "manual",
            PlanOutcome(outcome="approve", mode="manual"),
        ),
        (b'{"outcome":"approve","mode":"manual"}', "plan", None),
        (b'{"outcome":"approve","mode":"auto"}', None, PlanOutcome(outcome="dismissed")),
        (b'{"outcome":"approve"}', None, PlanOutcome(outcome="dismissed")),
        (
            b'{"outcome":"revise","feedback":"shorter"}',
            "plan",
            PlanOutcome(outcome="revise", feedback="shorter"),
        ),
        (b'{"outcome":"revise"}', None, PlanOutcome(outcome="dismissed")),
        (b'{"outcome":"dismissed"}', None, PlanOutcome(outcome="dismissed")),
        (b'"yes"', None, PlanOutcome(outcome="dismissed")),
    ],
)
def test_a_plans_mode_is_lowered_and_one_that_cannot_be_decides_nothing(
    result: bytes, ceiling: Mode | None, outcome: PlanOutcome | None
) -> None:
    assert card_kinds.read(PLAN, result, ceiling) == outcome


def test_a_file_is_shown_or_not_for_a_reason() -> None:
    assert card_kinds.read(SHOW, b'{"shown":true}', None) == ShowOutcome(outcome="shown")
    said = card_kinds.read(SHOW, b'{"shown":false,"reason":"no viewer"}', None)
    assert said == ShowOutcome(outcome="refused", reason="no viewer")
    for result in (b'{"shown":false}', b'{"shown":1}'):
        unsaid = card_kinds.read(SHOW, result, None)
        assert isinstance(unsaid, ShowOutcome)
        assert unsaid.outcome == "refused"
        assert unsaid.reason
