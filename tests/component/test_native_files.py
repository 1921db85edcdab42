"""The file tools on real files: what they keep, and the one sentence they say for what is no text file."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from lembasd.engine.native.tools import text_file
from lembasd.engine.native.tools.edit import edit
from lembasd.engine.native.tools.list import list_directory
from lembasd.engine.native.tools.outcome import Outcome, Unusable, shown
from lembasd.engine.native.tools.read import read
from lembasd.engine.native.tools.write import write


def change(path: Path, old: str, new: str, **more: Any) -> Outcome:
    return edit(path, path.name, {"path": path.name, "old": old, "new": new, **more})


def put(path: Path, content: str) -> Outcome:
    return write(path, path.name, {"path": path.name, "content": content})


# ── read ────────────────────────────────────────────────────────────────────────────────────────


def test_lines_come_numbered(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\n\ntwo")
    assert read(path, "a.txt", {}).output == "     1\tone\n     2\t\n     3\ttwo"


def test_a_part_says_where_it_lies_and_how_to_go_on(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{n}\n" for n in range(1, 8)))
    assert read(path, "a.txt", {"offset": 3, "limit": 2}).output == (
        "     3\t3\n     4\t4\n[lines 3-4 of 7; read on with offset 5]"
    )
    assert read(path, "a.txt", {"offset": 7}).output == "     7\t7"
    assert read(path, "a.txt", {"offset": 9}) == Outcome(
        "a.txt has 7 lines, none from 9 on", is_error=True
    )


def test_an_empty_file_is_said_to_be_empty(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.touch()
    assert read(path, "a.txt", {}) == Outcome("a.txt is empty")


def test_a_very_long_line_is_cut_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x" * 5000)
    assert read(path, "a.txt", {}).output == f"     1\t{'x' * 2000} [line cut]"


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        (b"\xef\xbb\xbfgr\xc3\xbc\xc3\x9f\n", "UTF-8 with a BOM"),
        ("\ufeffgrüß\n".encode("utf-16-le"), "UTF-16, little end first"),
        ("\ufeffgrüß\n".encode("utf-16-be"), "UTF-16, big end first"),
        ("grüß\n".encode("latin-1"), "Latin 1"),
    ],
)
def test_a_file_is_read_and_changed_in_its_own_encoding(
    tmp_path: Path, content: bytes, encoding: str
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    assert read(path, "a.txt", {}).output == "     1\tgrüß"
    assert not change(path, "grüß", "Grüße").is_error
    assert read(path, "a.txt", {}).output == "     1\tGrüße"
    assert not change(path, "Grüße", "grüß").is_error
    assert path.read_bytes() == content, encoding


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match=r"^No such file or directory: b\.txt$"):
        read(tmp_path / "b.txt", "b.txt", {})
    (tmp_path / "a.txt").touch()
    with pytest.raises(Unusable, match=r"^No such file or directory: a\.txt/b$"):
        read(tmp_path / "a.txt" / "b", "a.txt/b", {})


def test_what_is_no_file_is_told_apart_and_never_waited_for(
    tmp_path: Path, short_tmp: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(short_tmp / "socket"))
        for path, says in (
            (tmp_path / "pipe", "x is a pipe, not a file"),
            (short_tmp / "socket", "x is a pipe or socket, not a file"),
            (Path("/dev/zero"), "x is a device, not a file"),
        ):
            with pytest.raises(Unusable, match=f"^{says}$"):
                read(path, "x", {})
            with pytest.raises(Unusable, match=f"^{says}$"):
                write(path, "x", {"content": "y"})


def test_a_binary_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"\x7fELF\0\0")
    with pytest.raises(Unusable, match=r"^a\.bin is a binary file \(6 bytes\)$"):
        read(path, "a.bin", {})


def test_a_file_that_is_not_what_its_bom_says_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbf\xff")
    with pytest.raises(Unusable, match=r"^a\.txt is not valid utf-8$"):
        read(path, "a.txt", {})


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with path.open("wb") as file:
        file.truncate(text_file.MAX_TEXT_BYTES + 1)
    with pytest.raises(Unusable, match="too large"):
        read(path, "a.txt", {})


def test_a_link_put_in_the_place_of_a_judged_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hidden")
    (tmp_path / "a.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(Unusable, match="changed into a link"):
        read(tmp_path / "a.txt", "a.txt", {})


# ── write ───────────────────────────────────────────────────────────────────────────────────────


def test_a_new_file_is_made_with_its_directories(tmp_path: Path) -> None:
    path = tmp_path / "x" / "y" / "a.txt"
    outcome = write(path, "x/y/a.txt", {"content": "one\ntwo"})
    assert outcome.output == "Wrote x/y/a.txt (new, 2 lines)"
    assert path.read_bytes() == b"one\ntwo"
    assert [child.name for child in path.parent.iterdir()] == ["a.txt"]


def test_a_new_file_has_the_persons_usual_rights(tmp_path: Path) -> None:
    usual = tmp_path / "usual"
    usual.touch()
    put(tmp_path / "a.txt", "x")
    assert (tmp_path / "a.txt").stat().st_mode == usual.stat().st_mode


def test_a_file_that_is_there_keeps_its_rights_and_line_endings(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_bytes(b"one\r\ntwo\r\n")
    path.chmod(0o750)
    outcome = put(path, "one\nthree\n")
    assert path.read_bytes() == b"one\r\nthree\r\n"
    assert path.stat().st_mode & 0o777 == 0o750
    assert outcome.output == "Wrote run.sh (2 lines)"
    assert "-two" in (outcome.diff or "")
    assert "+three" in (outcome.diff or "")


def test_a_write_that_cannot_be_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("grüß".encode("latin-1"))
    with pytest.raises(Unusable, match="nothing was changed"):
        put(path, "grüß €")
    assert path.read_bytes() == "grüß".encode("latin-1")
    assert [child.name for child in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_may_not_be_written_is_said_so(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(Unusable, match=r"^a\.txt may not be opened by this user$"):
        put(tmp_path / "a.txt", "x")


# ── edit ────────────────────────────────────────────────────────────────────────────────────────


def test_an_edit_answers_with_its_diff(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\nthree\n")
    diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three"
    assert change(path, "two", "2") == Outcome(diff, diff=diff)
    assert path.read_text() == "one\n2\nthree\n"


def test_a_text_that_stands_there_more_than_once_is_counted_and_not_touched(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x = 1\nx = 1\n")
    assert change(path, "x = 1", "x = 2") == Outcome(
        "`old` stands in a.txt 2 times; give more lines around it, or set replace_all",
        is_error=True,
    )
    assert path.read_text() == "x = 1\nx = 1\n"
    assert not change(path, "x = 1", "x = 2", replace_all=True).is_error
    assert path.read_text() == "x = 2\nx = 2\n"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("nowhere", "x", "`old` does not stand in a.txt; read it again and copy the text exactly"),
        ("one", "one", "`old` and `new` are the same: nothing to change"),
        ("", "x", "`old` is empty; use write for a whole file"),
    ],
)
def test_an_edit_that_says_nothing_sure_is_refused(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\n")
    assert change(path, old, new) == Outcome(says, is_error=True)
    assert path.read_text() == "one\n"


@pytest.mark.parametrize(
    "content", [b"a\r\nb\r\nc\r\n", b"a\r\nb\r\nc", b"\xef\xbb\xbfa\r\nb\r\nc"]
)
def test_an_edit_keeps_line_endings_bom_and_the_missing_last_newline(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    path.chmod(0o640)
    assert not change(path, "a\nb", "a\nnew\nb").is_error
    assert path.read_bytes() == content.replace(b"a\r\nb", b"a\r\nnew\r\nb")
    assert path.stat().st_mode & 0o777 == 0o640


# ── list ────────────────────────────────────────────────────────────────────────────────────────


def test_a_directory_is_listed_as_a_tree(tmp_path: Path) -> None:
    (tmp_path / "b" / "c" / "d" / "e").mkdir(parents=True)
    (tmp_path / "a.txt").touch()
    (tmp_path / ".git" / "objects").mkdir(parents=True)
    (tmp_path / "z").symlink_to(tmp_path)
    assert list_directory(tmp_path, ".", {}) == Outcome(".git/\na.txt\nb/\n  c/\n    d/\nz@")


def test_a_long_listing_counts_what_it_leaves_out(tmp_path: Path) -> None:
    for number in range(520):
        (tmp_path / f"{number:03}").touch()
    lines = list_directory(tmp_path, ".", {}).output.split("\n")
    assert (len(lines), lines[0], lines[-1]) == (
        501,
        "000",
        "[20 more entries; list a folder of it]",
    )


def test_an_empty_or_missing_directory_is_said_so(tmp_path: Path) -> None:
    assert list_directory(tmp_path, "x", {}) == Outcome("x is empty")
    with pytest.raises(Unusable, match="No such file or directory: y"):
        list_directory(tmp_path / "y", "y", {})


# ── names ───────────────────────────────────────────────────────────────────────────────────────


def test_a_path_is_shown_as_the_model_knows_it() -> None:
    root = Path("/home/me/project")
    assert shown(root / "a" / "b", root) == "a/b"
    assert shown(root, root) == "."
    assert shown(Path("/home/me/project-2/a"), root) == "/home/me/project-2/a"
