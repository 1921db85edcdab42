"""Once a day: removing what is kept no longer, and saying what went."""

import time
from typing import Final

from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from lembasd.device import config
from lembasd.device.paths import Paths
from lembasd.protocol.amounts import say_size
from lembasd.protocol.errors import ConfigError
from lembasd.store import retention
from lembasd.store.retention import Report

#: between two times, a little less than between two wishes of the hub's; a hub that starts again and again wishes often
EVERY_S: Final = 20 * 3600.0


class Tidied(Struct, frozen=True):
    """What went, and how much may be stored of sessions (bytes)."""

    report: Report
    max_bytes: int


def tidy(paths: Paths) -> Tidied | None:
    """Remove what is kept no longer; None when it is not time, or config.yaml cannot be read. Blocks, never raises."""
    if not retention.is_due(paths, EVERY_S, time.time()):
        return None
    try:
        kept = config.load(paths.config_file).config.retention
    except ConfigError:
        return None  # what the person wants kept is not known; the hub says what is wrong
    return Tidied(retention.apply(paths, kept), kept.max_bytes)


def tell(tidied: Tidied, log: FilteringBoundLogger) -> None:
    """Log it; each session that was deleted by its name."""
    report = tidied.report
    for drop in report.drops:
        if drop.part == "session":
            log.warning("session_expired", session_id=drop.session_id, freed_bytes=drop.size)
    log.info(
        "store_tidied",
        freed_bytes=report.freed_bytes,
        left_bytes=report.left_bytes,
        sessions=report.count("session"),
        attachments=report.count("attachments"),
        undo=report.count("undo"),
        damaged=report.count("damaged"),
    )
    if report.over:
        log.warning(
            "store_too_large",
            left_bytes=report.left_bytes,
            error=f"sessions take {say_size(report.left_bytes)}, over retention.size "
            f"({say_size(tidied.max_bytes)}); see `lembas sessions prune`, or set a larger one",
        )
