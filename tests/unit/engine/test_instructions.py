"""Which instruction files a session begins with."""

from pathlib import PurePosixPath

from lembasd.engine.native.core.instructions import (
    MAX_CHARS,
    Instruction,
    changes,
    digests,
    rendered,
    stacked,
)
from lembasd.harness.loader import LOOP

ROOT = PurePosixPath("/p")


def found(start: str, **files: str) -> list[Instruction]:
    texts = {
        PurePosixPath(name.replace("__", "/").replace("_md", ".md")): text
        for name, text in files.items()
    }
    return stacked(ROOT, ROOT / start, lambda path: texts.get(PurePosixPath(path).relative_to("/")))


def test_files_stack_from_the_boundary_down_to_the_start() -> None:
    assert found("a/b", p__AGENTS_md="one", p__a__b__AGENTS_md="two", p__c__AGENTS_md="no") == [
        Instruction("AGENTS.md", "one", "../../AGENTS.md"),
        Instruction("a/b/AGENTS.md", "two", "AGENTS.md"),
    ]


def test_one_file_a_directory_and_agents_md_before_claude_md() -> None:
    files = {"p__AGENTS_md": "one", "p__CLAUDE_md": "no", "p__a__CLAUDE_md": "two"}
    assert [one.text for one in found("a", **files)] == ["one", "two"]


def test_what_is_above_the_boundary_is_nobodys() -> None:
    assert found("a", AGENTS_md="no") == []


def test_an_empty_file_makes_room_for_the_other() -> None:
    assert [one.name for one in found(".", p__AGENTS_md=" ", p__CLAUDE_md="x")] == ["CLAUDE.md"]


def test_a_long_file_is_cut_and_says_so() -> None:
    (one,) = found(".", p__AGENTS_md="x" * (MAX_CHARS + 1))
    assert one.text == "x" * MAX_CHARS + "\n[the rest is left out]"


def test_they_are_a_part_of_the_prompt_or_nothing() -> None:
    assert rendered([]) == ""
    files = [
        Instruction("AGENTS.md", "be brief", "../AGENTS.md"),
        Instruction("a/AGENTS.md", "x", "AGENTS.md"),
    ]
    assert rendered(files) == (
        "# Instructions of this project\n\n## AGENTS.md\n\nbe brief\n\n## a/AGENTS.md\n\nx"
    )


def test_files_that_are_not_what_they_were_are_told_each_in_its_way() -> None:
    one = Instruction("AGENTS.md", "one", "AGENTS.md")
    before = digests([one, Instruction("old", "x", "../old"), Instruction("same", "x", "same")])
    now = digests(
        [
            Instruction("AGENTS.md", "two", "AGENTS.md"),
            Instruction("same", "x", "same"),
            Instruction("z", "x", "z"),
        ]
    )
    assert changes(before, now, LOOP.notes) == [
        "The instruction file ../old is gone: what it said no longer holds.",
        "The instruction file AGENTS.md has changed since this session began: read it before you go on.",
        "There is a new instruction file, z: read it before you go on.",
    ]
    assert changes(now, now, LOOP.notes) == []
