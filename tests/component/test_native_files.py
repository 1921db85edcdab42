"""The file tools on real files: what they keep, and the one sentence they say for what is no text file."""

import codecs
import os
import socket
from pathlib import Path

import pytest

from lembasd.engine.native.tools import text_file
from lembasd.engine.native.tools.outcome import ImageContent, Outcome, shown
from lembasd.store.pre_images import PreImage, digest_of
from tests.support.desk import Desk
from tests.support.png import png


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    root = tmp_path.resolve() / "project"
    root.mkdir()
    return Desk(root)


# ── read ────────────────────────────────────────────────────────────────────────────────────────


def test_lines_come_numbered(desk: Desk) -> None:
    (desk.root / "a.txt").write_text("one\n\ntwo")
    assert desk.read("a.txt").output == "     1\tone\n     2\t\n     3\ttwo"


def test_a_part_says_where_it_lies_and_how_to_go_on(desk: Desk) -> None:
    (desk.root / "a.txt").write_text("".join(f"{n}\n" for n in range(1, 8)))
    assert desk.read("a.txt", offset=3, limit=2).output == (
        "     3\t3\n     4\t4\n[lines 3-4 of 7; read on with offset 5]"
    )
    assert desk.read("a.txt", offset=7).output == "     7\t7"
    assert desk.read("a.txt", offset=9) == Outcome(
        "a.txt has 7 lines, none from 9 on", is_error=True
    )


def test_an_empty_file_is_said_to_be_empty(desk: Desk) -> None:
    (desk.root / "a.txt").touch()
    assert desk.read("a.txt") == Outcome("a.txt is empty")


def test_a_very_long_line_is_cut_and_says_so(desk: Desk) -> None:
    (desk.root / "a.txt").write_text("x" * 5000 + "\n" + "y" * 2000 + "\r\n")
    assert desk.read("a.txt").output == (f"     1\t{'x' * 2000} [line cut]\n     2\t{'y' * 2000}")


def test_a_line_of_many_megabytes_is_cut_and_the_lines_after_it_are_counted(desk: Desk) -> None:
    (desk.root / "a.txt").write_bytes(b"x" * 9_000_000 + b"\nlast\n")
    assert desk.read("a.txt", offset=2).output == "     2\tlast"


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        (b"\xef\xbb\xbfgr\xc3\xbc\xc3\x9f\n", "UTF-8 with a BOM"),
        ("\ufeffgrüß\n".encode("utf-16-le"), "UTF-16, little end first"),
        ("\ufeffgrüß\n".encode("utf-16-be"), "UTF-16, big end first"),
        ("\ufeffgrüß\n".encode("utf-32-le"), "UTF-32, little end first"),
        ("grüß\n".encode("latin-1"), "Latin 1"),
    ],
)
def test_a_file_is_read_and_changed_in_its_own_encoding(
    desk: Desk, content: bytes, encoding: str
) -> None:
    path = desk.root / "a.txt"
    path.write_bytes(content)
    assert desk.read("a.txt").output == "     1\tgrüß"
    assert not desk.edit("a.txt", "grüß", "Grüße").is_error
    assert desk.read("a.txt").output == "     1\tGrüße"
    assert not desk.edit("a.txt", "Grüße", "grüß").is_error
    assert path.read_bytes() == content, encoding


def test_a_byte_that_is_broken_in_a_utf8_file_is_shown_and_stays(desk: Desk) -> None:
    path = desk.root / "a.txt"
    path.write_bytes("größer\nsüß ".encode() + b"\xff\n")
    assert desk.read("a.txt").output == "     1\tgrößer\n     2\tsüß \\xff"
    assert desk.edit("a.txt", "größer", "kleiner").output.endswith(" süß \\xff")
    assert path.read_bytes() == "kleiner\nsüß ".encode() + b"\xff\n"


def test_a_missing_file_is_said_to_be_missing(desk: Desk) -> None:
    assert desk.read("b.txt").output == "No such file or directory: b.txt"
    (desk.root / "a.txt").touch()
    assert desk.read("a.txt/b").output == "No such file or directory: a.txt/b"


@pytest.mark.parametrize(
    ("asked", "offer"),
    [
        ("src/mian.py", "src/main.py"),
        ("src/Main.py", "src/main.py"),
        ("scr/main.py", "src/main.py"),
        ("SRC/main.py", "src/main.py"),
    ],
)
def test_a_name_like_the_missing_one_is_offered(desk: Desk, asked: str, offer: str) -> None:
    (desk.root / "src").mkdir()
    (desk.root / "src" / "main.py").touch()
    assert desk.read(asked).output == f"No such file or directory: {asked}. There is {offer}"
    assert desk.read("src/other.txt").output == "No such file or directory: src/other.txt"


def test_what_is_no_file_is_told_apart_and_never_waited_for(desk: Desk, short_tmp: Path) -> None:
    os.mkfifo(desk.root / "pipe")
    (desk.root / "folder").mkdir()
    (desk.root / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(short_tmp / "socket"))
        says = {
            "pipe": "pipe is a pipe, not a file",
            "folder": "folder is a directory, not a file",
            str(short_tmp.resolve() / "socket"): "socket is a socket, not a file",
            "/dev/zero": "/dev/zero is a device, not a file",
        }
        for path, said in says.items():
            for outcome in (desk.read(path), desk.write(path, "y"), desk.edit(path, "a", "b")):
                assert outcome.output.endswith(said)
                assert outcome.is_error
    assert desk.read("loop").output == "loop changed into a link while it was opened; try again"
    assert desk.read("x" * 300).output == f"{'x' * 80}… is too long a name"


def test_a_binary_file_is_not_read(desk: Desk) -> None:
    (desk.root / "a.bin").write_bytes(b"\x7fELF\0\0")
    assert desk.read("a.bin").output == "a.bin is a binary file (6 bytes)"
    (desk.root / "b.bin").write_bytes(b"text\n" * 100_000 + b"\0")
    assert desk.read("b.bin").output == "b.bin is a binary file (500,001 bytes)"


def test_a_file_that_is_not_what_its_bom_says_is_not_read(desk: Desk) -> None:
    (desk.root / "a.txt").write_bytes(b"\xef\xbb\xbf\xff")
    assert desk.read("a.txt").output == "a.txt is not valid utf-8"
    (desk.root / "a.txt").write_bytes(codecs.BOM_UTF16_LE + b"x")
    assert desk.read("a.txt").output == "a.txt is not valid utf-16-le"


def test_a_huge_file_is_not_read(desk: Desk) -> None:
    with (desk.root / "a.txt").open("wb") as file:
        file.truncate(text_file.MAX_TEXT_BYTES + 1)
    says = desk.read("a.txt").output
    assert "too large" in says
    assert says.endswith("; look into it with grep, or with a command")


def test_a_file_without_a_size_is_read_to_its_end(desk: Desk) -> None:
    assert desk.read("/proc/version").output.startswith("     1\tLinux")


def test_a_link_put_in_the_place_of_a_judged_file_is_not_followed(desk: Desk) -> None:
    (desk.root / "secret").write_text("hidden")
    (desk.root / "a.txt").symlink_to(desk.root / "secret")
    (desk.root / "folder").symlink_to(desk.root)
    says = "changed into a link while it was opened; try again"
    for path in ("a.txt", "folder/secret"):
        assert desk.read(path).output == f"{path} {says}"
        assert desk.edit(path, "hidden", "x").is_error
        assert desk.write(path, "x").is_error
    assert (desk.root / "secret").read_text() == "hidden"


# ── images ──────────────────────────────────────────────────────────────────────────────────────


def test_an_image_comes_as_one_with_a_line_that_says_so(desk: Desk) -> None:
    data = png(3, 2)
    (desk.root / "a.txt").write_bytes(data)
    assert desk.read("a.txt") == Outcome(
        f"a.txt is an image (PNG, 3x2 pixels, {len(data)} bytes)",
        image=ImageContent("image/png", data),
    )


def test_an_image_that_is_damaged_or_too_large_is_not_shown(desk: Desk) -> None:
    (desk.root / "a.png").write_bytes(png(3, 2)[:-8])
    assert desk.read("a.png") == Outcome("a.png is a damaged PNG image", is_error=True)
    (desk.root / "b.png").write_bytes(png(3, 2) + bytes(5_000_000) + b"IEND")
    outcome = desk.read("b.png")
    assert (outcome.image, outcome.is_error) == (None, True)
    assert "too large to be shown" in outcome.output


# ── write ───────────────────────────────────────────────────────────────────────────────────────


def test_a_new_file_is_made_with_its_directories(desk: Desk) -> None:
    outcome = desk.write("x/y/a.txt", "one\ntwo")
    assert outcome.output == "Wrote x/y/a.txt (new, 2 lines)"
    assert (desk.root / "x/y/a.txt").read_bytes() == b"one\ntwo"
    assert desk.names() == ["x", "x/y", "x/y/a.txt"]


def test_a_new_file_has_the_persons_usual_rights(desk: Desk) -> None:
    usual = desk.root / "usual"
    usual.touch()
    desk.write("a.txt", "x")
    assert (desk.root / "a.txt").stat().st_mode == usual.stat().st_mode


def test_a_file_that_is_there_keeps_its_rights_and_line_endings(desk: Desk) -> None:
    path = desk.root / "run.sh"
    path.write_bytes(b"one\r\ntwo\r\n")
    path.chmod(0o750)
    desk.read("run.sh")
    outcome = desk.write("run.sh", "one\nthree\n")
    assert path.read_bytes() == b"one\r\nthree\r\n"
    assert path.stat().st_mode & 0o777 == 0o750
    assert outcome.output == "Wrote run.sh (2 lines)"
    assert outcome.diff == "--- a/run.sh\n+++ b/run.sh\n@@ -1,2 +1,2 @@\n one\n-two\n+three"
    assert desk.names() == ["run.sh"]


def test_a_written_file_keeps_its_bom_final_newline_and_the_endings_of_lines_that_stay(
    desk: Desk,
) -> None:
    path = desk.root / "a.txt"
    path.write_bytes(codecs.BOM_UTF8 + b"one\r\ntwo\nthree\r\n")
    desk.read("a.txt")
    desk.write("a.txt", "zero\none\ntwo\nthree")
    assert path.read_bytes() == codecs.BOM_UTF8 + b"zero\r\none\r\ntwo\nthree\r\n"


def test_a_byte_order_mark_stands_in_a_file_once(desk: Desk) -> None:
    (desk.root / "a.txt").write_bytes(codecs.BOM_UTF8 + b"one\n")
    desk.read("a.txt")
    assert not desk.write("a.txt", "\ufefftwo\n").is_error
    assert (desk.root / "a.txt").read_bytes() == codecs.BOM_UTF8 + b"two\n"
    desk.write("new.txt", "\ufeffone\n")
    assert (desk.root / "new.txt").read_bytes() == codecs.BOM_UTF8 + b"one\n"


def test_a_file_that_was_not_read_is_not_replaced_but_one_that_the_model_wrote_is(
    desk: Desk,
) -> None:
    (desk.root / "a.txt").write_text("somebody's")
    assert desk.write("a.txt", "x") == Outcome(
        "a.txt is there already and was not read; read it before you replace it", is_error=True
    )
    assert (desk.root / "a.txt").read_text() == "somebody's"
    assert not desk.write("b.txt", "x").is_error
    assert not desk.write("b.txt", "y").is_error
    assert desk.write("b.txt", "y").output == "b.txt has this content already: nothing to change"


def test_a_file_that_changed_since_it_was_read_is_not_written_over(desk: Desk) -> None:
    path = desk.root / "a.txt"
    path.write_text("one\n")
    desk.read("a.txt")
    path.write_text("one\ntwo\n")
    says = "a.txt has changed since it was read; read it again, then change it"
    patch = "*** Begin Patch\n*** Update File: a.txt\n-one\n+1\n*** End Patch"
    gone = "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch"
    for outcome in (
        desk.write("a.txt", "x\n"),
        desk.edit("a.txt", "one", "1"),
        desk.multiedit("a.txt", ("one", "1")),
        desk.patch(patch),
        desk.patch(gone),
    ):
        assert outcome == Outcome(says, is_error=True)
    assert path.read_text() == "one\ntwo\n"
    desk.read("a.txt")
    assert not desk.edit("a.txt", "one", "1").is_error
    assert not desk.edit("a.txt", "two", "2").is_error
    assert path.read_text() == "1\n2\n"


def test_a_write_that_cannot_be_leaves_the_file_as_it_was(desk: Desk) -> None:
    path = desk.root / "a.txt"
    path.write_bytes("grüß".encode("latin-1"))
    desk.read("a.txt")
    assert desk.write("a.txt", "grüß €").output == (
        "a.txt is latin-1, which has no '€'; nothing was changed"
    )
    assert path.read_bytes() == "grüß".encode("latin-1")
    assert desk.names() == ["a.txt"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_may_not_be_written_is_said_so(desk: Desk) -> None:
    desk.root.chmod(0o500)
    assert desk.write("a.txt", "x").output == "a.txt may not be opened by this user"


def test_all_names_of_a_file_with_several_stay_names_of_it(desk: Desk) -> None:
    path, other = desk.root / "a.txt", desk.root / "b.txt"
    path.write_text("one\n")
    other.hardlink_to(path)
    desk.read("a.txt")
    for content in ("a longer text\nof two lines\n", "short\n"):
        assert not desk.write("a.txt", content).is_error
        assert (path.read_text(), other.read_text()) == (content, content)
    assert path.samefile(other)
    assert desk.names() == ["a.txt", "b.txt"]


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="no extended attributes here")
def test_extended_attributes_stay(desk: Desk) -> None:
    path = desk.root / "a.txt"
    path.write_text("one\n")
    try:
        os.setxattr(path, "user.origin", b"somewhere")
    except OSError:
        pytest.skip("this file system has none")
    desk.edit("a.txt", "one", "two")
    assert (path.read_text(), os.getxattr(path, "user.origin")) == ("two\n", b"somewhere")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_stays(desk: Desk) -> None:
    path = desk.root / "a.txt"
    path.write_text("one\n")
    os.chown(path, 12345, 54321)
    path.chmod(0o4755)
    assert not desk.edit("a.txt", "one", "two").is_error
    about = path.stat()
    assert (about.st_uid, about.st_gid, about.st_mode & 0o7777) == (12345, 54321, 0o4755)


# ── edit ────────────────────────────────────────────────────────────────────────────────────────


def test_an_edit_answers_with_its_diff(desk: Desk) -> None:
    path = desk.root / "a.txt"
    path.write_text("one\ntwo\nthree\n")
    diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three"
    assert desk.edit("a.txt", "two", "2") == Outcome(diff, diff=diff)
    assert path.read_text() == "one\n2\nthree\n"


def test_an_edit_that_was_not_exact_says_how_it_was_found(desk: Desk) -> None:
    (desk.root / "a.py").write_text("if x:\n    y = 1\n    z = 2\n")
    outcome = desk.edit("a.py", "y = 1\nz = 2", "y = 3\nz = 4")
    assert outcome.output.endswith("[`old` was not exact: it was found but for its indentation]")
    assert (desk.root / "a.py").read_text() == "if x:\n    y = 3\n    z = 4\n"


def test_a_text_that_stands_there_more_than_once_is_counted_and_not_touched(desk: Desk) -> None:
    path = desk.root / "a.txt"
    path.write_text("x = 1\nx = 1\n")
    assert desk.edit("a.txt", "x = 1", "x = 2") == Outcome(
        "`old` stands in a.txt 2 times, at lines 1, 2; give more lines around it, or set replace_all",
        is_error=True,
    )
    assert path.read_text() == "x = 1\nx = 1\n"
    outcome = desk.edit("a.txt", "x = 1", "x = 2", replace_all=True)
    assert outcome.output.endswith("[replaced in 2 places]")
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
    desk: Desk, old: str, new: str, says: str
) -> None:
    path = desk.root / "a.txt"
    path.write_text("one\n")
    assert desk.edit("a.txt", old, new) == Outcome(says, is_error=True)
    assert path.read_text() == "one\n"


@pytest.mark.parametrize(
    "content",
    [b"a\r\nb\r\nc\r\n", b"a\r\nb\r\nc", b"\xef\xbb\xbfa\r\nb\r\nc", b"a\r\nb\r\nc\nd\r\n"],
)
def test_an_edit_keeps_line_endings_bom_and_the_missing_last_newline(
    desk: Desk, content: bytes
) -> None:
    path = desk.root / "a.txt"
    path.write_bytes(content)
    path.chmod(0o640)
    assert not desk.edit("a.txt", "a\nb", "a\nnew\nb").is_error
    assert path.read_bytes() == content.replace(b"a\r\nb", b"a\r\nnew\r\nb")
    assert path.stat().st_mode & 0o777 == 0o640


def test_several_edits_are_made_one_after_the_other_or_not_at_all(desk: Desk) -> None:
    path = desk.root / "a.txt"
    path.write_text("one\ntwo\n")
    assert desk.multiedit("a.txt", ("one", "1"), ("three", "3")) == Outcome(
        "edit 2 of 2: `old` does not stand in a.txt; read it again and copy the text exactly"
        "\n[nothing was changed]",
        is_error=True,
    )
    assert path.read_text() == "one\ntwo\n"
    outcome = desk.multiedit("a.txt", ("one", "three"), ("three\ntwo", "3\n2"))
    assert outcome.output == "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-one\n-two\n+3\n+2"
    assert path.read_text() == "3\n2\n"
    assert desk.multiedit("a.txt").output == "`edits` is empty: nothing to change"
    back = desk.multiedit("a.txt", ("3", "x"), ("x", "3"))
    assert back.output == "a.txt would stay as it is: nothing to change"


# ── apply_patch ─────────────────────────────────────────────────────────────────────────────────

PATCH = """*** Begin Patch
*** Add File: new/a.txt
+one
+two
*** Update File: b.txt
@@
 1
-2
+two
*** Update File: c.txt
*** Move to: d.txt
@@
-x
+y
*** Delete File: e.txt
*** End Patch
"""


def patched(desk: Desk) -> None:
    (desk.root / "b.txt").write_bytes(b"1\r\n2\r\n")
    (desk.root / "c.txt").write_text("x\n")
    (desk.root / "c.txt").chmod(0o600)
    (desk.root / "e.txt").write_text("gone\n")


def test_a_patch_adds_changes_moves_and_deletes(desk: Desk) -> None:
    patched(desk)
    outcome = desk.patch(PATCH)
    assert outcome.output == (
        "--- /dev/null\n+++ b/new/a.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"
        "--- a/b.txt\n+++ b/b.txt\n@@ -1,2 +1,2 @@\n 1\n-2\n+two\n"
        "--- a/c.txt\n+++ b/d.txt\n@@ -1 +1 @@\n-x\n+y\n"
        "--- a/e.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n"
        "[added new/a.txt]\n[moved c.txt to d.txt]\n[deleted e.txt]"
    )
    assert desk.names() == ["b.txt", "d.txt", "new", "new/a.txt"]
    assert (desk.root / "b.txt").read_bytes() == b"1\r\ntwo\r\n"
    assert (desk.root / "d.txt").read_text() == "y\n"
    assert (desk.root / "d.txt").stat().st_mode & 0o777 == 0o600
    assert (desk.root / "new/a.txt").read_text() == "one\ntwo\n"


def content_of(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("*** Update File: b.txt2\n-2\n+3\n", "No such file or directory: b.txt2"),
        ("*** Update File: f.txt\n-nowhere\n+3\n", "f.txt: the hunk does not fit"),
        ("*** Add File: f.txt\n+x\n", "f.txt is there already"),
        ("*** Add File: f.txt/g\n+x\n", "No such file or directory: f.txt/g"),
        ("*** Delete File: folder\n", "folder is a directory, not a file"),
        ("*** Update File: f.txt\n*** Move to: folder\n", "folder is there already"),
        ("*** Update File: e.txt\n-gone\n+3\n", "the patch speaks of e.txt twice"),
        ("*** Update File: latin.txt\n-caf\n+→\n", "latin.txt: the hunk does not fit"),
        ("*** Update File: latin.txt\n+→\n", "latin.txt is latin-1"),
    ],
)
def test_a_patch_of_which_a_part_does_not_fit_changes_nothing(
    desk: Desk, more: str, says: str
) -> None:
    patched(desk)
    (desk.root / "folder").mkdir()
    (desk.root / "f.txt").write_text("f\n")
    (desk.root / "latin.txt").write_bytes(b"caf\xe9\n")
    before = content_of(desk.root), desk.names()
    outcome = desk.patch(PATCH.replace("*** End Patch", more + "*** End Patch"))
    assert outcome.is_error
    assert says in outcome.output
    assert (content_of(desk.root), desk.names()) == before


def test_two_names_of_one_file_in_a_patch_are_refused(desk: Desk) -> None:
    (desk.root / "a").write_text("1\n")
    outcome = desk.patch(
        "*** Begin Patch\n*** Update File: a\n-1\n+2\n*** Delete File: ./a\n*** End Patch"
    )
    assert outcome.output == "two of the patch's paths lead to one file; give each file one name"
    assert (desk.root / "a").read_text() == "1\n"


def test_two_names_of_one_file_on_the_disk_are_refused_as_well(desk: Desk) -> None:
    (desk.root / "a").write_text("1\n")
    (desk.root / "b").hardlink_to(desk.root / "a")
    outcome = desk.patch(
        "*** Begin Patch\n*** Update File: a\n-1\n+2\n*** Update File: b\n-1\n+3\n*** End Patch"
    )
    assert outcome.output == "two of the patch's paths lead to one file; give each file one name"
    assert (desk.root / "a").read_text() == "1\n"


def test_an_executable_file_is_added_as_one(desk: Desk) -> None:
    desk.patch(
        "diff --git a/run b/run\nnew file mode 100755\n--- /dev/null\n+++ b/run\n@@ -0,0 +1 @@\n+true\n"
    )
    assert (desk.root / "run").stat().st_mode & 0o777 == 0o755


# ── list ────────────────────────────────────────────────────────────────────────────────────────


def test_a_directory_is_listed_as_a_tree(desk: Desk) -> None:
    (desk.root / "b" / "c" / "d" / "e").mkdir(parents=True)
    (desk.root / "a.txt").touch()
    (desk.root / ".git" / "objects").mkdir(parents=True)
    (desk.root / "z").symlink_to(desk.root)
    assert desk.listing() == Outcome(".git/\na.txt\nb/\n  c/\n    d/\nz@")


def test_what_git_ignores_is_left_out_of_a_listing_and_counted(desk: Desk) -> None:
    (desk.root / ".git").mkdir()
    (desk.root / ".gitignore").write_text("*.log\n/build/\n")
    (desk.root / "build").mkdir()
    (desk.root / "src").mkdir()
    (desk.root / "src" / "a.log").touch()
    (desk.root / "src" / "a.py").touch()
    assert desk.listing().output == (
        ".git/\n.gitignore\nsrc/\n  a.py\n[2 entries that git ignores are left out]"
    )


def test_a_long_listing_counts_what_it_leaves_out(desk: Desk) -> None:
    for number in range(520):
        (desk.root / f"{number:03}").touch()
    lines = desk.listing().output.split("\n")
    assert (len(lines), lines[0], lines[-1]) == (
        391,
        "000",
        "[130 more entries; list a folder of it]",
    )


def test_a_large_folder_hides_none_of_its_neighbours(desk: Desk) -> None:
    (desk.root / "a").mkdir()
    for number in range(150):
        (desk.root / "a" / f"{number:03}").touch()
    (desk.root / "b").mkdir()
    (desk.root / "b" / "c").touch()
    lines = desk.listing().output.split("\n")
    assert lines[100:] == [
        "  099",
        "  [50 more]",
        "b/",
        "  c",
        "[50 more entries; list a folder of it]",
    ]


def test_names_that_would_break_a_listing_are_spelled(desk: Desk) -> None:
    (desk.root / "two\nlines").touch()
    (desk.root / os.fsdecode(b"bad\xff")).touch()
    assert desk.listing().output == "bad\\xff\ntwo\\nlines"


def test_an_empty_or_missing_directory_is_said_so(desk: Desk) -> None:
    (desk.root / "x").mkdir()
    assert desk.listing("x") == Outcome("x is empty")
    assert desk.listing("y").output == "No such file or directory: y"


# ── what is protected, by whatever name ─────────────────────────────────────────────────────────


def test_a_protected_directory_is_known_by_more_than_its_name(desk: Desk) -> None:
    secret = desk.root / "secret"
    (secret / "below").mkdir(parents=True)
    (secret / "key").write_text("hidden")
    (desk.root / "unit").write_text("hidden")
    desk = Desk(desk.root, (secret, desk.root / "unit", desk.root / "not there"))
    # as on a file system that takes Secret for secret: judged under one name, it is the other
    (desk.root / "Secret").symlink_to(secret)
    for path in ("secret/key", "secret/below", "secret/new", "secret/below/x/y", "unit"):
        says = f"{path} is protected: no tool may touch it in any mode"
        assert desk.read(path).output == says
        assert desk.write(path, "x").output == says
    assert desk.read("Secret/key").is_error
    assert desk.listing().output == "Secret@\nsecret/\nunit"
    assert sorted(content_of(desk.root)) == ["secret/key", "unit"]


# ── what is kept for /undo ──────────────────────────────────────────────────────────────────────


def test_what_was_there_is_kept_before_it_changes(desk: Desk) -> None:
    path = desk.root / "a é.txt"
    path.write_bytes(b"one\r\n")
    path.chmod(0o640)
    desk.edit("a é.txt", "one", "two")
    desk.write("new.txt", "x\n")
    desk.patch("*** Begin Patch\n*** Delete File: new.txt\n*** End Patch")
    kept = desk.kept()
    old, new, x = digest_of(b"one\r\n"), digest_of(b"two\r\n"), digest_of(b"x\n")
    root = str(desk.root)
    assert kept.kept() == [
        PreImage(
            call_id="call_1",
            path=f"{root}/a %C3%A9.txt",
            content=old,
            size=5,
            mode=0o640,
            after=new,
        ),
        PreImage(call_id="call_2", path=f"{root}/new.txt", after=x),
        PreImage(
            call_id="call_3", path=f"{root}/new.txt", content=x, size=2, mode=0o644, after=None
        ),
    ]
    assert [one.where for one in kept.kept()] == [path, *[desk.root / "new.txt"] * 2]
    assert [kept.content(one) for one in kept.kept()] == [b"one\r\n", None, b"x\n"]


# ── names ───────────────────────────────────────────────────────────────────────────────────────


def test_a_path_is_shown_as_the_model_knows_it() -> None:
    root = Path("/home/me/project")
    assert shown(root / "a" / "b", root) == "a/b"
    assert shown(root, root) == "."
    assert shown(Path("/home/me/project-2/a"), root) == "/home/me/project-2/a"
