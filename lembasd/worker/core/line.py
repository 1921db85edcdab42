"""The turns of a session that have not started, in the order in which they were asked for."""

from collections.abc import Sequence
from enum import Enum
from typing import Final

from msgspec import Struct

from lembasd.protocol.context import SaidContext
from lembasd.protocol.lembas import AttachmentInfo, QueuedPrompt
from lembasd.protocol.limits import MAX_PROMPT_BYTES
from lembasd.store.records import Attachment, TurnAccepted

#: turns that may wait for the one that runs; one more is refused
MAX_WAITING_TURNS: Final = 100
#: bytes of files that are on their way to the disk; a prompt with more is refused until some are there
MAX_UPLOADING_BYTES: Final = 4 * MAX_PROMPT_BYTES


#: characters of a waiting prompt that clients are shown; the whole of it comes when it begins
MAX_QUEUED_CHARS: Final = 2000


class Stage(Enum):
    """How far a turn is. Each keeps its place: one that is still judged holds up those behind it."""

    JUDGING = "judging"
    JUDGED = "judged"
    STORING = "storing"
    READY = "ready"


class Turn(Struct):
    """A turn that has not started. `at`: Unix seconds of its prompt. `cancelled`: it ends without starting.

    `local`: a person at this machine sent it.
    """

    turn_id: str
    text: str
    at: float
    stage: Stage
    attachments: list[Attachment] = []
    local: bool = False
    cancelled: bool = False
    #: of the files that are being stored
    upload_bytes: int = 0
    #: what its prompt told of the session beside
    said: SaidContext = SaidContext()


class Line:
    """`waiting`: turns that an earlier life of the worker stored, in order."""

    def __init__(self, waiting: Sequence[TurnAccepted]) -> None:
        self.turns = [
            Turn(one.turn_id, one.text, 0.0, Stage.READY, one.attachments, one.local)
            for one in waiting
        ]

    @property
    def ids(self) -> list[str]:
        return [turn.turn_id for turn in self.turns]

    @property
    def queue(self) -> list[QueuedPrompt]:
        """The prompts that are stored and wait."""
        return [
            QueuedPrompt(
                turn.turn_id,
                turn.text[:MAX_QUEUED_CHARS],
                [AttachmentInfo(one.name, one.mime, one.size) for one in turn.attachments],
            )
            for turn in self.turns
            if turn.stage is Stage.READY and not turn.cancelled
        ]

    @property
    def is_full(self) -> bool:
        return len(self.turns) >= MAX_WAITING_TURNS

    def has_room_for(self, upload_bytes: int) -> bool:
        """Whether so much more may be on its way to the disk."""
        under_way = sum(one.upload_bytes for one in self.turns if one.stage is Stage.JUDGING)
        return not upload_bytes or under_way + upload_bytes <= MAX_UPLOADING_BYTES

    def add(self, turn: Turn) -> None:
        self.turns.append(turn)

    def find(self, turn_id: str) -> Turn | None:
        return next((turn for turn in self.turns if turn.turn_id == turn_id), None)

    def remove(self, turn: Turn) -> None:
        self.turns.remove(turn)

    def cancel_next(self) -> None:
        """The turn that would start next ends without starting."""
        if self.turns:
            self.turns[0].cancelled = True

    def cancel_all(self) -> list[Turn]:
        """None of them starts. Those of which nothing is stored leave the line and are given back."""
        unstored = [turn for turn in self.turns if turn.stage in (Stage.JUDGING, Stage.JUDGED)]
        self.turns = [turn for turn in self.turns if turn not in unstored]
        for turn in self.turns:
            turn.cancelled = True
        return unstored

    def take_judged(self) -> list[Turn]:
        """The turns that are to be stored now."""
        judged: list[Turn] = []
        for turn in self.turns:
            if turn.stage is Stage.JUDGING:
                break
            if turn.stage is Stage.JUDGED:
                turn.stage = Stage.STORING
                judged.append(turn)
        return judged

    def take_cancelled(self) -> list[Turn]:
        """The stored turns that end without starting; they leave the line."""
        gone = [turn for turn in self.turns if turn.cancelled and turn.stage is Stage.READY]
        self.turns = [turn for turn in self.turns if turn not in gone]
        return gone

    def take_next(self) -> Turn | None:
        """The turn that is to start, if the first one may; it leaves the line."""
        if self.turns and self.turns[0].stage is Stage.READY:
            return self.turns.pop(0)
        return None
