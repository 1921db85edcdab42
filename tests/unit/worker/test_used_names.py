"""Which files a session uses."""

import pytest

from lembasd.store.records import Assistant, Call, Note, ToolResult
from lembasd.worker.core.used_names import MAX_NAMES, UsedNames, below


def message(*calls: tuple[str, str, object]) -> Assistant:
    return Assistant(
        turn_id="t",
        message_id="m",
        model="m",
        calls=[
            Call(id=name, server_id=name, name=tool, arguments="", args=args)  # type: ignore[arg-type]
            for name, tool, args in calls
        ],
    )


def result(call_id: str, *, is_error: bool = False) -> ToolResult:
    return ToolResult(call_id=call_id, result_id="#0001", output="", is_error=is_error)


def test_what_a_prompt_mentions_is_used() -> None:
    used = UsedNames("/p")
    used.said("@src/a.py and\n@my\\ notes.md, see @a\\#b.md @src/ not me@example.org nor @")
    assert used.take() == ["src/a.py", "my notes.md,", "a#b.md", "src/"]
    assert used.take() == []


def test_what_a_tool_read_or_wrote_is_used_once_it_has() -> None:
    used = UsedNames("/p")
    used.recorded(
        message(
            ("1", "read", {"path": "a.py"}),
            ("2", "edit", {"path": "/p/src/../b.py"}),
            ("3", "write", {"path": "failed"}),
            ("4", "bash", {"path": "c"}),
            ("5", "read", {"path": 5}),
            ("6", "read", None),
            ("7", "read", {"path": "/etc/passwd"}),
        )
    )
    used.recorded(Note(text="x"))
    for call_id in ("1", "2", "4", "5", "6", "7", "8"):
        used.recorded(result(call_id))
    used.recorded(result("3", is_error=True))
    assert used.take() == ["a.py", "b.py"]


def test_a_turn_counts_so_many_names() -> None:
    used = UsedNames("/p")
    used.said(" ".join(f"@{number}" for number in range(MAX_NAMES + 5)))
    assert len(used.take()) == MAX_NAMES


@pytest.mark.parametrize(
    ("root", "path", "name"),
    [
        ("/p", "/p/a", "a"),
        ("/", "/a/b", "a/b"),
        ("/p", "src/", "src/"),
        ("/p", "/px", None),
        ("/p", "../x", None),
        ("/p", ".", None),
        ("/p", "./", None),
    ],
)
def test_a_path_has_its_name_below_the_root(root: str, path: str, name: str | None) -> None:
    assert below(root, path) == name
