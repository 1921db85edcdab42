"""`lembas sessions show|export|search`, where no hub runs."""

from pathlib import Path

import pytest

from lembasd.cli.core import exported
from lembasd.protocol.lembas import AssistantTurn, AttachmentInfo, HistoryTool, UserTurn
from lembasd.store.core.fold import SessionView
from tests.support.command_line import CommandLine
from tests.support.stored_sessions import store

MARKDOWN = """\
# A title

`/project` · m · {id}

## You

look

## Assistant

I did.

**read**

```json
{{
  "path": "a"
}}
```
"""


def test_a_session_is_shown_by_the_beginning_of_its_id(run: CommandLine) -> None:
    found = store(run.paths, 7, ("look", "I \x1b[31mdid."), output="fine")
    store(run.paths, 8)
    shown = run.lembas("sessions", "show", found[4:])
    assert shown.out == MARKDOWN.format(id=found).replace("I did.", "I  [31mdid.")
    whole = run.lembas("sessions", "show", found, "--json").value
    assert [one["role"] for one in whole["turns"]] == ["user", "assistant"]
    assert whole["turns"][1]["tools"][0]["output"] == "fine"
    many = run.lembas("sessions", "show", "ses_0")
    assert (many.code, many.err) == (2, "'ses_0' stands for 2 sessions; write more of the id\n")
    none = run.lembas("sessions", "show", "ses_9")
    assert (none.code, none.err) == (2, "'ses_9' is no session; see `lembas sessions list`\n")
    gone = run.lembas("sessions", "show", "ses_" + "9" * 26)
    assert gone.code == 1
    assert "there is no session" in gone.err


def test_a_session_is_exported_to_a_file_that_is_not_there(
    run: CommandLine, tmp_path: Path
) -> None:
    found = store(run.paths, 7, ("look", "I did."), output="fine")
    file = tmp_path / "out.md"
    assert run.lembas("sessions", "export", found, "-o", str(file)).code == 0
    assert file.read_text() == MARKDOWN.format(id=found) + "\n```\nfine\n```\n"
    again = run.lembas("sessions", "export", found, "-o", str(file))
    assert (again.code, again.err) == (1, f"{file} is there already; name another file\n")
    value = run.lembas("sessions", "export", found, "--format", "json").value
    assert (value["session_id"], value["title"], value["mode"]) == (found, "A title", "edit")


def test_sessions_are_searched(run: CommandLine) -> None:
    found = store(run.paths, 7, ("where is the bug", "In the parser."))
    done = run.lembas("sessions", "search", "parser")
    assert done.out.splitlines()[1] == "    In the parser."
    assert done.out.startswith(found)
    (row,) = run.lembas("sessions", "search", "the", "parser", "--json").value["sessions"]
    assert (row["session_id"], row["role"], row["excerpt"]) == (
        found,
        "assistant",
        "In the parser.",
    )
    none = run.lembas("sessions", "search", "lexer")
    assert (none.code, none.out, none.err) == (1, "", "these words were said in no session\n")
    assert run.lembas("sessions", "search", "*").code == 1


@pytest.mark.parametrize("output", ["a\n```\nb", "plain"])
def test_no_output_ends_the_block_that_it_is_in(output: str) -> None:
    tool = HistoryTool(id="c", name="read", args={}, output=output, isError=True)
    view = SessionView(history=[AssistantTurn(text="", reasoning="", tools=[tool])])
    fence = "````" if "```" in output else "```"
    text = exported.as_markdown("ses_1", view)
    assert f"\n{fence}\n{output}\n{fence}\n" in text
    assert "**read** (failed)" in text
    assert text.startswith("# ses_1\n")


def test_a_long_output_is_cut_in_its_middle_and_files_are_named() -> None:
    tool = HistoryTool(id="c", name="read", args={}, output="a" * 3000 + "b" * 3000)
    asked = UserTurn(text="look", attachments=[AttachmentInfo("x.png", "image/png", 3)])
    empty = AssistantTurn(text="", reasoning="hm", tools=[])
    view = SessionView(history=[asked, empty, AssistantTurn(text="", reasoning="", tools=[tool])])
    text = exported.as_markdown("ses_1", view)
    assert "- x.png (image/png, 3 bytes)" in text
    assert "a\n… 2000 characters left out …\nb" in text
    assert text.count("## Assistant") == 1
