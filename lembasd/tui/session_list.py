"""The sessions of this machine as a list to choose from."""

import time

from lembasd.device.paths import Paths
from lembasd.store import listing
from lembasd.tui.core.plain import clean_line
from lembasd.tui.widgets.picker import Item


def items(paths: Paths, cwd: str) -> list[Item]:
    """The one that changed last first; those of this directory before the others. Blocks."""
    found = listing.sessions(paths)
    here = [one for one in found if one.root == cwd]
    elsewhere = [one for one in found if one.root != cwd]
    return [_item(one) for one in (*here, *elsewhere)]


def _item(one: listing.Listed) -> Item:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.changed))
    state = "  open" if one.pid is not None else ""
    title = clean_line(one.title) or "(no title)"
    return Item(one.session_id, title, f"{when}{state}  {clean_line(one.root)}")
