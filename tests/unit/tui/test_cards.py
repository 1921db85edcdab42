"""Cards: what is asked, and what each choice is on the wire."""

from typing import Any

import msgspec
import pytest

from lembasd.tui.core import cards
from lembasd.tui.core.cards import Card, Part

OPTIONS = [
    {"optionId": "once", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "session", "name": "Allow", "kind": "allow_always"},
    {"optionId": "deny", "name": "Deny", "kind": "reject_once"},
]


def card(method: str, **params: Any) -> Card:
    found = cards.read(method, b'"k"', msgspec.json.encode({"sessionId": "s", **params}))
    assert found is not None
    return found


def permission(given: dict[str, Any], options: list[dict[str, str]] = OPTIONS, **said: Any) -> Card:
    content = {"content": said.pop("content")} if "content" in said else {}
    call = {"toolCallId": "c", "title": "a title", "kind": "edit", "rawInput": given, **content}
    meta = {"lembas": {"reason": "why", **said}}
    return card(cards.PERMISSION, toolCall=call, options=options, _meta=meta)


def question(*questions: dict[str, Any], **params: Any) -> Card:
    return card(cards.QUESTION, toolCallId="q", questions=list(questions), **params)


ONE = {
    "header": "DB",
    "question": "Which?",
    "multiple": False,
    "options": [
        {"label": "SQLite", "description": "small", "recommended": True},
        {"label": "Postgres", "description": ""},
    ],
}


def test_a_command_is_shown_with_its_reason_and_can_be_edited() -> None:
    one = permission({"command": "ls\x1b[2J"}, purpose="to look", always="ls *")
    assert (one.key, one.call_id, one.title, one.kind) == (b'"k"', "c", "a title", "permission")
    assert one.body == [Part("to look"), Part("ls", "code"), Part("why")]
    assert [(each.key, each.label, each.asks, each.filled) for each in one.choices] == [
        ("y", "Allow once", "", ""),
        ("s", "Allow for this session: ls *", "", ""),
        ("n", "Deny", "", ""),
        ("f", "Deny and say why", "what should be done instead?", ""),
        ("e", "Edit the command, then allow it once", "the command", "ls"),
    ]


@pytest.mark.parametrize(
    ("key", "words", "answer"),
    [
        ("y", "", {"outcome": {"outcome": "selected", "optionId": "once"}}),
        ("s", "", {"outcome": {"outcome": "selected", "optionId": "session"}}),
        ("n", "", {"outcome": {"outcome": "selected", "optionId": "deny"}}),
        (
            "f",
            "not here",
            {
                "outcome": {"outcome": "selected", "optionId": "deny"},
                "_meta": {"lembas": {"feedback": "not here"}},
            },
        ),
        (
            "e",
            "ls -l",
            {
                "outcome": {"outcome": "selected", "optionId": "once"},
                "_meta": {"lembas": {"command": "ls -l"}},
            },
        ),
    ],
)
def test_each_choice_of_a_permission_is_an_answer(key: str, words: str, answer: Any) -> None:
    assert permission({"command": "ls"}).choose(key, words) == answer


def test_a_command_is_not_said_twice() -> None:
    call = {"toolCallId": "c", "title": "ls", "kind": "execute", "rawInput": {"command": "ls"}}
    meta = {"lembas": {"reason": ""}}
    one = card(cards.PERMISSION, toolCall=call, options=OPTIONS, _meta=meta)
    assert (one.title, one.body) == ("run a command", [Part("ls", "code")])


def test_always_is_offered_only_where_the_session_offers_it() -> None:
    one = permission({"path": "a"}, [OPTIONS[0], OPTIONS[2]], reason="")
    assert [each.key for each in one.choices] == ["y", "n", "f"]
    assert one.body == []
    assert "s" in [each.key for each in permission({}).choices]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"old": "a\nb", "new": "c"}, "-a\n-b\n+c"),
        ({"content": "x\ny"}, "+x\n+y"),
        ({"edits": [{"old": "a", "new": "b"}, 3]}, "-a\n+b"),
        ({"patch": "*** a\n+b"}, "*** a\n+b"),
    ],
)
def test_a_change_of_a_file_is_shown_from_its_arguments(given: dict[str, Any], shown: str) -> None:
    assert permission(given).body == [Part(shown, "diff"), Part("why")]


def test_what_the_session_sends_to_be_shown_comes_first() -> None:
    content = [
        {"type": "diff", "path": "a.py", "oldText": "x", "newText": "y"},
        {"type": "diff", "path": "b.py", "oldText": None, "newText": "z"},
        {"type": "content", "content": {"type": "text", "text": "--- a\n+++ b"}},
        {"type": "content", "content": {"type": "text", "text": "words"}},
        {"type": "terminal"},
    ]
    assert permission({"old": "x"}, content=content).body == [
        Part("--- a.py\n-x\n+y", "diff"),
        Part("--- b.py\n+z", "diff"),
        Part("--- a\n+++ b", "diff"),
        Part("words"),
        Part("why"),
    ]


def test_a_question_is_answered_by_a_label() -> None:
    one = question(ONE, why="to begin")
    assert (one.title, one.call_id) == ("DB", "q")
    assert one.body == [Part("to begin"), Part("Which?", "markdown")]
    assert [(each.key, each.label) for each in one.choices] == [
        ("1", "SQLite — small (recommended)"),
        ("2", "Postgres"),
        ("w", "Answer in my own words"),
        ("b", "Ask something first"),
        ("k", "Skip it"),
        ("x", "Dismiss all"),
    ]
    answer = {"outcome": "answered", "answers": [{"kind": "options", "labels": ["Postgres"]}]}
    assert one.choose("2") == answer


def test_several_options_are_chosen_before_it_is_done() -> None:
    one = question({**ONE, "multiple": True})
    assert [one.choose("1"), one.choose("2"), one.choose("1")] == [None, None, None]
    assert [each.chosen for each in one.choices][:3] == [False, True, None]
    answer = {"outcome": "answered", "answers": [{"kind": "options", "labels": ["Postgres"]}]}
    assert one.choose("d") == answer


def test_several_questions_are_answered_one_after_the_other() -> None:
    one = question(ONE, ONE, ONE, ONE)
    assert one.title == "DB  (1 of 4)"
    assert one.choose("w", "mine") is None
    assert (one.title, one.choose("b", "why so?"), one.choose("k")) == ("DB  (2 of 4)", None, None)
    assert one.choose("1") == {
        "outcome": "answered",
        "answers": [
            {"kind": "custom", "text": "mine"},
            {"kind": "back", "text": "why so?"},
            {"kind": "skipped"},
            {"kind": "options", "labels": ["SQLite"]},
        ],
    }


def test_a_question_is_dismissed() -> None:
    assert question(ONE).choose("x") == {"outcome": "dismissed"}


@pytest.mark.parametrize(
    ("key", "words", "answer"),
    [
        ("y", "", {"outcome": "approve", "mode": "edit"}),
        ("m", "", {"outcome": "approve", "mode": "manual"}),
        ("r", "smaller", {"outcome": "revise", "feedback": "smaller"}),
        ("n", "", {"outcome": "dismissed"}),
    ],
)
def test_each_choice_of_a_plan_is_an_answer(key: str, words: str, answer: Any) -> None:
    one = card(cards.PLAN, toolCallId="p", path="plan.md", text="# Plan")
    assert (one.title, one.body) == ("Plan: plan.md", [Part("# Plan", "markdown")])
    assert key in [each.key for each in one.choices]
    assert one.choose(key, words) == answer


@pytest.mark.parametrize("method", sorted(cards.METHODS))
def test_what_cannot_be_read_is_no_card(method: str) -> None:
    assert cards.read(method, b"1", b'{"sessionId": 3}') is None


def test_a_card_without_questions_is_none() -> None:
    params = {"sessionId": "s", "toolCallId": "q", "questions": []}
    assert cards.read(cards.QUESTION, b"1", msgspec.json.encode(params)) is None


def test_the_root_of_all_cards_has_nothing_to_show() -> None:
    one = Card(b"1", "c")
    for use in (lambda: one.body, lambda: one.choices, lambda: one.choose("y")):
        with pytest.raises(NotImplementedError):
            use()
