"""The floor: whether a plain command is one that is refused in every mode."""

from collections.abc import Container, Sequence
from fnmatch import fnmatchcase
from typing import Final

from lembasd.engine.native.core import command_paths
from lembasd.engine.native.core.ground import Ground
from lembasd.engine.native.core.shell.options import basename, has_option, operands, values_of
from lembasd.engine.native.core.shell.reading import Command, Word
from lembasd.harness.permissions import HARDLINE, FloorRule

#: True: it is; None: it may be, once it runs
Hit = bool | None

_BY_NAME: Final[dict[str, list[FloorRule]]] = {}
_BY_PATTERN: Final[list[tuple[str, FloorRule]]] = []
for _rule in HARDLINE.commands:
    for _name in _rule.names:
        if "*" in _name:
            _BY_PATTERN.append((_name, _rule))
        else:
            _BY_NAME.setdefault(_name, []).append(_rule)


def hits(one: Command, ground: Ground, beside: Container[str] = ()) -> list[tuple[FloorRule, Hit]]:
    """The floor's rules that a command breaks, or may break. `beside`: the names of the line's commands."""
    if not one.words or not one.words[0].known:
        return []
    name = basename(one.words[0].text)
    rules = [
        *_BY_NAME.get(name, ()),
        *(r for pattern, r in _BY_PATTERN if fnmatchcase(name, pattern)),
    ]
    found = [
        (rule, _hit(rule, one, ground))
        for rule in rules
        if not rule.beside or any(other in beside for other in rule.beside)
    ]
    return [(rule, hit) for rule, hit in found if hit is not False]


def _hit(rule: FloorRule, one: Command, ground: Ground) -> Hit:
    words = one.words[1:]
    if rule.implied and (not words or words[0].text.startswith("-")):
        words = (Word(rule.implied), *words)
    if rule.unless and has_option(words, rule.unless):
        return False
    flags = has_option(words, rule.flags) if rule.flags else True
    if flags is False:
        return False
    if rule.words:
        return _in_order(rule.words, words) if flags else None
    if not rule.operands:
        return flags
    operand = _operand(rule, one, words, ground)
    if operand is False:
        return False
    if flags and operand:
        return True
    if flags is None and operand is None and not any(word.many for word in words):
        # one word cannot be the option and the operand
        return False
    return None


def _in_order(wanted: Sequence[Sequence[str]], words: Sequence[Word]) -> Hit:
    left = list(wanted)
    for word in words:
        if not word.known and not word.text:
            return None
        if left and any(fnmatchcase(word.text, one) for one in left[0]):
            left.pop(0)
    return not left


def _operand(rule: FloorRule, one: Command, words: Sequence[Word], ground: Ground) -> Hit:
    match rule.operands:
        case "any":
            return bool(operands(words))
        case "service":
            # the first may be the signal
            behind = words[1:] if words and words[0].text[:1] == "-" else words
            return any(word.known and word.text.removeprefix("-") in ground.pids for word in behind)
        case "everybody":
            return any(word.text == "-1" for word in words[1:])
        case "device":
            return _any_device(_behind(rule.keyed, words), one, ground)
        case "device_target":
            return _any_device(written(one), one, ground)
        case "system_source":
            targets = operands(words)
            last = None if has_option(words, ["-t", "--target-directory"]) else -1
            return _any_system(targets[:last], one, ground)
        case _:
            return _any_system(operands(words), one, ground)


def _behind(key: str, words: Sequence[Word]) -> list[Word]:
    if not key:
        return operands(words)
    start = f"{key}="
    return [Word(w.text.removeprefix(start), w.known) for w in words if w.text.startswith(start)]


def _any_device(words: Sequence[Word], one: Command, ground: Ground) -> Hit:
    return any(
        ground.is_device(path)
        for named in command_paths.of_words(words, command_paths.places_of(one))
        for path in command_paths.ways(named, ground)
    )


def _any_system(words: Sequence[Word], one: Command, ground: Ground) -> Hit:
    unknown, places = False, command_paths.places_of(one)
    for word in words:
        if not word.known:
            unknown = True
            continue
        for named in command_paths.of_word(word, places):
            if named.text is None:
                unknown = True
            elif any(ground.is_system(path) for path in command_paths.ways(named, ground)):
                return True
    return None if unknown else False


def written(one: Command) -> list[Word]:
    """The words of a command that name what it writes, as far as is known of it."""
    name, words = basename(one.words[0].text), one.words[1:]
    found = _written(HARDLINE.writers.get(name, ""), words)
    options = HARDLINE.output_options.get(name)
    return found if options is None else [*found, *values_of(words, options)]


def _written(how: str, words: Sequence[Word]) -> list[Word]:
    targets = operands(words)
    if how in ("", "none"):
        return []
    if how == "all":
        return targets
    if how in ("last", "move"):
        into = _last(targets, words)
        return [*targets, *into] if how == "move" else into
    if how.startswith("-"):
        return targets if has_option(words, [how, "--in-place"]) is not False else []
    return _behind(how, words)


def _last(targets: Sequence[Word], words: Sequence[Word]) -> list[Word]:
    """Of a command that copies: its last operand, and in it, where that is a directory, what has the others' names."""
    named = list(values_of(words, ["-t", "--target-directory"]))
    sources = targets if named else targets[:-1]
    into = named or targets[-1:]
    inside = [
        Word(f"{place.text}/{basename(one.text.rstrip('/'))}", glob=place.glob or one.glob)
        for place in into
        for one in sources
        if place.known and one.known
    ]
    return [*into, *inside]
