"""The presets of how a model speaks, as a person chooses one."""

from lembasd.cli import running
from lembasd.engine.native.core.client_context import CUSTOM
from lembasd.harness.loader import PERSONALITIES
from lembasd.link.core.faults import plain


def known(name: str | None) -> str | None:
    """The preset; None for one that is none here (link.md, /v1/me/personalization), which the person is told."""
    if name is None or name == CUSTOM or name in PERSONALITIES:
        return name
    running.say_error(
        f"this build knows no personality {plain(name)!r}; "
        f"choose {', '.join(sorted(PERSONALITIES))} or {CUSTOM} with `lembas config set personality NAME`"
    )
    return None
