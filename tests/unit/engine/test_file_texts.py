"""The pure parts of the file tools: texts, patterns, images."""

import struct

import pytest

from lembasd.engine.native.core import patch
from lembasd.engine.native.core.diff import MAX_COMPARED, MAX_LINES, unified
from lembasd.engine.native.core.edit_match import Refused, edited
from lembasd.engine.native.core.globs import Glob
from lembasd.engine.native.core.ignore import Level, is_ignored, parse
from lembasd.engine.native.core.image_kind import ImageKind, image_kind
from lembasd.engine.native.core.known_files import MAX_FILES, KnownFiles
from lembasd.engine.native.core.line_endings import Body, Piece
from lembasd.engine.native.core.line_window import LineWindow
from lembasd.engine.native.core.named_paths import named_paths
from lembasd.engine.native.core.patch import BadPatch, FilePatch, Hunk, parsed
from lembasd.engine.native.core.patch_apply import Applied, Unfitting, added, applied
from lembasd.engine.native.core.text_code import Code, Decoder, NotText, displayed, spelled
from lembasd.engine.native.core.wildcard import segment_regex

# ── diffs ───────────────────────────────────────────────────────────────────────────────────────


def test_a_diff_shows_each_change_with_the_lines_around_it() -> None:
    old = "".join(f"{n}\n" for n in range(1, 31))
    new = old.replace("3\n", "three\n", 1).replace("28\n", "").replace("10\n", "ten\n")
    assert unified(old, new, "a", before="b").split("\n") == [
        "--- a/b",
        "+++ b/a",
        *["@@ -1,13 +1,13 @@", " 1", " 2", "-3", "+three", " 4", " 5", " 6", " 7", " 8", " 9"],
        *["-10", "+ten", " 11", " 12", " 13"],
        *["@@ -25,6 +25,5 @@", " 25", " 26", " 27", "-28", " 29", " 30"],
    ]


def test_a_diff_of_nothing_is_empty_and_one_of_endings_shows_them() -> None:
    assert unified("a\n", "a\n", "a") == ""
    far = "".join(f"{n}\n" for n in range(9))
    assert unified("x\n" + far, far, "a").endswith("@@ -1,4 +1,3 @@\n-x\n 0\n 1\n 2")
    assert unified("a\r\n", "a\n", "/a") == "--- /a\n+++ /a\n@@ -1 +1 @@\n-a\n+a"
    assert unified("a", "a\n", "a").endswith("-a\n\\ No newline at end of file\n+a")


def test_a_long_diff_is_cut_and_one_of_much_is_not_looked_into() -> None:
    old = "".join(f"a{n}\n" for n in range(MAX_COMPARED))
    new = "".join(f"b{n}\n" if n % 2 else f"a{n}\n" for n in range(MAX_COMPARED))
    lines = unified(old, new, "a").split("\n")
    assert len(lines) == MAX_LINES + 1
    assert lines[2:6] == ["@@ -1,4000 +1,4000 @@", " a0", "-a1", "-a2"]
    assert lines[-1].endswith(" lines left out]")


# ── endings ─────────────────────────────────────────────────────────────────────────────────────


def test_a_whole_new_text_keeps_the_endings_of_lines_that_stay() -> None:
    assert Body("a\r\nb\nc\n").with_text("a\nx\r\nc\n") == "a\r\nx\nc\n"
    assert Body("a\nb\r\n").with_text("x\nb\n") == "x\nb\r\n"
    assert Body("").with_text("x\n") == "x\n"
    assert Body("a\r\n").with_text("x\ny\n") == "x\r\ny\r\n"
    assert Body("a\r\nb\nc").with_pieces([Piece(5, 5, "\nd")]) == "a\r\nb\nc\nd"
    assert Body("a\r\nb\n").with_pieces([Piece(0, 0, "x\n")]) == "x\na\r\nb\n"
    assert [Body(one).is_crlf for one in ("a\r\n", "a\n", "a\r\nb\n")] == [True, False, True]


# ── encodings ───────────────────────────────────────────────────────────────────────────────────


def decoded(*pieces: bytes) -> tuple[str, Code]:
    decoder = Decoder()
    for piece in pieces:
        decoder.feed(piece)
    for _ in decoder.finish():
        pass
    return "".join(decoder.texts), decoder.code


def test_a_character_may_lie_in_two_pieces() -> None:
    assert decoded(b"\xe2\x82", b"\xac") == ("€", Code())
    assert decoded(b"\xff\xfea", b"\0") == ("a", Code("utf-16-le", b"\xff\xfe"))
    assert decoded() == ("", Code())


def test_bytes_that_are_no_utf8_are_latin_1_or_broken_utf8() -> None:
    assert decoded(b"caf\xe9\n") == ("café\n", Code("latin-1"))
    assert decoded("grüß".encode() + b"\xff", b"x") == (
        "grüß\udcffx",
        Code(errors="surrogateescape"),
    )
    assert decoded(b"x", b"\xe2\x82")[1] == Code("latin-1")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"a\0", "is a binary file"),
        (b"\xef\xbb\xbf\xff", "is not valid utf-8"),
        (b"\xff\xfea", "is not valid utf-16-le"),
        (b"\x00\x00\xfe\xff\xff", "is not valid utf-32-be"),
    ],
)
def test_what_is_no_text_is_said_to_be_none(data: bytes, says: str) -> None:
    with pytest.raises(NotText, match=says):
        decoded(data)


def test_names_and_broken_bytes_are_spelled() -> None:
    assert displayed("a é \udcff") == "a é \\xff"
    assert [spelled(one) for one in ("a b", "a\nb", "\udcff\t")] == ["a b", "a\\nb", "\\xff\\t"]


# ── lines ───────────────────────────────────────────────────────────────────────────────────────


def window(offset: int, limit: int, *pieces: str) -> tuple[list[str], int]:
    one = LineWindow(offset, limit, 5)
    for piece in pieces:
        one.feed(piece)
    return one.lines, one.finish()


def test_lines_are_picked_out_of_pieces() -> None:
    assert window(1, 9) == ([], 0)
    assert window(2, 1, "a\nb", "c\n", "", "d") == (["bc"], 3)
    assert window(1, 9, "a\r", "\nb\r\n") == (["a", "b"], 2)
    assert window(1, 2, "a\n", "b\n", "c\n", "d") == (["a", "b"], 4)
    cut = "12345 [line cut]"
    assert window(1, 9, "123456\n", "12345\r\n1234567") == ([cut, "12345", cut], 3)
    assert window(3, 1, "a\nb\n", "c\n") == (["c"], 3)


# ── patterns ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pattern", ["[a", "[!", "a\\", "[\\", "[[:none:]]", "["])
def test_a_pattern_that_means_nothing_is_refused_and_ignores_nothing(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"\[|backslash|class"):
        segment_regex(pattern)
    assert parse(pattern) == ()


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("[]a]", "]", True),
        ("[!]a]", "b", True),
        ("[a-]", "-", True),
        ("[\\]]", "]", True),
        ("[z-a]", "b", False),
        ("[z-a]", "z", False),
        ("[a-c]", "b", True),
        ("b/", "b", False),
        ("[!z-a]", "b", True),
        ("[^a]", "b", True),
        ("[[:upper:]x]", "A", True),
        ("a**b", "axxb", True),
        ("\\*", "*", True),
        ("\\*", "a", False),
        ("a/**/**/b", "a/x/y/b", True),
        ("**/a/**/b", "x/a/y/b", True),
        ("a/**", "a", False),
        ("# a", "# a", False),
        ("", "a", False),
        ("/", "a", False),
        ("a\\\\ ", "a\\", True),
        # git counts bytes
        ("?", "é", False),
        ("??", "é", True),
        ("[é]x", "éx", False),
        ("é*", "éx", True),
        ("[[:space:]]", "\x1c", False),
    ],
)
def test_a_pattern_means_what_git_means_by_it(pattern: str, path: str, expected: bool) -> None:
    assert is_ignored([Level("", parse(pattern))], path, is_dir=False) is expected


def test_a_byte_order_mark_is_none_of_the_first_pattern() -> None:
    assert is_ignored([Level("", parse("\ufeffa\r\n"))], "a", is_dir=False)


def test_a_pattern_of_many_stars_is_quick() -> None:
    name = "a" * 250
    assert not is_ignored([Level("", parse("*a" * 60 + "b"))], name, is_dir=False)
    assert not Glob("**/a/" * 40 + "b").matches("a/" * 120)


def test_a_glob_knows_the_names_that_it_can_match() -> None:
    names = {
        one: Glob(one).names for one in ("*.py", "src/**/*.{ts,js}", "**", "a/**", "?.py", "**/x")
    }
    assert names == {
        "*.py": ("*.py",),
        "src/**/*.{ts,js}": ("*.js", "*.ts"),
        "**": (),
        "a/**": (),
        "?.py": (),
        "**/x": ("x",),
    }
    assert Glob("**/*.py").among(["a.py", "b/c.py"]) == ["a.py", "b/c.py"]
    assert Glob("b/*.py").among(["a.py", "b/c.py"]) == ["b/c.py"]
    assert Glob("**").matches("a/b")
    assert [Glob("./*.py").matches(one) for one in ("a.py", "b/a.py")] == [True, False]


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("{a,b{c,d}}", "bd", True),
        ("{a,b{c,d}}", "b", False),
        ("\\{a", "{a", True),
        ("a{", "a{", True),
        ("a}", "a}", True),
        ("{a}", "a", True),
        ("a,b", "a,b", True),
    ],
)
def test_braces_stand_for_either(pattern: str, path: str, expected: bool) -> None:
    assert Glob(pattern).matches(path) is expected


@pytest.mark.parametrize("pattern", ["/a", "", "[a", "{a,b}" * 7])
def test_what_is_no_glob_is_refused_with_a_sentence(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"absolute|is no glob|too many"):
        Glob(pattern)


# ── images ──────────────────────────────────────────────────────────────────────────────────────

_GIF = b"GIF89a" + struct.pack("<HH", 7, 8) + b"\0\0\0;"
_JPEG = (
    b"\xff\xd8\xff\xe0\x00\x04ab\xff\xff\xc4\x00\x02\xff\xc0\x00\x11\x08"
    + struct.pack(">HH", 5, 6)
    + b"\x03"
)


def webp(kind: bytes, body: bytes) -> bytes:
    chunk = kind + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", len(chunk) + 4) + b"WEBP" + chunk


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (_GIF, ImageKind("image/gif", 7, 8)),
        (_JPEG, ImageKind("image/jpeg", 6, 5)),
        (_JPEG[:10], ImageKind("image/jpeg", 0, 0)),
        (
            webp(b"VP8X", bytes(4) + b"\x09\0\0\x13\0\0"),
            ImageKind("image/webp", 10, 20),
        ),
        (webp(b"VP8L", b"\x2f" + struct.pack("<I", 9 | 19 << 14)), ImageKind("image/webp", 10, 20)),
        (
            webp(b"VP8 ", bytes(6) + struct.pack("<HH", 10, 20)),
            ImageKind("image/webp", 10, 20),
        ),
        (webp(b"what", b""), ImageKind("image/webp", 0, 0)),
        (webp(b"VP8X", bytes(10))[:-1], ImageKind("image/webp", 0, 0)),
        (b"\x89PNG\r\n\x1a\n", ImageKind("image/png", 0, 0)),
        (b"text", None),
    ],
)
def test_an_image_is_known_by_its_bytes(data: bytes, kind: ImageKind | None) -> None:
    found = image_kind(data)
    assert found == kind
    assert found is None or found.name in ("GIF", "JPEG", "WEBP", "PNG")


# ── what is known ───────────────────────────────────────────────────────────────────────────────


def test_the_file_that_was_not_touched_for_longest_is_forgotten() -> None:
    known = KnownFiles()
    known.learn("first", "1")
    for number in range(MAX_FILES):
        known.learn(str(number), "x")
    assert known.objection("first", "2", "first", whole=False) is None
    assert known.objection("0", "x", "0", whole=True) is None
    assert known.objection("0", "y", "0", whole=True) == (
        "0 has changed since it was read; read it again, then change it"
    )


def test_a_file_that_the_model_took_away_is_new_when_it_is_there_again() -> None:
    known = KnownFiles()
    known.learn("a", None)
    assert known.objection("a", "1", "a", whole=True) == (
        "a is there already and was not read; read it before you replace it"
    )


# ── patches ─────────────────────────────────────────────────────────────────────────────────────


def test_every_path_of_a_call_is_named() -> None:
    text = (
        "*** Begin Patch\n*** Add File: a\n*** Update File: b\n*** Move to: ../c\n*** Delete File: /d\n"
        "*** End Patch"
    )
    assert named_paths("apply_patch", {"patch": text}) == ["a", "b", "../c", "/d"]
    assert named_paths("read", {"path": "a"}) == ["a"]
    assert named_paths("list", {}) == ["."]
    with pytest.raises(BadPatch):
        named_paths("apply_patch", {"patch": ""})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("*** Begin Patch\n*** Delete File: a\0b\n*** End Patch", "without a name"),
        (
            "*** Begin Patch\n"
            + "".join(f"*** Delete File: {n}\n" for n in range(patch.MAX_FILES + 1))
            + "*** End Patch",
            "at most 200",
        ),
        ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", "without a name"),
        ("--- a/x\n+++ b/x\n", "changes nothing"),
        ("diff --git a/x b/x\nindex 1..2\n", "x: the patch changes nothing"),
        ("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n--- a/x\n+++ b/x\n", "mode"),
        ("GIT binary patch\n", "binary"),
        ("diff --git a/x b/x\nGIT binary patch\n", "binary"),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n a\n", "neither"),
        ('--- "a\n+++ b/x\n', "changes nothing|is none|no patch"),
    ],
)
def test_what_is_no_patch_is_said_to_be_none(text: str, says: str) -> None:
    if text.startswith('--- "a'):
        assert parsed(text)[0].path == '"a'
        return
    with pytest.raises(BadPatch, match=says):
        parsed(text)


def test_the_corners_of_a_unified_diff() -> None:
    head = "--- a/x\n+++ b/x\n"
    (one,) = parsed(head + "@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n")
    assert one.hunks == (Hunk(((" ", "a"), (" ", ""), ("-", "b"), ("+", "c")), line=1),)
    (one,) = parsed(head + "@@\n\\ No newline\n-b\n+c\n\nwords\n")
    assert one.hunks == (Hunk((("-", "b"), ("+", "c"))),)
    (one,) = parsed(head + "@@ def f():\n-b\n+c\n")
    assert one.hunks == (Hunk((("-", "b"), ("+", "c")), ("def f():",)),)
    assert parsed('diff --git "a/\\t" "b/\\t"\nnew file mode 100755\n') == [
        FilePatch("add", "\t", (), mode=0o755)
    ]
    (one,) = parsed('--- "a/\\q"\n+++ "b/\\q"\n@@ -1 +1 @@\n-b\n+c\n')
    assert one.path == "\\q"
    (one,) = parsed("--- old/x\n+++ new/x\n@@ -1 +1 @@\n-b\n+c\n")
    assert (one.path, one.moved_to) == ("old/x", "new/x")


def test_the_corners_of_an_envelope() -> None:
    start, end = "*** Begin Patch\n*** Update File: x\n", "*** End Patch"
    (one,) = parsed(start + "@@ -1,2 +1,2 @@ def f():\n-b\n+c\n" + end)
    assert one.hunks == (Hunk((("-", "b"), ("+", "c")), ("def f():",)),)
    (one,) = parsed(start + "@@ def f(): @@\n-b\n+c\n" + end)
    assert one.hunks[0].anchors == ("def f():",)
    (one,) = parsed("*** Begin Patch\n*** Add File: x\n\n*** End Patch")
    assert one == FilePatch("add", "x")
    (one,) = parsed("*** Begin Patch\n\n*** Delete File: x\n\n*** End Patch")
    assert one == FilePatch("delete", "x")
    assert added([]) == ""


def test_lines_that_come_after_a_line_that_is_there_twice_are_refused() -> None:
    hunk = Hunk((("+", "x"),), ("a",))
    found = applied("a\na\n", [hunk], "f")
    assert isinstance(found, Unfitting)
    assert "more than once" in found.reason
    assert applied("a\nb\n", [Hunk((("+", "x"),), ("a",), at_end=True)], "f") == Applied(
        "a\nb\nx\n"
    )
    (gone,) = parsed("--- a/f\n+++ b/f\n@@ -1,2 +0,0 @@\n-a\n-b\n")
    assert applied("a\r\nb", gone.hunks, "f") == Applied("")


def test_a_hunk_whose_lines_are_not_all_indented_alike_does_not_fit() -> None:
    found = applied("  a\n   b\n", [Hunk((("-", "a"), ("-", "b"), ("+", "c")))], "f")
    assert isinstance(found, Unfitting)


def test_a_rule_of_a_folder_speaks_of_what_is_in_it() -> None:
    levels = [Level("", parse("x\n")), Level("a/b", parse("!x\n/y\n"))]
    paths = ("x", "a/b/x", "a/b/y", "a/b/c/y")
    assert [is_ignored(levels, one, is_dir=False) for one in paths] == [True, False, True, False]


def test_a_search_for_what_comes_close_has_bounds() -> None:
    says = "`old` does not stand in f; read it again and copy the text exactly"
    assert edited("x\n" * 3000, "xy zzy", "q", "f") == Refused(says)
    assert edited("x" * 400, "y" * 400, "q", "f") == Refused(says)
    assert edited("ab\n", "\n\n", "q", "f") == Refused(says)
