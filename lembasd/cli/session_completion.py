"""What a shell is offered where a session is to be named."""

from typing import Final

import click
from click.shell_completion import CompletionItem

from lembasd.device.paths import find_paths

#: sessions that are offered, those that changed last
MAX_OFFERED: Final = 50
_PREFIX: Final = "ses_"
_TITLE_CHARS: Final = 60


def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The sessions whose id begins so, with or without its `ses_`, and their titles. Never raises."""
    # imported here alone: each command has an id to complete, and few are asked to
    from lembasd.store import catalogue

    whole = _PREFIX.startswith(incomplete) or incomplete.startswith(_PREFIX)
    start = incomplete if whole else _PREFIX + incomplete
    try:
        found = catalogue.sessions(find_paths())
    except OSError:
        return []
    return [
        CompletionItem(one.session_id, help=" ".join(one.title.split())[:_TITLE_CHARS])
        for one in found
        if one.session_id.startswith(start)
    ][:MAX_OFFERED]
