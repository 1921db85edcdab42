"""What `/name` stands for: what was typed, what files define, how texts are filled."""

import pytest

from lembasd.engine.native.core.commands import (
    Command,
    Typed,
    filled,
    is_name,
    offered,
    read,
    together,
    typed,
)
from lembasd.protocol.lembas import (
    AvailableCommand,
    CommandInput,
    CommandLembas,
    CommandMeta,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/review", Typed("review", "")),
        ("/review  head \n", Typed("review", "head")),
        ("/plan\na way\nout", Typed("plan", "a way\nout")),
        ("/my-own_1 x", Typed("my-own_1", "x")),
        ("/src/a.py", None),
        ("/^a$/", None),
        ("/", None),
        ("/ review", None),
        (" /review", None),
        ("see /review", None),
        ("/" + "x" * 65, None),
        ("/-x", None),
    ],
)
def test_a_text_that_starts_with_a_name_may_be_a_command(text: str, found: Typed | None) -> None:
    assert typed(text) == found


@pytest.mark.parametrize(
    ("name", "can_be"),
    [
        ("port", True),
        ("p-1_x", True),
        ("review", False),
        ("theme", False),
        ("A", False),
        ("", False),
    ],
)
def test_a_file_cannot_take_a_name_that_is_given_already(name: str, can_be: bool) -> None:
    assert is_name(name) == can_be


def custom(description: str, body: str, **more: object) -> Command:
    return Command("x", description, kind="custom", body=body, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("# Port it\n\nDo.", custom("Port it", "# Port it\n\nDo.")),
        ("", custom("x", "")),
        (
            '---\r\ndescription: "Port it"\r\nargument-hint: <file>\r\nmode: plan\r\n# no\r\n---\r\nDo.\r\n',
            custom("Port it", "Do.", hint="<file>", mode="plan"),
        ),
        (
            "\ufeff---\nhint: a\nargument-hint: b\nmode: wild\n---\nDo.",
            custom("Do.", "Do.", hint="a"),
        ),
        (
            "---\nnot closed",
            custom("---", "---\nnot closed"),
        ),
        ("---\ndescription: " + "d" * 300 + "\n---\nDo.", custom("d" * 199 + "…", "Do.")),
        ("---\ndescription: a\tb\x1b[1m\n---\nDo.", custom("a b [1m", "Do.")),
        ("---\n---\n", custom("x", "")),
    ],
)
def test_a_file_defines_a_command(text: str, command: Command) -> None:
    assert read("x", text, own=False) == command


@pytest.mark.parametrize(
    ("body", "args", "text"),
    [
        ("Do it.", "", "Do it."),
        ("Do it.", "now", "Do it.\n\nnow"),
        ("Do $ARGUMENTS!", "a b", "Do a b!"),
        ("Do $ARGUMENTS!", "", "Do !"),
        ("$2 of $1, not $3 or $10", "a 'b c'", "b c of a, not  or $10"),
        ("Say $1.", '"$2 $ARGUMENTS" x', "Say $2 $ARGUMENTS."),
        ("$ARGUMENTSX stays", "a", "$ARGUMENTSX stays\n\na"),
    ],
)
def test_a_text_is_filled_with_what_was_typed(body: str, args: str, text: str) -> None:
    assert filled(body, args) == text


def test_the_set_has_an_order_and_the_persons_own_names_win() -> None:
    project = [custom("theirs", "p"), Command("zap", "Zap", kind="custom", body="z")]
    own = [Command("x", "mine", kind="custom", body="o", own=True)]
    found = together(project, own)
    assert [*found] == [
        *("compact", "plan", "undo", "review", "changelog", "init", "continue", "zap", "x")
    ]
    assert found["x"].body == "o"
    assert offered({"review": found["review"], "zap": found["zap"]}) == [
        AvailableCommand(
            "review",
            "Review what has changed",
            CommandInput("head | <branch>"),
            CommandMeta(CommandLembas("builtin")),
        ),
        AvailableCommand("zap", "Zap", meta=CommandMeta(CommandLembas("custom"))),
    ]
