"""Sessions in a store, written as a worker writes them."""

from lembasd.device.paths import Paths
from lembasd.store.journal import Journal
from lembasd.store.records import (
    Assistant,
    Call,
    Created,
    TitleSet,
    ToolResult,
    TurnAccepted,
    TurnEnded,
    TurnStarted,
)


def session_id(number: int) -> str:
    return f"ses_{number:026d}"


def store(
    paths: Paths,
    number: int,
    *said: tuple[str, str],
    title: str = "A title",
    root: str = "/project",
    output: str = "",
) -> str:
    """A session of these prompts and their answers; with an `output`, each runs a tool that gave it. Its id."""
    paths.make()
    found = session_id(number)
    journal = Journal.create(paths, found)
    journal.append(Created(session_id=found, root=root, mode="edit", model="m"))
    journal.append(TitleSet(title=title))
    add(journal, *said, output=output)
    journal.close()
    return found


def go_on(paths: Paths, found: str, *said: tuple[str, str]) -> None:
    """More of it."""
    journal = Journal.open(paths, found)
    add(journal, *said)
    journal.close()


def add(journal: Journal, *said: tuple[str, str], output: str = "") -> None:
    at = journal.whole_bytes
    for n, (prompt, answer) in enumerate(said):
        turn = f"t{at}_{n}"
        call = Call(id=f"c{at}_{n}", server_id="s", name="read", arguments="{}", args={"path": "a"})
        journal.append(TurnAccepted(turn_id=turn, text=prompt))
        journal.append(TurnStarted(turn_id=turn))
        journal.append(
            Assistant(
                turn_id=turn,
                message_id=f"m{at}_{n}",
                model="m",
                text=answer,
                calls=[call] if output else [],
            )
        )
        if output:
            journal.append(ToolResult(call_id=call.id, result_id="#0001", output=output))
        journal.append(TurnEnded(turn_id=turn, stop_reason="end_turn"))
