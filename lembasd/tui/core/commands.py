"""The person's own commands, and how a line that begins with / is read and completed."""

from collections.abc import Sequence
from typing import Final

from msgspec import UNSET, Struct

from lembasd.protocol.lembas import AvailableCommand
from lembasd.tui.core.plain import clean_line


class Command(Struct, frozen=True):
    """`own`: this program does it; any other is the session's. `hint`: what may follow it."""

    name: str
    description: str
    hint: str = ""
    own: bool = False


#: what this program does itself; a session's command of the same name is never reached, as link.md has it
OWN: Final = tuple(
    Command(name, description, hint, own=True)
    for name, hint, description in (
        ("attach", "<path>", "send an image or a file with the next prompt"),
        ("copy", "", "put the last answer on the clipboard"),
        ("delete", "", "delete this session"),
        ("effort", "<level>", "how long the model thinks"),
        ("help", "", "keys and commands"),
        ("login", "<url>", "log this device in to an instance"),
        ("mode", "plan | manual | edit | auto", "what the agent may do without asking"),
        ("model", "<name>", "the model of this session"),
        ("new", "", "a new session in this directory"),
        ("quit", "", "leave; the session goes on"),
        ("sessions", "<words>", "open another session"),
        ("settings", "<key> <value>", "settings of the account and of this device"),
        ("share", "on | off", "show this session to the instance"),
        ("title", "<text>", "call this session something else"),
        ("usage", "", "tokens and cost of this month"),
    )
)
_OWN_NAMES: Final = frozenset(one.name for one in OWN)


def all_of(session: Sequence[AvailableCommand]) -> list[Command]:
    """Own commands and the session's, by name."""
    theirs = [
        Command(
            clean_line(one.name),
            clean_line(one.description),
            "" if one.input is UNSET else clean_line(one.input.hint),
        )
        for one in session
        if one.name not in _OWN_NAMES
    ]
    return sorted([*OWN, *theirs], key=lambda one: one.name)


def own(text: str) -> tuple[str, str] | None:
    """Name and argument of a line that is an own command, else None."""
    name, _, argument = text.strip().partition(" ")
    if not name.startswith("/") or name[1:] not in _OWN_NAMES:
        return None
    return name[1:], argument.strip()


def matching(commands: Sequence[Command], typed: str) -> list[Command]:
    """What `typed` may become: names that begin with it, then those that contain it."""
    begins = [one for one in commands if one.name.startswith(typed)]
    return begins + [one for one in commands if typed in one.name and one not in begins]
