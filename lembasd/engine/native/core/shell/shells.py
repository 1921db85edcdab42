"""What is given to a shell to read, and where a line is: bash -c, eval, source, trap, cd."""

import re
from typing import Final

from lembasd.engine.native.core.paths import lexical
from lembasd.engine.native.core.shell import directories
from lembasd.engine.native.core.shell.evaluate import HIDDEN
from lembasd.engine.native.core.shell.expansion import CODE, INPUT_UNKNOWN, SPELLING, Expansion
from lembasd.engine.native.core.shell.reading import UNKNOWN, Places, Word

#: the files that are a command's own input or another of its open files
_DESCRIPTORS: Final = ("/dev/fd", "/proc/")
_CD_OPTION: Final = re.compile(r"-[LPe@n]+|--")


def shell(one: Expansion, _name: str) -> None:
    """A shell: its line, its script, or what it reads."""
    words, has_code = _options(one)
    if words is None:
        one.unseen(INPUT_UNKNOWN)
    elif has_code:
        one.line(words[:1], one.other_shell(one.input))
    elif not words:
        one.shell_reads(one.input)
    elif words[0].text == "/dev/stdin":
        one.shell_reads(one.input or UNKNOWN)
    elif not words[0].known or words[0].glob or words[0].text.startswith(_DESCRIPTORS):
        one.unseen(INPUT_UNKNOWN)


def _options(one: Expansion) -> tuple[list[Word] | None, bool]:
    """The operands of a shell, and whether the first is its line. None: nobody knows."""
    words, has_code = list(one.words), False
    while words:
        text = words[0].text
        if not words[0].known and (text == "" or text[0] in "-+"):
            return None, False
        if text in ("--", "-"):
            return words[1:], has_code
        if text[:1] not in ("-", "+"):
            break
        words.pop(0)
        if text.partition("=")[0] in SPELLING.shell_code_options:
            one.unseen(CODE)
            del words[:1]
        elif text in SPELLING.shell_value_options:
            del words[:1]
        elif not text.startswith("--"):
            has_code = has_code or (text[0] == "-" and "c" in text)
            if text[0] == "-" and "s" in text:
                one.shell_reads(one.input)
            if text.endswith(("o", "O")):
                del words[:1]
    return words, has_code


def evaluated(one: Expansion, _name: str) -> None:
    """eval: its words are a line of this shell."""
    words = [word for word in one.words if word.text != "--"]
    if words:
        one.line(words)


def sourced(one: Expansion, _name: str) -> None:
    """source: a file may set anything and go anywhere."""
    rest = [word for word in one.words if word.text != "--"]
    if rest and rest[0].text == "/dev/stdin":
        one.shell_reads(one.input or UNKNOWN)
    elif not rest or not rest[0].known or rest[0].glob or rest[0].text.startswith(_DESCRIPTORS):
        one.unseen(INPUT_UNKNOWN)
    one.state.variables, one.state.places = {}, None
    one.walk.moves = True


def trapped(one: Expansion, _name: str) -> None:
    """trap: its first word is a line that runs later."""
    for word in [w for w in one.words if w.text not in ("--", "-p", "-l")][:1]:
        state = one.other_shell()
        state.places = None
        with one.walk.later():
            one.line([word], state)


def aliased(one: Expansion, _name: str) -> None:
    """alias: what a name is to stand for is a line's beginning."""
    for word in one.words:
        if not word.known:
            one.unseen(INPUT_UNKNOWN)
        elif "=" in word.text:
            one.line([Word(word.text.partition("=")[2])], one.state.copy())


def goes(one: Expansion, name: str) -> None:
    """cd, pushd, popd: where the line is from here on."""
    one.walk.moves = True
    options = [word.text for word in one.words if _CD_OPTION.fullmatch(word.text)]
    words = [word for word in one.words if not _CD_OPTION.fullmatch(word.text)]
    before, one.state.places = one.state.places, None
    if "CDPATH" in one.command.sets:
        return
    if name == "cd" and not words:
        home = one.walk.home(one.state)
        one.state.places = None if home is None else frozenset({lexical(home)})
    elif name != "popd" and len(words) == 1 and words[0].known and not words[0].glob:
        physical = any("P" in option for option in options)
        one.state.places = _target(words[0].text, before, physical=physical)


def _target(target: str, before: Places, *, physical: bool) -> Places:
    if target in ("-", "") or target.startswith("+") or (physical and ".." in target):
        return before if target == "" else None
    return directories.target(target, before)


def changes(one: Expansion, name: str) -> None:
    """Builtins that may give a name another meaning."""
    texts = [word.text for word in one.words]
    options = [text for text in texts if text[:1] in ("-", "+")]
    found = {
        "enable": any("f" in text for text in options),
        "hash": any("p" in text for text in options),
        "shopt": "expand_aliases" in texts,
        "set": "physical" in texts or any("P" in text for text in options),
    }
    if found[name] or not all(word.known for word in one.words):
        one.unseen(HIDDEN)
