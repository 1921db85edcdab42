"""`lembas sessions prune`: deleting many sessions, or removing what `retention:` keeps no longer. It needs no hub."""

import time
from typing import Any, Final

import click
from msgspec import Struct

from lembasd.cli import running
from lembasd.cli.persons import persons_only
from lembasd.device import config
from lembasd.device.paths import Paths, find_paths
from lembasd.protocol import amounts
from lembasd.protocol.amounts import say_size
from lembasd.protocol.errors import EXIT_DONE, EXIT_FAILED, EXIT_USAGE, UsageError, says
from lembasd.store import deleting, footprint, retention
from lembasd.store.core.retention import Stored, selected
from lembasd.store.journal import NoSession, SessionLocked
from lembasd.store.retention import Report

#: what `Report.count` knows, as a person reads it
_PARTS: Final = {
    "attachments": "files of prompts",
    "undo": "what files were before changes",
    "damaged": "copies of damaged lines",
}


class _Row(Struct, frozen=True):
    """One session that was to go. `deleted` is what became of it; `why` it was not."""

    stored: Stored
    deleted: bool
    why: str = ""


@click.command()
@click.option("--older-than", "older", metavar="AGE", help="Not changed for so long: 30d, 12h, 2w.")
@click.option("--larger-than", "larger", metavar="SIZE", help="With more stored: 500MB, 2GB.")
@click.option("--keep", type=click.IntRange(min=0), help="Keep the N that changed last.")
@click.option("--dry-run", "dry", is_flag=True, help="Only say what would be freed.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@persons_only
def prune(older: str | None, larger: str | None, keep: int | None, dry: bool, as_json: bool) -> int:
    """Delete the sessions of which all that is asked for is true.

    Sessions that are open stay. The instance is told as soon as there is a link. Without --older-than, --larger-than and
    --keep no session is chosen: then what `retention:` in config.yaml keeps no longer is removed now.
    """
    older_s = None if older is None else _read(_an_age, older)
    larger_bytes = None if larger is None else _read(amounts.read_size, larger)
    paths = find_paths()
    if older_s is None and larger_bytes is None and keep is None:
        kept = config.load(paths.config_file).config.retention
        return _say_report(retention.apply(paths, kept, dry=dry), dry=dry, as_json=as_json)
    chosen = selected(
        footprint.stored(paths),
        time.time(),
        older_s=older_s,
        larger_bytes=larger_bytes,
        keep=keep or 0,
    )
    rows = [_Row(one, deleted=True) if dry else _delete(paths, one) for one in chosen]
    return _say_rows(rows, dry=dry, as_json=as_json)


def _an_age(text: str) -> float:
    age_s = amounts.read_age(text)
    if age_s is None:
        raise ValueError("an age after which to delete, as 30d or 12h")
    return age_s


def _read(reader: Any, text: str) -> Any:
    try:
        return reader(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is not {error}", EXIT_USAGE) from None


def _delete(paths: Paths, one: Stored) -> _Row:
    try:
        deleting.delete(paths, one.session_id, tell=True)
    except NoSession:
        pass  # somebody was faster
    except SessionLocked:
        return _Row(one, deleted=False, why="it was opened just now")
    except OSError as error:
        return _Row(one, deleted=False, why=says(error))
    return _Row(one, deleted=True)


def _say_rows(rows: list[_Row], *, dry: bool, as_json: bool) -> int:
    freed = sum(row.stored.total_bytes for row in rows if row.deleted)
    if as_json:
        listed = [
            {
                "session_id": row.stored.session_id,
                "changed": row.stored.changed,
                "bytes": row.stored.total_bytes,
                "deleted": row.deleted and not dry,
            }
            for row in rows
        ]
        running.say_json({"sessions": listed, "freed_bytes": freed, "dry_run": dry})
    else:
        for row in rows:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(row.stored.changed))
            line = f"{row.stored.session_id}  {when}  {say_size(row.stored.total_bytes)}"
            click.echo(f"{line}  stays: {row.why}" if row.why else line)
        count = sum(row.deleted for row in rows)
        noun = "session" if count == 1 else "sessions"
        does = "would be deleted, which frees" if dry else "deleted, which frees"
        click.echo(f"{count} {noun} {does} {say_size(freed)}")
    return EXIT_FAILED if any(row.why for row in rows) else EXIT_DONE


def _say_report(report: Report, *, dry: bool, as_json: bool) -> int:
    if as_json:
        running.say_json(
            {
                "sessions": [
                    {"session_id": drop.session_id, "bytes": drop.size, "deleted": not dry}
                    for drop in report.drops
                    if drop.part == "session"
                ],
                **{part: report.count(part) for part in ("attachments", "undo", "damaged")},
                "logs_bytes": report.logs_bytes,
                "freed_bytes": report.freed_bytes,
                "left_bytes": report.left_bytes,
                "over": report.over,
                "dry_run": dry,
            }
        )
        return EXIT_DONE
    would = "would be removed" if dry else "removed"
    for drop in report.drops:
        what = _PARTS.get(drop.part, "the session")
        click.echo(f"{drop.session_id}  {say_size(drop.size)}  {what}")
    if report.logs_bytes:
        click.echo(f"parts of the log  {say_size(report.logs_bytes)}")
    left = say_size(report.left_bytes)
    click.echo(f"{say_size(report.freed_bytes)} {would}; sessions take {left}")
    if report.over:
        click.echo(
            "that is over retention.size; delete sessions with --older-than or --larger-than"
        )
    return EXIT_DONE
