"""Whether an awk or sed script runs or writes anything beside its output."""

import re
from collections.abc import Sequence
from typing import Final

from lembasd.engine.native.core.shell.options import is_option, values_of
from lembasd.engine.native.core.shell.reading import Word

_AWK_RUNS: Final = re.compile(
    r"system|getline|inplace|/inet/|@(?:load|include|namespace|[A-Za-z_]\w*\s*\()"
)
_AWK_STATEMENT: Final = re.compile(r"[;}\n]")
_AWK_WRITES: Final = re.compile(r">|(?<!\|)\|(?!\|)")
_AWK_FILES: Final = [
    "-f",
    "--file",
    "-E",
    "--exec",
    "-i",
    "--include",
    "-l",
    "--load",
    "-e",
    "--source",
]
_PATTERN: Final = r"(?:/(?:[^/\\\n]|\\.)*/[IM]*)"
_ADDRESS: Final = (
    rf"(?:(?:\d+(?:~\d+)?|\$|{_PATTERN})(?:\s*,\s*(?:[+~]?\d+|\$|{_PATTERN}))?)?\s*!?\s*"
)
#: one command of sed that neither runs nor writes anything
_SED_PLAIN: Final = re.compile(
    rf"\s*{_ADDRESS}(?:"
    r"[pdDPgGhHnNxl=]|[qQ]\d*|[btT][ \t]*\w*|:[ \t]*\w+|[aic][ \t\\][^\n]*|\}|"
    r"s(?P<d>[^\w\s\\])(?:(?!(?P=d))[^\\\n]|\\.)*(?P=d)(?:(?!(?P=d))[^\\\n]|\\.)*(?P=d)[gpIiMm0-9]*|"
    r"y/(?:[^/\\\n]|\\.)*/(?:[^/\\\n]|\\.)*/|"
    r")[ \t]*"
)
_SED_END: Final = re.compile(r"[;\n{]|(?=\})|\Z")


def awk_runs(words: Sequence[Word]) -> bool:
    """Whether an awk program may run or write something, or cannot be seen."""
    skips = False
    for word in words:
        text = word.text
        if skips:
            skips = False
        elif text in ("-F", "-v", "--assign", "--field-separator"):
            skips = True
        elif is_option(text, _AWK_FILES) and not text.startswith(("-F", "-v")):
            return True
        elif not text.startswith("-") or not word.known:
            return not word.known or _AWK_RUNS.search(text) is not None or _prints_out(text)
    return False


def _prints_out(program: str) -> bool:
    """Whether a print of an awk program goes into a file or a command."""
    for statement in _AWK_STATEMENT.split(program):
        _, is_print, what = statement.partition("print")
        if is_print and _AWK_WRITES.search(what):
            return True
    return False


def sed_runs(words: Sequence[Word]) -> bool:
    """Whether a sed script may run or write something beside its output, or cannot be seen."""
    if any(
        is_option(word.text, ["--file"]) or re.match(r"-[nrEsuz]*f", word.text) for word in words
    ):
        return True
    scripts = list(values_of(words, ["-e", "--expression"]))
    if not scripts:
        scripts = [word for word in words if not word.text.startswith("-") or not word.known][:1]
    return any(not script.known or not _is_plain(script.text) for script in scripts)


def _is_plain(script: str) -> bool:
    at = 0
    while at < len(script):
        command = _SED_PLAIN.match(script, at)
        end = command and _SED_END.match(script, command.end())
        if not end or end.end() == at:
            return False
        at = end.end()
    return True
