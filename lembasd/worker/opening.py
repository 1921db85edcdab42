"""A session's store, made or taken up: everything here blocks and runs beside the loop."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, field

from lembasd import __version__
from lembasd.device.logging import logger
from lembasd.device.paths import Paths
from lembasd.protocol.context import Context, joined
from lembasd.protocol.control import Mode
from lembasd.protocol.mcp import McpServer
from lembasd.store import attachments, turns
from lembasd.store.core.fold import SessionView, fold, interrupted
from lembasd.store.core.ledger import Ledger, Turn, as_record, from_record, rebuilt
from lembasd.store.journal import DAMAGED, Journal, JournalDamaged
from lembasd.store.records import (
    JOURNAL_FORMAT,
    AnyRecord,
    Attachment,
    ContextSet,
    Created,
    Opened,
    TurnAccepted,
    TurnEnded,
)
from lembasd.worker.core.about import About
from lembasd.worker.core.blocks import Upload, file_name
from lembasd.worker.core.requests import NewSession


class Store(Struct):
    """An open session's store, and what it said when it was opened."""

    journal: Journal
    about: About
    epoch: int
    mode: Mode
    #: the mode that the person set
    widest: Mode
    given: bool
    #: it was made over the link
    by_link: bool
    context: Context = Context()
    title: str = ""
    ledger: Ledger = field(default_factory=Ledger)
    #: the turns that wait
    waiting: list[TurnAccepted] = []
    #: everything recorded so far, for the engine
    records: list[AnyRecord] = []
    #: MCP servers of the client that made the session; kept in memory alone, for they may hold secrets
    servers: list[McpServer] = []
    notice: str | None = None


def make(paths: Paths, session_id: str, new: NewSession, root: Path, *, given: bool) -> Store:
    """Make the store of a new session. Raises OSError: then nothing of it is left that would open."""
    journal = Journal.create(paths, session_id)
    created = Created(
        session_id=session_id,
        root=str(root),
        mode=new.mode,
        model=new.model,
        effort=new.effort,
        format=JOURNAL_FORMAT,
        given=given,
    )
    records: list[AnyRecord] = [
        created,
        Opened(epoch=1, build=__version__, format=JOURNAL_FORMAT),
    ]
    context = joined(Context(), new.context)
    if context != Context():
        records.append(ContextSet(context=context))
    try:
        for record in records:
            journal.append(record)
    except OSError:
        journal.discard()
        raise
    about = About(session_id, str(root), new.model, new.effort)
    return Store(
        journal=journal,
        about=about,
        epoch=1,
        mode=new.mode,
        widest=new.mode,
        given=given,
        by_link=given,
        context=context,
        ledger=Ledger({}),
        records=records,
        servers=new.servers,
    )


def take_up(paths: Paths, session_id: str, ended_for: str = "") -> Store:
    """Open a session that exists: what was cut off is recorded as ended (for `ended_for`), never run again.

    Raises NoSession, SessionLocked, JournalDamaged, JournalNewer, OSError.
    """
    journal = Journal.open(paths, session_id)
    view = fold(journal.records)
    if view.created is None:
        journal.close()
        raise JournalDamaged(
            f"the first line of {session_id} is damaged; what it held is in its journal.jsonl"
        )
    path = turns.path_of(paths, session_id)
    ends = _ends(view, turns.load(path), ended_for)
    epoch = _opened(journal, view, ends)
    _keep_turns(path, view.ledger)
    created = view.created
    waiting = [
        view.waiting.get(turn_id) or TurnAccepted(turn_id=turn_id, text="")
        for turn_id in view.ledger.queued
    ]
    return Store(
        journal=journal,
        about=About(session_id, created.root, view.model, view.effort),
        epoch=epoch,
        mode=view.mode,
        widest=view.widest,
        given=view.given,
        by_link=created.given,
        context=view.context,
        title=view.title,
        ledger=view.ledger,
        waiting=waiting,
        records=[*journal.release_records(), *ends],
        notice=_notice(journal),
    )


def _ends(view: SessionView, kept: Ledger, ended_for: str) -> list[TurnEnded]:
    """The ends that the journal lacks; the view's ledger has them from now on.

    An answer that only the turns file still has (its line is damaged) counts; every other turn that started is lost.
    """
    known = view.ledger
    view.ledger = rebuilt(known, kept)
    ends: list[TurnEnded] = []
    for turn_id in known.turns:
        turn = view.ledger.find(turn_id)
        before = known.turns[turn_id].state
        if turn is not None and turn.answer is not None and before != "done":
            ends.append(as_record(turn_id, turn.answer))
    for end in interrupted(view, ended_for):
        view.ledger.end(end.turn_id, from_record(end), time.time())
        ends.append(end)
    return ends


def _opened(journal: Journal, view: SessionView, ends: list[TurnEnded]) -> int:
    """Record this life and what the last one left open; its epoch."""
    epoch = view.epoch + 1
    try:
        journal.append(Opened(epoch=epoch, build=__version__, format=JOURNAL_FORMAT))
        for end in ends:
            journal.append(end)
    except OSError as error:
        # the session opens all the same, and the next prompt is told of the full disk. A life that could not be
        # written takes a number that no written one has, so that its messages are never taken for another's.
        logger().warning(
            "journal_not_written",
            session_id=journal.directory.name,
            error=os.strerror(error.errno or 0),
        )
        epoch = max(epoch, int(time.time()))
    return epoch


def _keep_turns(path: Path, ledger: Ledger) -> None:
    """Make the turns file again; the journal wins."""
    try:
        turns.rebuild(path, ledger)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        logger().warning("turns_not_written", session_id=path.stem, error=why)


def _notice(journal: Journal) -> str | None:
    if not journal.damaged:
        return None
    logger().warning("journal_damaged", session_id=journal.directory.name, lines=journal.damaged)
    aside = journal.directory / DAMAGED
    return (
        f"{journal.damaged} lines of this session's journal cannot be read; "
        f"the rest is used, they are kept in {aside}"
    )


def store_end(journal: Journal, path: Path, turn: Turn) -> None:
    """Write a finished turn into the turns file, after its end is in the journal and synced. Never raises."""
    answer = turn.answer
    logger().info(
        "turn_ended",
        session_id=journal.directory.name,
        turn_id=turn.turn_id,
        duration_ms=int(((turn.ended_at or turn.at) - turn.at) * 1000),
        stop_reason=answer.stop_reason if answer is not None else None,
        failed=answer is not None and answer.error is not None,
    )
    try:
        turns.save(path, Ledger({turn.turn_id: turn}))
    except OSError as error:
        logger().warning(
            "turns_not_written",
            session_id=journal.directory.name,
            turn_id=turn.turn_id,
            error=os.strerror(error.errno or 0),
        )


def store_uploads(paths: Paths, session_id: str, uploads: Sequence[Upload]) -> list[Attachment]:
    """Have the files that came with a prompt on the disk, all or none. Raises OSError."""
    stored: list[Attachment] = []
    try:
        for one in uploads:
            name = file_name(one.name)
            file = attachments.write(paths, session_id, name, one.content, time.time())
            stored.append(Attachment(one.name, one.mime, len(one.content), file, one.kind))
    except OSError:
        for kept in stored:
            attachments.remove(paths, session_id, kept.file)
        raise
    return stored
