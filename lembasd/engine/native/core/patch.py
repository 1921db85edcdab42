"""Patches as models write them: the `*** Begin Patch` envelope and unified diffs. Reading only; see patch_apply.

Lenient in form (a code fence or a shell's heredoc around it, wrong counts in a hunk's head), strict in meaning.
"""

import re
from collections.abc import Iterator
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

#: files of one patch; more is a task for a command
MAX_FILES: Final = 200

_HEREDOC: Final = re.compile(
    r"""\s*(?:apply_patch\s+)?<<-?\s*(['"]?)(\w+)\1\s*\n(.*)\n\2\s*""", re.DOTALL
)
_FENCE: Final = re.compile(r"\s*```\w*\n(.*?)\n```\s*", re.DOTALL)
_HUNK: Final = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_OCTAL: Final = re.compile(rb'\\([0-7]{3}|[abfnrtv"\\])')
_ESCAPES: Final = {b"a": 7, b"b": 8, b"f": 12, b"n": 10, b"r": 13, b"t": 9, b"v": 11}


class BadPatch(ValueError):
    """No patch; the text is a sentence for the model."""


class Hunk(Struct, frozen=True):
    """Lines that are there, go and come: each a sign (" ", "-", "+") and its text.

    `anchors`: lines after which it stands, in this order. `line`: the number of its first line, where that is said.
    `at_end`: it ends with the file. `old_end`, `new_end`: whether the last line before and after it has an ending; None:
    as it is.
    """

    lines: tuple[tuple[str, str], ...]
    anchors: tuple[str, ...] = ()
    line: int | None = None
    at_end: bool = False
    old_end: bool | None = None
    new_end: bool | None = None


class FilePatch(Struct, frozen=True):
    """What happens to one file. `moved_to`: its path afterwards, None for the same. `mode`: of a file that is added."""

    kind: Literal["add", "update", "delete"]
    path: str
    hunks: tuple[Hunk, ...] = ()
    moved_to: str | None = None
    mode: int | None = None


def parsed(text: str) -> list[FilePatch]:
    """The files of a patch, in its order. Raises BadPatch."""
    lines = _lines(_unwrapped(text))
    is_envelope = any(line.strip() == "*** Begin Patch" for line in lines)
    files = list(_Envelope(lines).files() if is_envelope else _Unified(lines).files())
    files = [one if one.kind == "add" else _without_endings(one) for one in files]
    if not files:
        raise BadPatch(
            "there is no patch in this; begin with *** Begin Patch, or give a unified diff"
        )
    if len(files) > MAX_FILES:
        raise BadPatch(f"the patch changes {len(files)} files, at most {MAX_FILES} go at once")
    named = [path for one in files for path in (one.path, one.moved_to) if path is not None]
    for path in named:
        if not path or "\0" in path:
            raise BadPatch("the patch has a file without a name")
    if twice := sorted({path for path in named if named.count(path) > 1}):
        raise BadPatch(f"the patch speaks of {twice[0]} twice; put its hunks together")
    return files


def paths(text: str) -> list[str]:
    """Every path that a patch would read or write, as it names them. Raises BadPatch."""
    found = ((one.path, one.moved_to) for one in parsed(text))
    return [path for both in found for path in both if path is not None]


def _lines(text: str) -> list[str]:
    """The lines of a patch. A \\r at the end is its own, but where a line comes and others end without: then it comes too."""
    if text.count("\r\n") == text.count("\n"):
        return text.replace("\r\n", "\n").split("\n")
    return [
        line if line.startswith("+") and not line.startswith("+++ ") else line.removesuffix("\r")
        for line in text.split("\n")
    ]


def _without_endings(file: FilePatch) -> FilePatch:
    """A file that is there has endings of its own."""
    hunks = [
        replace(hunk, lines=tuple((sign, text.removesuffix("\r")) for sign, text in hunk.lines))
        for hunk in file.hunks
    ]
    return replace(file, hunks=tuple(hunks))


def _unwrapped(text: str) -> str:
    for around, group in ((_FENCE, 1), (_HEREDOC, 3)):
        if match := around.fullmatch(text):
            text = match[group]
    return text


class _Envelope:
    """`*** Begin Patch` … `*** End Patch`."""

    def __init__(self, lines: list[str]) -> None:
        bare = [line.strip() for line in lines]
        start = bare.index("*** Begin Patch")
        if any(bare[:start]):
            raise BadPatch("there is text before *** Begin Patch; leave it out")
        if "*** End Patch" not in bare:
            raise BadPatch("the patch has no *** End Patch; send it whole")
        end = len(bare) - 1 - bare[::-1].index("*** End Patch")
        if any(bare[end + 1 :]):
            raise BadPatch("there is text after *** End Patch; leave it out")
        self._lines = lines[start + 1 : end]
        self._at = 0

    def files(self) -> Iterator[FilePatch]:
        while self._at < len(self._lines):
            line = self._lines[self._at].strip()
            self._at += 1
            if not line:
                continue
            kind, _, path = line.partition(": ")
            match kind:
                case "*** Add File":
                    yield FilePatch("add", path.strip(), self._added(path))
                case "*** Delete File":
                    yield FilePatch("delete", path.strip())
                case "*** Update File":
                    yield self._updated(path.strip())
                case _:
                    raise BadPatch(
                        f"{line[:80]!r} is none of *** Add File: PATH, *** Update File: PATH, *** Delete File: PATH"
                    )

    def _body(self) -> Iterator[str]:
        while self._at < len(self._lines) and not self._is_head(self._lines[self._at]):
            self._at += 1
            yield self._lines[self._at - 1]

    @staticmethod
    def _is_head(line: str) -> bool:
        return line.startswith(("*** Add File: ", "*** Delete File: ", "*** Update File: "))

    def _added(self, path: str) -> tuple[Hunk, ...]:
        lines = []
        for line in self._body():
            if line.startswith("+"):
                lines.append(("+", line[1:]))
            elif line.strip():
                raise BadPatch(f"{path}: every line of an added file begins with +")
        return (Hunk(tuple(lines)),) if lines else ()

    def _updated(self, path: str) -> FilePatch:
        moved_to = None
        if self._at < len(self._lines) and self._lines[self._at].startswith("*** Move to: "):
            moved_to = self._lines[self._at].partition(": ")[2].strip()
            self._at += 1
        hunks: list[Hunk] = []
        anchors: list[str] = []
        lines: list[tuple[str, str]] = []
        at_end = False

        def close() -> None:
            nonlocal at_end
            while lines and lines[-1] == (" ", "") and not at_end:
                lines.pop()  # blank lines between hunks are the writer's
            if lines:
                hunks.append(_checked(path, Hunk(tuple(lines), tuple(anchors), at_end=at_end)))
                anchors.clear()
                lines.clear()
            at_end = False

        for line in self._body():
            if line.startswith("@@"):
                close()
                anchor = _anchor(line)
                if anchor:
                    anchors.append(anchor)
            elif line.strip() == "*** End of File":
                at_end = True
                close()
            elif line[:1] in ("+", "-", " "):
                lines.append((line[0], line[1:]))
            elif not line:
                lines.append((" ", ""))
            else:
                raise BadPatch(f"{path}: {line[:80]!r} begins with none of @@, space, + and -")
        close()
        if not hunks and moved_to is None:
            raise BadPatch(f"{path}: the update changes nothing")
        return FilePatch("update", path, tuple(hunks), moved_to)


def _anchor(line: str) -> str:
    """The line that `@@` names; a unified diff's numbers are none."""
    text = line[2:]
    if match := _HUNK.match(line):
        text = line[match.end() :]
    return text.strip().removesuffix("@@").strip()


def _checked(path: str, hunk: Hunk) -> Hunk:
    if all(sign == " " for sign, _ in hunk.lines):
        raise BadPatch(f"{path}: a hunk has neither + nor - lines")
    return hunk


class _Unified:
    """`--- a/file`, `+++ b/file`, `@@ -1,2 +1,3 @@`, with git's lines around them."""

    def __init__(self, lines: list[str]) -> None:
        if lines and lines[-1] == "":
            lines = lines[:-1]
        self._lines = lines
        self._at = 0

    def files(self) -> Iterator[FilePatch]:
        while self._at < len(self._lines):
            line = self._line()
            if line.startswith("diff --git "):
                self._at += 1
                yield self._git(line)
            elif self._is_head():
                yield self._file({})
            elif line.startswith("@@ -"):
                raise BadPatch("a hunk has no --- and +++ lines before it that name its file")
            elif line.startswith(("GIT binary patch", "Binary files ")):
                raise BadPatch("the patch holds a binary file; write it with a command")
            else:
                self._at += 1

    def _line(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._lines[at] if at < len(self._lines) else ""

    def _is_head(self, ahead: int = 0) -> bool:
        return self._line(ahead).startswith("--- ") and self._line(ahead + 1).startswith("+++ ")

    def _git(self, head: str) -> FilePatch:
        said: dict[str, str] = {}
        while self._at < len(self._lines) and not self._line().startswith("diff --git "):
            line = self._line()
            if self._is_head():
                return self._file(said)
            if line.startswith(("GIT binary patch", "Binary files ")):
                raise BadPatch("the patch holds a binary file; write it with a command")
            for word in (
                "new file mode",
                "deleted file mode",
                "rename from",
                "rename to",
                "old mode",
                "copy from",
            ):
                if line.startswith(word + " "):
                    said[word] = line[len(word) + 1 :]
            self._at += 1
        if "rename to" in said:
            old, new = _unquoted(said.get("rename from", "")), _unquoted(said["rename to"])
            return FilePatch("update", old, (), new)
        if "old mode" in said or "copy from" in said:
            raise BadPatch("the patch copies a file or changes its mode; use a command for that")
        # an empty file has neither --- nor +++: its name stands in the first line alone, twice
        name = _name_in_head(head)
        if "deleted file mode" in said:
            return FilePatch("delete", name)
        if "new file mode" in said:
            return FilePatch("add", name, (), mode=_mode(said))
        raise BadPatch(f"{name}: the patch changes nothing")

    def _file(self, said: dict[str, str]) -> FilePatch:
        if "old mode" in said:
            raise BadPatch("the patch changes a file's mode; use a command for that")
        old, new = _head_path(self._line()), _head_path(self._line(1))
        self._at += 2
        old, new = _without_letters(old, new, said)
        hunks = tuple(self._hunks(new or old or ""))
        if old is None and new is None:
            raise BadPatch("the patch has a file without a name")
        if old is None:
            return FilePatch("add", str(new), hunks, mode=_mode(said))
        if new is None:
            return FilePatch("delete", old, hunks)
        if not hunks and old == new:
            raise BadPatch(f"{new}: the patch changes nothing")
        return FilePatch("update", old, hunks, new if new != old else None)

    def _hunks(self, path: str) -> Iterator[Hunk]:
        while True:
            line = self._line()
            if not line.startswith("@@"):
                return
            match = _HUNK.match(line)
            self._at += 1
            lines, ends = self._hunk_lines(match)
            anchors: tuple[str, ...] = ()
            if match is None and (anchor := _anchor(line)):
                anchors = (anchor,)
            yield _checked(
                path,
                Hunk(
                    tuple(lines),
                    anchors,
                    int(match[1]) if match else None,
                    False,
                    ends.get("-", ends.get(" ")),
                    ends.get("+", ends.get(" ")),
                ),
            )

    def _hunk_lines(
        self, match: re.Match[str] | None
    ) -> tuple[list[tuple[str, str]], dict[str, bool]]:
        """The lines of a hunk, as its counts say, and as the signs say where the counts are wrong."""
        old = int(match[2] or 1) if match else 0
        new = int(match[3] or 1) if match else 0
        lines: list[tuple[str, str]] = []
        ends: dict[str, bool] = {}
        while self._at < len(self._lines):
            line = self._line()
            is_due = old > 0 or new > 0
            if line.startswith("\\"):
                if lines:
                    ends[lines[-1][0]] = False
            elif self._is_head() and (not is_due or self._line(2).startswith("@@")):
                break
            elif line[:1] in ("+", "-", " "):
                lines.append((line[0], line[1:]))
                old -= line[0] != "+"
                new -= line[0] != "-"
            elif not line and is_due:
                lines.append((" ", ""))  # an editor took the space
                old, new = old - 1, new - 1
            else:
                break
            self._at += 1
        return lines, ends


def _head_path(line: str) -> str | None:
    """The path in a `---` or `+++` line; None for /dev/null."""
    text = line[4:]
    path = _unquoted(text) if text.startswith('"') else text.partition("\t")[0].rstrip()
    return None if path == "/dev/null" else path


def _without_letters(
    old: str | None, new: str | None, said: dict[str, str]
) -> tuple[str | None, str | None]:
    """Without git's a/ and b/, where both have them."""
    if "rename to" in said:
        return _unquoted(said.get("rename from", "")), _unquoted(said["rename to"])
    if (old is None or old.startswith("a/")) and (new is None or new.startswith("b/")):
        return old and old[2:], new and new[2:]
    return old, new


def _name_in_head(line: str) -> str:
    text = line.removeprefix("diff --git ")
    if text.startswith('"'):
        return _unquoted(text[: len(text) // 2])[2:]
    return text[: len(text) // 2].removeprefix("a/")


def _mode(said: dict[str, str]) -> int | None:
    return 0o755 if said.get("new file mode") == "100755" else None


def _unquoted(text: str) -> str:
    """A path as git quotes it."""
    if not (text.startswith('"') and text.rstrip().endswith('"')):
        return text
    raw = text.rstrip()[1:-1].encode("utf-8", "surrogateescape")

    def one(match: re.Match[bytes]) -> bytes:
        code = match[1]
        if len(code) == 3:
            return bytes([int(code, 8) & 0xFF])
        return bytes([_ESCAPES[code]]) if code in _ESCAPES else code

    return _OCTAL.sub(one, raw).decode("utf-8", "surrogateescape")
