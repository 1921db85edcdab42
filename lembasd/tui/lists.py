"""What there is to choose from: sessions, models, efforts, modes and settings."""

import asyncio
import time
from typing import Final

from lembasd.device.paths import Paths
from lembasd.protocol.errors import LembasError
from lembasd.store import catalogue
from lembasd.store.listing import Listed
from lembasd.tui.core.chat import MODES, Chat
from lembasd.tui.core.plain import clean_line
from lembasd.tui.ports import Ports
from lembasd.tui.widgets.picker import Item

TITLES: Final = {
    "sessions": "Sessions",
    "models": "Models",
    "efforts": "How long the model thinks",
    "modes": "What the agent may do",
    "settings": "Settings",
}
_MODES: Final = {
    "plan": "reads and plans; changes nothing",
    "manual": "asks before each change and each command",
    "edit": "edits files of the project; asks before each command",
    "auto": "asks nothing, within the floor",
}


async def items(what: str, chat: Chat, paths: Paths, ports: Ports) -> list[Item]:
    """The items of a list. Raises LembasError, OSError."""
    match what:
        case "sessions":
            return await asyncio.to_thread(_sessions, paths, chat.cwd)
        case "settings":
            settings = await ports.settings()
            return [
                Item(one.key, one.key, f"{clean_line(one.value)}  ({one.whose})")
                for one in settings
            ]
        case "modes":
            return [Item(mode, mode, _MODES[mode]) for mode in MODES]
    models = await ports.models()
    if what == "models":
        return [Item(one.name, clean_line(one.name), clean_line(one.about)) for one in models]
    levels = next((one.levels for one in models if one.name == chat.model), ())
    return [Item(level, clean_line(level)) for level in levels]


async def said(paths: Paths, words: str) -> list[Item]:
    """Sessions in which something was said, by what it was. A catalogue that cannot be read finds nothing."""
    try:
        found = await asyncio.to_thread(catalogue.search, paths, words)
    except (OSError, LembasError):
        return []
    return [
        Item(one.session_id, clean_line(one.title) or "(no title)", clean_line(one.excerpt))
        for one in found
    ]


def _sessions(paths: Paths, cwd: str) -> list[Item]:
    """The one that changed last first; those of this directory before the others. Blocks."""
    found = catalogue.sessions(paths)
    here = [one for one in found if one.root == cwd]
    elsewhere = [one for one in found if one.root != cwd]
    return [_session(one) for one in (*here, *elsewhere)]


def _session(one: Listed) -> Item:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.changed))
    state = "  open" if one.pid is not None else ""
    title = clean_line(one.title) or "(no title)"
    return Item(one.session_id, title, f"{when}{state}  {clean_line(one.root)}")
