"""What /help says."""

from typing import Final

from lembasd.tui.core.commands import OWN

KEYS: Final = (
    ("Enter", "send; while the agent works: say it at its next step"),
    ("Tab", "while the agent works: send it after this turn"),
    ("Ctrl-J", "a new line (also Alt-Enter, Shift-Enter where the terminal knows it)"),
    ("Esc", "close what is open, else cancel the turn"),
    ("Shift-Tab", "the next mode: plan, manual, edit"),
    ("@", "name a file; / at the start: a command"),
    ("Up, Down", "what was sent before"),
    ("PgUp, PgDn", "scroll; Ctrl-Home, Ctrl-End to the start and the end"),
    ("Ctrl-O", "go through the tool calls: Up, Down, Enter opens one, Esc comes back"),
    ("Ctrl-T", "show or hide what the model thought"),
    ("Ctrl-R", "open another session"),
    ("Ctrl-Y", "answer the card that waits"),
    ("Ctrl-Z", "suspend; `fg` comes back"),
    ("Ctrl-C", "empty the line, else cancel, twice: leave"),
    ("Ctrl-D", "leave (with nothing typed)"),
)


def text() -> str:
    """Keys and own commands, a line each."""
    keys = [f"{key:11} {what}" for key, what in KEYS]
    commands = [f"/{one.name} {one.hint}".ljust(34) + one.description for one in OWN]
    return "\n".join([*keys, "", *commands])
