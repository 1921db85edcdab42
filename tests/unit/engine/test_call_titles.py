"""What a call is shown as: nothing the model says of it, and no character that shows something else."""

import pytest

from lembasd.engine.native.core.call_titles import card_title, led_elsewhere, title, warnings
from lembasd.protocol.limits import MAX_TITLE_CHARS


def test_a_card_shows_the_command_and_not_what_the_model_says_of_it() -> None:
    args = {"command": "rm -r build", "description": "run the tests"}
    assert (title("bash", args), card_title("bash", args)) == ("run the tests", "rm -r build")


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("echo hi\nrm -r x", "echo hi\\nrm -r x"),
        ("echo \x1b[2K\rls", "echo \\x1b[2K\\rls"),
        ("rm \u202etxt.exe", "rm \\u202etxt.exe"),
        ("ls \u200bx", "ls \\u200bx"),
        ("echo \udc80", "echo \\udc80"),
        ("x" * 201, "x" * (MAX_TITLE_CHARS - 1) + "…"),
        ("\u202e" * 150, ("\\u202e" * 150)[: MAX_TITLE_CHARS - 1] + "…"),
    ],
)
def test_a_title_is_one_line_of_what_can_be_seen(command: str, shown: str) -> None:
    assert card_title("bash", {"command": command}) == shown
    assert title("bash", {"command": "ls", "description": command.replace("\n", " ")}) == (
        shown.replace("\\n", " ")
    )


def test_every_other_call_is_shown_by_what_it_is_about() -> None:
    assert [
        card_title("write", {"path": "a\u202eb", "content": "x"}),
        card_title("settings", {"key": "mode", "value": "plan\n"}),
        card_title("list", {}),
    ] == ["write a\\u202eb", "settings mode plan\\n", "list"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"command": "ls -l"}, ""),
        ({"command": "printf 'a\tb'\necho ünï 👩\u200d🚀"}, ""),
        ({"command": 7}, ""),
        (
            {"command": "a\u202eb\u2066c\u202e"},
            "; it holds characters that are not shown as they are: U+202E, U+2066",
        ),
        (
            {"path": "x", "edits": [{"old": "\x1b[8m"}, ["\u200b"]], "key\r": None},
            "; it holds characters that are not shown as they are: U+000D, U+001B, U+200B",
        ),
        (
            {"command": "\n" * 10},
            "; it is long (11 lines, 10 characters): look at all of it",
        ),
        (
            {"command": "x" * 1001},
            "; it is long (1 lines, 1001 characters): look at all of it",
        ),
    ],
)
def test_a_card_says_what_in_it_is_not_as_it_looks(args: dict[str, object], said: str) -> None:
    assert warnings(args) == said


def test_a_call_that_only_runs_is_shown_by_what_it_is_about() -> None:
    assert title("read", {"path": "a"}) == "read a"
    assert title("bash", {"command": "ls"}) == "ls"


def test_a_card_names_the_paths_that_lead_elsewhere() -> None:
    paths = {"a": ("/p/a", "/p/a"), "b\u202e": ("/p/b", "/x\n")}
    assert led_elsewhere(paths) == "; b\\u202e leads to /x\\n"
