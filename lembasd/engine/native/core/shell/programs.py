"""Programs that run others, or code, by their own words: find, git, interpreters, awk, sed, options that name programs."""

import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final

from lembasd.engine.native.core.shell import scripts
from lembasd.engine.native.core.shell.evaluate import HIDDEN, holds_command
from lembasd.engine.native.core.shell.expansion import (
    CODE,
    CODE_COMMANDS,
    INPUT_UNKNOWN,
    INTERPRETERS,
    OPTION_UNKNOWN,
    PROGRAM,
    SPELLING,
    STDIN_INTERPRETERS,
    Expansion,
)
from lembasd.engine.native.core.shell.options import is_option, values_of
from lembasd.engine.native.core.shell.reading import Word
from lembasd.engine.native.core.shell.walk import hides_variables

_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_DECLARES: Final = frozenset({"declare", "typeset", "local", "export", "readonly"})
_FIND_RUNS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_GIT_VALUES: Final = frozenset(
    [
        "-C",
        "-c",
        "--git-dir",
        "--work-tree",
        "--namespace",
        "--exec-path",
        "--config-env",
        "--super-prefix",
    ]
)
_CLONE_SETTINGS: Final = ("-c", "--config")
#: an interpreter's options whose value is no code
_TAKES_VALUE: Final = frozenset(["-W", "-X", "-I", "-r", "--require", "--import", "-C"])
#: modules that are a program of another name
_PERSON: Final = {"lembasd.cli.person": ("lembas",)}
_VERSION: Final = frozenset(["--version", "-V", "-v", "--help", "-h"])


def other(one: Expansion, name: str) -> None:
    """Any program: what its words may run."""
    if name in SPELLING.named_by_text:
        _names_variables(one, name)
    key = CODE_COMMANDS.find(name)
    if key is not None:
        if any(not word.known and word.text.startswith("-") for word in one.words):
            one.unseen(OPTION_UNKNOWN)
        for value in values_of(one.words, SPELLING.code_commands[key]):
            one.line([value], one.state.copy())
        one.shell_reads(one.input)
    key = INTERPRETERS.find(name)
    if key is not None:
        _interpreter(one, name, SPELLING.interpreters[key])
    _program_options(one, name)
    _names_program(one, name)
    _runs_behind(one, SPELLING.runners.get(name, ()))
    if name in SPELLING.awks and scripts.awk_runs(one.words):
        one.unseen(CODE)
    if name in SPELLING.seds and scripts.sed_runs(one.words):
        one.unseen(CODE)


def _program_options(one: Expansion, name: str) -> None:
    programs = SPELLING.program_options.get(name)
    for word in _options(one.words) if programs is not None else ():
        if is_option(word.text, programs or ()):
            one.unseen(PROGRAM)
        elif not word.known and word.text.startswith("-"):
            one.unseen(OPTION_UNKNOWN)


def _names_program(one: Expansion, name: str) -> None:
    """Words of a program's own language that run something: in its words, or in what it reads."""
    patterns = SPELLING.program_words.get(name)
    if patterns is None:
        return
    given = one.input
    for word in [*one.words, *([] if given is None or not given.known else [given])]:
        text = word.text.lower()
        if any(fnmatchcase(text, pattern) for pattern in patterns):
            one.unseen(PROGRAM)


def _runs_behind(one: Expansion, own: Sequence[str]) -> None:
    """A program that runs the command behind its own words, in its own way (npx, bundle exec)."""
    at = next((at + 1 for at, word in enumerate(one.words) if word.text in own), 0)
    if not at and "" not in own:
        return
    rest = one.words[at:]
    starts = [at for at, word in enumerate(rest) if not word.text.startswith("-")]
    for start in starts[: 2 if starts and starts[0] else 1]:
        # behind an option the first may be its value
        one.again(rest[start:], stands_for=True)


def _options(words: Sequence[Word]) -> Iterator[Word]:
    for word in words:
        if word.text == "--":
            return
        yield word


def _names_variables(one: Expansion, name: str) -> None:
    """A builtin that takes a variable's name: its value is not known any more, and its index may hold a command."""
    if name in _DECLARES and hides_variables(list(one.command.words)):
        one.walk.unsure = True
    for word in one.words:
        if not word.known:
            one.state.variables = {}
        elif holds_command(word.text):
            one.unseen(HIDDEN)
        else:
            for variable in _NAME.findall(word.text):
                one.walk.moves = one.walk.moves or variable in ("HOME", "IFS")
                one.state.forget(variable)


def _interpreter(one: Expansion, name: str, code: Sequence[str]) -> None:
    if _has_code(one.words, code):
        one.unseen(CODE)
        return
    if name.startswith(("python", "pypy")):
        _module(one)
    operands = [
        word.text for word in one.words if not word.text.startswith("-") or word.text == "-"
    ]
    first = operands[0] if operands else "-"
    if first.startswith(("/dev/fd", "/proc/")) or (name == "deno" and first == "eval"):
        one.unseen(CODE)
    elif first in ("-", "/dev/stdin") and STDIN_INTERPRETERS.find(name) is not None:
        asks = any(word.text in _VERSION for word in one.words)
        if one.input is not None and not asks:
            one.unseen(INPUT_UNKNOWN)


def _module(one: Expansion) -> None:
    """python -m: a module is a program of its name."""
    for at, word in enumerate(one.words):
        if not word.text.startswith("-"):
            return
        if is_option(word.text, ["-m"]):
            module = _module_name(word.text, one.words[at + 1 :])
            if not module.known or module.text in SPELLING.code_modules:
                one.unseen(CODE)
            rest = one.words[at + (2 if word.text.endswith("m") else 1) :]
            for program in dict.fromkeys(
                [module.text.partition(".")[0], *_PERSON.get(module.text, ())]
            ):
                one.again([Word(program, module.known), *rest], stands_for=True)
            return


def _module_name(option: str, after: Sequence[Word]) -> Word:
    glued = option.partition("m")[2]
    if glued:
        return Word(glued)
    return after[0] if after else Word("")


def _has_code(words: Sequence[Word], code: Sequence[str]) -> bool:
    """Whether an interpreter is given code on its command line: by an option before its script."""
    skips = False
    for word in words:
        text = word.text
        if skips:
            skips = False
        elif not word.known or word.glob or is_option(text, code):
            return True
        elif text in ("-m", "--", "-") or not text.startswith("-"):
            return False
        else:
            skips = text in _TAKES_VALUE
    return False


def find(one: Expansion, _name: str) -> None:
    """find: the commands of its actions, with what it finds in the place of {}."""
    words = list(one.words)
    starts: list[Word] = []
    for word in words:
        if word.known and word.text.startswith(("-", "(", "!")):
            if word.text not in ("-H", "-L", "-P"):
                break
        else:
            starts.append(word)
    is_listed = any(word.text == "-files0-from" for word in words)
    if is_listed or not all(word.known for word in words[len(starts) :]):
        one.unseen(OPTION_UNKNOWN)
    for at, word in enumerate(words):
        if word.text in _FIND_RUNS:
            inner = _action(words[at + 1 :])
            one.again([Word("", known=False) if "{}" in part.text else part for part in inner])
            for start in starts or [Word(".")]:
                # what it finds first is where it starts
                one.again([start if part.text == "{}" else part for part in inner])


def _action(words: Sequence[Word]) -> list[Word]:
    inner: list[Word] = []
    for word in words:
        if word.text == ";" or (word.text == "+" and inner and inner[-1].text == "{}"):
            break
        inner.append(word)
    return inner


def git(one: Expansion, _name: str) -> None:
    """git: settings that name programs, and subcommands that run some."""
    for value in values_of(_before_subcommand(one.words), ["-c", "--config-env"]):
        key, _, text = value.text.partition("=")
        if text.startswith("!"):
            one.line([Word(text[1:], known=value.known)], one.state.copy())
        elif not value.known or any(fnmatchcase(key.lower(), p) for p in SPELLING.git_settings):
            one.unseen(PROGRAM)
    _program_options(one, "git")
    _names_program(one, "git")
    sub = one.words[len(_before_subcommand(one.words)) :]
    special = _GIT.get(sub[0].text) if sub else None
    if special is not None:
        special(one, sub[1:])


def _bisect(one: Expansion, words: Sequence[Word]) -> None:
    if words and words[0].text == "run":
        one.again(words[1:])


def _submodule(one: Expansion, words: Sequence[Word]) -> None:
    if words and words[0].text == "foreach":
        line = [word for word in words[1:] if word.text not in ("--recursive", "-q")]
        one.line(line, one.state.copy())


def _rebase(one: Expansion, words: Sequence[Word]) -> None:
    for value in values_of(words, ["-x", "--exec"]):
        one.line([value], one.state.copy())


def _grep(one: Expansion, words: Sequence[Word]) -> None:
    if any(is_option(word.text, ["-O"]) for word in words):
        one.unseen(PROGRAM)


def _config(one: Expansion, words: Sequence[Word]) -> None:
    if _sets_program([word.text for word in words]):
        one.unseen(PROGRAM)


def _filter_branch(one: Expansion, _words: Sequence[Word]) -> None:
    one.unseen(PROGRAM)


def _clone(one: Expansion, words: Sequence[Word]) -> None:
    settings = [value.text.partition("=")[0].lower() for value in values_of(words, _CLONE_SETTINGS)]
    if any(fnmatchcase(key, p) for key in settings for p in SPELLING.git_settings) or any(
        is_option(word.text, ["-u", "--template"]) for word in words
    ):
        one.unseen(PROGRAM)


def _before_subcommand(words: Sequence[Word]) -> Sequence[Word]:
    at = 0
    while at < len(words) and words[at].text.startswith("-"):
        at += 2 if words[at].text in _GIT_VALUES else 1
    return words[:at]


def _sets_program(texts: Sequence[str]) -> bool:
    """Whether a setting that names a program is given a value."""
    plain = [text for text in texts if not text.startswith("-")]
    return (
        any(
            fnmatchcase(text.lower(), pattern)
            for text in plain[:2]
            for pattern in SPELLING.git_settings
        )
        and len(plain) > 1
    )


#: by subcommand
_GIT: Final[dict[str, Callable[[Expansion, Sequence[Word]], None]]] = {
    "bisect": _bisect,
    "clone": _clone,
    "config": _config,
    "filter-branch": _filter_branch,
    "grep": _grep,
    "rebase": _rebase,
    "submodule": _submodule,
}
