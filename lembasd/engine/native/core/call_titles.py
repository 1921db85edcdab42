"""What a call is shown as: one line in which no character is more, or less, than what a person sees.

A card is answered by what it shows. So a command's own words stand there, never what the model says of it; and what a
client may draw in another way than it runs is told in words.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from lembasd.protocol.limits import MAX_TITLE_CHARS

#: a command of more is said to be long: a client may show only its beginning
LONG_LINES: Final = 10
LONG_CHARS: Final = 1000
#: characters named in a warning; of more kinds the rest is left out
MAX_NAMED: Final = 5
#: arguments of which one says what a call is about
_ABOUT: Final = ("pattern", "path", "id", "url")
#: what text is made of though it prints nothing: spaces between words, joiners of scripts and emoji
_USUAL: Final = frozenset("\n\t\u00a0\u202f\u3000\u200c\u200d")


def title(name: str, args: Mapping[str, Any]) -> str:
    """What a call is shown as where it only runs: a command by what the model says of it."""
    if name == "bash" and args.get("description"):
        return one_line(str(args["description"]).split("\n")[0])
    return card_title(name, args)


def card_title(name: str, args: Mapping[str, Any]) -> str:
    """What a call is shown as where it is asked about: by what it does alone."""
    if name == "bash":
        return one_line(str(args.get("command", "")))
    if name == "settings":
        return one_line(f"settings {args.get('key')} {args.get('value')}")
    about = next((args[one] for one in _ABOUT if args.get(one)), "")
    return one_line(f"{name} {about}".strip())


def one_line(text: str) -> str:
    """The text on one line, every character that prints nothing spelled out; its end is left out where it is long."""
    line = "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode()
        for one in text[: MAX_TITLE_CHARS + 1]
    )
    return line if len(line) <= MAX_TITLE_CHARS else line[: MAX_TITLE_CHARS - 1] + "…"


def warnings(args: Mapping[str, Any]) -> str:
    """What a card must say of its arguments, to stand behind its reason; "" when they are as they look."""
    said: list[str] = []
    command = args.get("command")
    if isinstance(command, str):
        lines = command.count("\n") + 1
        if lines > LONG_LINES or len(command) > LONG_CHARS:
            said.append(f"it is long ({lines} lines, {len(command)} characters): look at all of it")
    odd = dict.fromkeys(char for text in _texts(args) for char in _odd(text))
    if odd:
        names = ", ".join(f"U+{ord(one):04X}" for one in list(odd)[:MAX_NAMED])
        said.append(f"it holds characters that are not shown as they are: {names}")
    return "".join(f"; {one}" for one in said)


def led_elsewhere(paths: Mapping[str, tuple[str, str]]) -> str:
    """What a card must say of paths that lead elsewhere than they say: as named → as its words say, and where it leads."""
    found = [
        f"{one_line(named)} leads to {one_line(leads)}"
        for named, (says, leads) in paths.items()
        if says != leads
    ]
    return "".join(f"; {one}" for one in found[:MAX_NAMED])


def _odd(text: str) -> Iterator[str]:
    if not text.isprintable():
        yield from (one for one in text if not one.isprintable() and one not in _USUAL)


def _texts(value: Any) -> Iterator[str]:
    """The texts in arguments, in lists and objects too. Not recursive: arguments come as deep as a server likes."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            waiting += [*reversed(list(one.values())), *one]
        elif isinstance(one, list):
            waiting += reversed(one)
