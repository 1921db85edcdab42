"""What a session decides, input by input."""

from typing import Any

import pytest
from msgspec.structs import replace

from lembasd.protocol import events
from lembasd.protocol.acp import (
    CommandResult,
    PromptResult,
    PromptResultLembas,
    PromptResultMeta,
    Undone,
)
from lembasd.protocol.control import Attached, QueuedTurn, SessionState
from lembasd.protocol.errors import DISK_LOW, RequestRefused
from lembasd.protocol.lembas import AttachmentInfo, QueuedPrompt, Status
from lembasd.protocol.limits import MAX_PROMPT_BYTES
from lembasd.store.core.fold import WORKER_ENDED
from lembasd.store.core.ledger import Answer, Ledger
from lembasd.store.records import (
    Attachment,
    Given,
    ModeSet,
    SettingSet,
    TitleSet,
    TurnAccepted,
    TurnEnded,
    TurnError,
)
from lembasd.worker.core import answers, effects, inputs
from lembasd.worker.core.about import About
from lembasd.worker.core.answers import NOTHING_RUNS, TITLE_CHARS, title_of
from lembasd.worker.core.blocks import Upload
from lembasd.worker.core.effects import (
    CancelTimer,
    CancelTurn,
    Emit,
    EmitTo,
    End,
    Judge,
    Refuse,
    Reply,
    SayLeaving,
    SayState,
    SetTimer,
    StartCompaction,
    StartTurn,
    StoreAccepted,
    StoreEnd,
    UseEffort,
    UseMode,
    Write,
)
from lembasd.worker.core.inputs import Waiter
from lembasd.worker.core.line import MAX_QUEUED_CHARS, MAX_WAITING_TURNS
from lembasd.worker.core.rest import ALONE, IDLE, SUPERSEDED_S
from lembasd.worker.core.session import STOP, STOP_S, Session

ABOUT = About("ses_1", "/project", "m", "default")
LOCAL, LINK = 1, 2
DONE = Answer(stop_reason="end_turn")


def waiter(client: int = LOCAL, request: int = 1) -> Waiter:
    return Waiter(client=client, request=request, id=b'"c"')


def ready(**fields: Any) -> Session:
    """A session with a hub, a local client and a link client, its settings known."""
    session = Session(ABOUT, mode="manual", **fields)
    session.handle(inputs.HubJoined(), 0.0)
    session.handle(inputs.ClientAttached(Attached(client=LOCAL, local=True, opened=True)), 0.0)
    session.handle(inputs.ClientAttached(Attached(client=LINK, protocol=3)), 0.0)
    session.handle(inputs.SettingsCame("edit", 900.0), 0.0)
    return session


def prompt(turn_id: str = "t1", client: int = LOCAL, text: str = "hello") -> inputs.PromptAsked:
    return inputs.PromptAsked(waiter(client), turn_id, text, 5.0)


def is_standing(effect: effects.Effect) -> bool:
    """Whether it tells of how the session stands, which has tests of its own."""
    return isinstance(effect, SayState) or (
        isinstance(effect, Emit) and isinstance(effect.event, events.Queue)
    )


def without_state(found: list[effects.Effect]) -> list[effects.Effect]:
    return [one for one in found if not is_standing(one)]


def running(session: Session, turn_id: str = "t1") -> Session:
    session.handle(prompt(turn_id), 0.0)
    session.handle(inputs.Accepted(turn_id), 0.0)
    assert session.turn_id == turn_id
    return session


def result(turn_id: str = "t1", reason: Any = "end_turn") -> PromptResult:
    return PromptResult(reason, PromptResultMeta(PromptResultLembas(turn_id)))


def test_a_prompt_is_stored_then_started_then_its_end_stored_then_answered() -> None:
    session = ready(title="T")
    assert without_state(session.handle(prompt(), 1.0)) == [
        StoreAccepted("t1", "hello", local=True)
    ]
    assert without_state(session.handle(inputs.Accepted("t1"), 2.0)) == [
        Emit(events.Prompt(text="hello", turnId="t1")),
        Emit(events.Task(state="start", turnId="t1")),
        StartTurn("t1", "hello", local=True),
    ]
    assert without_state(session.handle(inputs.TurnFinished("t1", DONE), 3.0)) == [
        StoreEnd("t1", DONE)
    ]
    assert session.handle(inputs.EndStored("t1", 9.0), 4.0) == [
        Emit(events.Done(turnId="t1", stopReason="end_turn")),
        Emit(events.Task(state="end", turnId="t1")),
        Reply(waiter(), result()),
        SayState(
            SessionState(
                busy=False,
                last_turn_id="t1",
                title="T",
                root="/project",
                mode="manual",
                model="m",
            )
        ),
    ]


def test_the_first_prompt_gives_a_session_its_title() -> None:
    session = ready()
    session.handle(prompt(text="  fix\tthe bug \nplease"), 0.0)
    assert without_state(session.handle(inputs.Accepted("t1"), 0.0))[:2] == [
        Write(TitleSet(title="fix the bug")),
        Emit(events.Title(id="ses_1", title="fix the bug")),
    ]


def test_the_title_is_the_first_prompts_whichever_is_stored_first() -> None:
    session = ready()
    for turn_id, text in (("t1", "first"), ("t2", "second")):
        session.handle(prompt(turn_id, text=text), 0.0)
    for turn_id in ("t2", "t1"):
        session.handle(inputs.Accepted(turn_id), 0.0)
    assert session.title == "first"


def test_a_long_title_is_cut_and_an_empty_text_gives_none() -> None:
    assert title_of("x" * TITLE_CHARS) == "x" * TITLE_CHARS
    assert title_of("x" * (TITLE_CHARS + 1)) == "x" * (TITLE_CHARS - 1) + "…"
    assert title_of(" \n ") == ""


def test_a_known_id_joins_or_gets_its_answer_and_never_runs_again() -> None:
    session = running(ready())
    second = replace(prompt(), waiter=waiter(request=2))
    assert without_state(session.handle(second, 0.0)) == []
    session.handle(inputs.TurnFinished("t1", DONE), 0.0)
    third = replace(prompt(), waiter=waiter(request=3))
    assert without_state(session.handle(third, 0.0)) == []
    replies = [
        one for one in session.handle(inputs.EndStored("t1", 9.0), 0.0) if isinstance(one, Reply)
    ]
    assert replies == [Reply(waiter(request=number), result()) for number in (1, 2, 3)]
    assert without_state(session.handle(prompt(), 0.0)) == [Reply(waiter(), result())]


def test_an_id_that_is_still_judged_is_joined_too() -> None:
    session = ready()
    assert without_state(session.handle(prompt(client=LINK), 0.0)) == [Judge("t1")]
    assert without_state(session.handle(prompt(), 0.0)) == []


def test_a_turn_that_an_earlier_life_cut_off_answers_its_error_again() -> None:
    ledger = Ledger()
    ledger.end("t1", Answer(error=WORKER_ENDED), 1.0)
    assert without_state(ready(ledger=ledger).handle(prompt(), 0.0)) == [
        Refuse(waiter(), WORKER_ENDED)
    ]


def test_what_an_earlier_life_left_waiting_runs_once_the_settings_came() -> None:
    ledger = Ledger()
    ledger.accept("t1", 1.0)
    session = Session(
        ABOUT,
        mode="manual",
        title="T",
        ledger=ledger,
        waiting=[TurnAccepted(turn_id="t1", text="hello")],
    )
    waits = Emit(events.Queue([QueuedPrompt("t1", "hello")]))
    assert session.handle(inputs.HubJoined(), 0.0) == [waits, SayState(session.state)]
    started = session.handle(inputs.SettingsCame("edit", 900.0), 0.0)
    assert StartTurn("t1", "hello") in started


def queues(found: list[effects.Effect]) -> list[list[QueuedPrompt]]:
    """What the effects tell of the prompts that wait."""
    return [
        one.event.queued
        for one in found
        if isinstance(one, Emit) and isinstance(one.event, events.Queue)
    ]


def test_clients_are_told_of_the_prompts_that_wait_and_of_none_that_begins_at_once() -> None:
    session = ready(title="T")
    assert queues(session.handle(prompt("t1"), 0.0)) == []
    assert queues(session.handle(inputs.Accepted("t1"), 0.0)) == []
    assert queues(session.handle(prompt("t2", text="x" * 3000), 0.0)) == []
    file = Attachment(name="a.png", mime="image/png", size=3, file="f")
    second = QueuedPrompt("t2", "x" * MAX_QUEUED_CHARS)
    third = QueuedPrompt("t3", "hello", [AttachmentInfo("a.png", "image/png", 3)])
    assert queues(session.handle(inputs.Accepted("t2"), 0.0)) == [[second]]
    session.handle(
        replace(prompt("t3"), uploads=[Upload("a.png", "image/png", b"abc", "image")]), 0.0
    )
    session.handle(inputs.Judged("t3", None, [file]), 0.0)
    assert queues(session.handle(inputs.Accepted("t3"), 0.0)) == [[second, third]]
    session.handle(inputs.TurnFinished("t1", DONE), 0.0)
    assert queues(session.handle(inputs.EndStored("t1", 6.0), 0.0)) == [[third]]
    assert session.queue == [third]
    assert queues(session.handle(inputs.StopAsked("stopped"), 0.0)) == [[]]


def test_a_prompt_of_the_link_is_judged_and_holds_up_those_behind_it() -> None:
    session = ready(title="T")
    assert without_state(session.handle(prompt("t1", LINK), 0.0)) == [Judge("t1")]
    assert without_state(session.handle(prompt("t2"), 0.0)) == []
    assert without_state(session.handle(inputs.Judged("t1", None), 0.0)) == [
        Write(Given()),
        StoreAccepted("t1", "hello"),
        StoreAccepted("t2", "hello", local=True),
    ]
    # stored the other way round, started in order
    assert without_state(session.handle(inputs.Accepted("t2"), 0.0)) == []
    session.handle(inputs.Accepted("t1"), 0.0)
    assert (session.turn_id, session.queued) == ("t1", ["t2"])


def test_a_refused_prompt_is_answered_and_forgotten() -> None:
    session = ready()
    session.handle(prompt(client=LINK), 0.0)
    refused = RequestRefused(-32602, "outside", {"reason": "folder"})
    assert without_state(session.handle(inputs.Judged("t1", refused), 0.0)) == [
        Refuse(waiter(LINK), TurnError(-32602, "outside", {"reason": "folder"}))
    ]
    assert without_state(session.handle(inputs.Judged("t1", refused), 0.0)) == []
    assert without_state(session.handle(prompt(client=LINK), 0.0)) == [Judge("t1")]


@pytest.mark.spec("session/new: mode is lowered")
def test_a_wide_mode_is_lowered_when_a_prompt_comes_over_the_link() -> None:
    session = ready(title="T", given=True)
    session.handle(inputs.ModeAsked(waiter(), "auto"), 0.0)
    session.handle(prompt(client=LINK), 0.0)
    assert without_state(session.handle(inputs.Judged("t1", None), 0.0))[:3] == [
        Write(ModeSet(mode="edit")),
        UseMode("edit"),
        Emit(events.ModeChanged(mode="edit")),
    ]


@pytest.mark.spec("session/set_mode: lowered")
def test_a_client_that_is_not_attached_is_bound_by_the_limits() -> None:
    session = ready()
    assert without_state(session.handle(prompt(client=99), 0.0)) == [Judge("t1")]
    session.handle(inputs.ModeAsked(waiter(99), "auto"), 0.0)
    assert session.mode == "edit"


def test_before_the_settings_came_a_bound_client_gets_the_narrowest_mode() -> None:
    session = Session(ABOUT, mode="manual")
    session.handle(inputs.ModeAsked(waiter(LINK), "auto"), 0.0)
    assert session.mode == "plan"


def test_the_model_may_narrow_the_mode_and_never_widen_it_beyond_the_persons() -> None:
    session = ready()
    assert without_state(session.handle(inputs.Wished("mode", "plan"), 0.0)) == [
        Write(ModeSet(mode="plan", by_tool=True)),
        UseMode("plan"),
        Emit(events.ModeChanged(mode="plan")),
        Emit(events.Setting("mode", "plan")),
    ]
    assert (session.mode, session.widest) == ("plan", "manual")
    session.handle(inputs.Wished("mode", "auto"), 0.0)
    assert (session.mode, session.widest) == ("manual", "manual")
    assert session.handle(inputs.Wished("mode", "manual"), 0.0) == [
        Emit(events.Setting("mode", "manual"))
    ]


@pytest.mark.spec("session/set_mode")
def test_a_mode_that_the_person_sets_is_the_widest_from_then_on() -> None:
    session = ready(widest="auto")
    session.handle(inputs.Wished("mode", "plan"), 0.0)
    assert without_state(session.handle(inputs.ModeAsked(waiter(), "plan"), 0.0)) == [
        Write(ModeSet(mode="plan")),
        UseMode("plan"),
        Emit(events.ModeChanged(mode="plan")),
        Reply(waiter(), {}),
    ]
    assert session.widest == "plan"


def test_a_mode_that_the_person_changes_is_told_as_a_setting_too() -> None:
    assert without_state(ready().handle(inputs.ModeAsked(waiter(), "auto"), 0.0)) == [
        Write(ModeSet(mode="auto")),
        UseMode("auto"),
        Emit(events.ModeChanged(mode="auto")),
        Emit(events.Setting("mode", "auto")),
        Reply(waiter(), {}),
    ]


def test_a_command_sets_the_mode_as_the_person_would() -> None:
    assert without_state(ready().handle(inputs.ModeCommanded("plan"), 0.0)) == [
        Write(ModeSet(mode="plan")),
        UseMode("plan"),
        Emit(events.ModeChanged(mode="plan")),
        Emit(events.Setting("mode", "plan")),
    ]


def test_what_a_command_came_to_stands_in_the_answer() -> None:
    undone = Undone("fix it", ["a.py"])
    command = CommandResult(command="undo", undone=undone, message="done")
    answer = Answer(stop_reason="end_turn", command=command)
    lembas = PromptResultLembas("t1", command="undo", undone=undone, message="done")
    result = answers.prompt_result("t1", "end_turn", answer)
    assert result == PromptResult("end_turn", PromptResultMeta(lembas))


def test_the_limits_lower_how_wide_the_model_may_set_the_mode() -> None:
    session = ready(widest="auto")
    session.handle(prompt(client=LINK), 0.0)
    session.handle(inputs.Judged("t1", None), 0.0)
    assert (session.mode, session.widest) == ("manual", "edit")


def test_the_model_may_set_title_effort_and_verbosity() -> None:
    session = ready()
    assert without_state(session.handle(inputs.Wished("title", "A title"), 0.0)) == [
        Write(TitleSet(title="A title")),
        Emit(events.Title(id="ses_1", title="A title")),
        Emit(events.Setting("title", "A title")),
    ]
    assert without_state(session.handle(inputs.Wished("effort", "high"), 0.0)) == [
        Write(SettingSet(key="effort", value="high")),
        UseEffort("high"),
        Emit(events.ModelChanged("m", "high", None, instance=True)),
        Emit(events.Setting("effort", "high")),
    ]
    assert without_state(session.handle(inputs.Wished("verbosity", "low"), 0.0)) == [
        Write(SettingSet(key="verbosity", value="low")),
        Emit(events.Setting("verbosity", "low")),
    ]
    assert (session.title, session.about.effort) == ("A title", "high")


def test_a_mode_that_is_set_already_changes_nothing() -> None:
    assert ready().handle(inputs.ModeAsked(waiter(), "manual"), 0.0) == [Reply(waiter(), {})]


def test_a_disk_error_at_acceptance_is_said_and_the_id_may_be_sent_again() -> None:
    session = ready()
    session.handle(prompt(), 0.0)
    failed = session.handle(inputs.AcceptFailed("t1", "no space", written=False), 0.0)
    sentence = "the prompt could not be stored and was not run (no space); free some space, then send it again"
    assert without_state(failed) == [
        Refuse(waiter(), TurnError(-32603, sentence, {"reason": "store"}))
    ]
    assert without_state(session.handle(prompt(), 0.0)) == [
        StoreAccepted("t1", "hello", local=True)
    ]


def test_an_acceptance_that_may_be_on_the_disk_gets_an_end_so_that_it_never_runs() -> None:
    session = ready()
    session.handle(prompt(), 0.0)
    failed = without_state(session.handle(inputs.AcceptFailed("t1", "I/O", written=True), 0.0))
    assert isinstance(failed[0], Write)
    assert isinstance(failed[0].record, TurnEnded)
    assert failed[1] == without_state(session.handle(prompt(), 0.0))[0]


def test_an_end_that_could_not_be_stored_is_an_error() -> None:
    session = running(ready(title="T"))
    session.handle(inputs.TurnFinished("t1", DONE), 0.0)
    found = without_state(session.handle(inputs.EndStored("t1", 9.0, "no space"), 0.0))
    # written once there is room: what was told stays the turn's end
    assert isinstance(found[0], Write)
    assert isinstance(found[0].record, TurnEnded)
    assert isinstance(found[1], Emit)
    assert isinstance(found[1].event, events.Error)
    assert (found[1].event.reason, found[1].event.retryable) == ("store", False)
    assert isinstance(found[3], Refuse)
    assert found[0].record.error is not None
    assert found[3].error.data == found[0].record.error.data


def test_an_end_that_is_written_and_not_synced_is_not_written_again() -> None:
    session = running(ready(title="T"))
    session.handle(inputs.TurnFinished("t1", DONE), 0.0)
    found = session.handle(inputs.EndStored("t1", 9.0, "I/O", written=True), 0.0)
    assert not [one for one in found if isinstance(one, Write)]


def test_a_turn_that_could_not_be_stored_says_so_when_its_end_could_not_be_either() -> None:
    session = running(ready(title="T"))
    error = TurnError(-32603, "the turn could not be stored", {"reason": "store"})
    session.handle(inputs.TurnFinished("t1", Answer(error=error)), 0.0)
    found = session.handle(inputs.EndStored("t1", 9.0, "no space"), 0.0)
    assert Refuse(waiter(), error) in found
    assert Write(TurnEnded(turn_id="t1", error=error)) in found


def test_an_error_of_the_engine_is_answered_and_not_said_a_second_time() -> None:
    session = running(ready(title="T"))
    error = TurnError(-32603, "the model is away", {"reason": "model"})
    session.handle(inputs.TurnFinished("t1", Answer(error=error)), 0.0)
    assert without_state(session.handle(inputs.EndStored("t1", 9.0), 0.0)) == [
        Emit(events.Task(state="end", turnId="t1")),
        Refuse(waiter(), error),
    ]


def test_completions_of_nothing_change_nothing() -> None:
    session = ready()
    for what in (
        inputs.Accepted("x"),
        inputs.AcceptFailed("x", "", written=False),
        inputs.Judged("x", None),
        inputs.TurnFinished("x", DONE),
        inputs.EndStored("x", 1.0),
        inputs.TimerFired("x"),
        inputs.CancelAsked(),
    ):
        assert session.handle(what, 0.0) == []


def test_an_end_with_neither_reason_nor_error_is_answered_nowhere() -> None:
    session = running(ready(title="T"))
    session.handle(inputs.TurnFinished("t1", Answer()), 0.0)
    assert without_state(session.handle(inputs.EndStored("t1", 9.0), 0.0)) == [
        Emit(events.Task(state="end", turnId="t1"))
    ]


def test_cancel_stops_what_runs_once_and_not_what_waits() -> None:
    session = running(ready())
    session.handle(prompt("t2"), 0.0)
    assert without_state(session.handle(inputs.CancelAsked(), 0.0)) == [CancelTurn()]
    session.handle(inputs.TurnFinished("t1", Answer(stop_reason="cancelled")), 0.0)
    assert without_state(session.handle(inputs.CancelAsked(), 0.0)) == []
    assert session.queued == ["t2"]


def test_a_prompt_that_is_cancelled_before_it_runs_ends_without_starting() -> None:
    session = ready(title="T")
    session.handle(prompt(), 0.0)
    assert without_state(session.handle(inputs.CancelAsked(), 0.0)) == []
    cancelled = Answer(stop_reason="cancelled")
    assert without_state(session.handle(inputs.Accepted("t1"), 0.0)) == [StoreEnd("t1", cancelled)]
    assert without_state(session.handle(inputs.EndStored("t1", 9.0), 0.0)) == [
        Emit(events.Done(turnId="t1", stopReason="cancelled")),
        Reply(waiter(), result(reason="cancelled")),
    ]


def test_files_on_their_way_to_the_disk_have_a_bound() -> None:
    session = ready()
    whole = [Upload("a", "text/plain", bytes(MAX_PROMPT_BYTES), "blob")]
    for number in range(5):
        asked = replace(prompt(f"t{number}"), uploads=whole)
        out = without_state(session.handle(asked, 0.0))
        if number < 4:
            assert out == [Judge(f"t{number}", bound=False, uploads=whole)]
        else:
            assert isinstance(out[0], Refuse)
    assert without_state(session.handle(prompt("t9"), 0.0)) == []
    stored = [Attachment("a", "text/plain", 1, "1-a")]
    out = without_state(session.handle(inputs.Judged("t0", None, stored), 0.0))
    assert out == [StoreAccepted("t0", "hello", stored, local=True)]
    asked = replace(prompt("t5"), uploads=whole)
    assert isinstance(without_state(session.handle(asked, 0.0))[0], Judge)


def test_too_many_waiting_prompts_are_refused() -> None:
    session = ready()
    for number in range(MAX_WAITING_TURNS):
        session.handle(prompt(f"t{number}"), 0.0)
    found = without_state(session.handle(prompt("one more"), 0.0))
    assert isinstance(found[0], Refuse)
    assert found[0].error.data == {"reason": "busy", "retryable": True}


def test_stop_cancels_everything_refuses_what_comes_and_ends() -> None:
    session = running(ready(title="T"))
    session.handle(prompt("stored"), 0.0)
    session.handle(inputs.Accepted("stored"), 0.0)
    session.handle(prompt("judged", LINK), 0.0)
    cancelled = Answer(stop_reason="cancelled")
    stopping = TurnError(-32603, "stopped", {"reason": "stopping"})
    assert without_state(session.handle(inputs.StopAsked("stopped"), 10.0)) == [
        SetTimer(STOP, 10.0 + STOP_S),
        CancelTurn(),
        Refuse(waiter(LINK), stopping),
        StoreEnd("stored", cancelled),
    ]
    assert without_state(session.handle(inputs.StopAsked("again"), 10.0)) == []
    assert without_state(session.handle(prompt("late"), 0.0)) == [Refuse(waiter(), stopping)]
    session.handle(inputs.EndStored("stored", 9.0), 0.0)
    session.handle(inputs.TurnFinished("t1", cancelled), 0.0)
    assert session.handle(inputs.EndStored("t1", 9.0), 0.0)[-1] == End()


def test_a_turn_that_does_not_stop_is_left_behind() -> None:
    session = running(ready())
    session.handle(inputs.StopAsked("stopped"), 0.0)
    assert session.handle(inputs.TimerFired(STOP), STOP_S) == [End(clean=False)]


def test_stop_while_an_end_is_being_stored_waits_for_it() -> None:
    session = running(ready(title="T"))
    session.handle(inputs.TurnFinished("t1", DONE), 0.0)
    found = session.handle(inputs.StopAsked("stopped"), 0.0)
    assert found == [SetTimer(STOP, STOP_S)]


def test_an_idle_session_asks_to_leave_and_asks_again_when_nothing_is_said() -> None:
    session = ready()
    assert session.handle(inputs.ClientDetached(LOCAL), 100.0) == [SetTimer(IDLE, 1000.0)]
    assert session.handle(inputs.TimerFired(IDLE), 1000.0) == [
        SayLeaving(),
        SetTimer(IDLE, 1900.0),
    ]
    assert session.handle(inputs.LeaveGranted(), 1001.0)[-1] == End()


def test_a_session_that_another_version_is_to_have_ends_as_soon_as_it_may() -> None:
    session = running(ready(title="T"))
    session.handle(inputs.HubLost(), 10.0)
    session.handle(inputs.HubJoined(superseded=True), 11.0)
    # a person who looks does not keep it: another process takes its place
    session.handle(inputs.ClientAttached(Attached(client=LOCAL, local=True)), 11.0)
    session.handle(inputs.TurnFinished("t1", DONE), 20.0)
    assert session.handle(inputs.EndStored("t1", 9.0), 20.0)[-1] == SetTimer(
        IDLE, 20.0 + SUPERSEDED_S
    )
    # a prompt that comes meanwhile is this process' still
    assert CancelTimer(IDLE) in session.handle(prompt("t2"), 20.1)
    session.handle(inputs.Accepted("t2"), 20.1)
    session.handle(inputs.TurnFinished("t2", DONE), 21.0)
    session.handle(inputs.EndStored("t2", 9.0), 21.0)
    assert session.handle(inputs.TimerFired(IDLE), 22.0) == [
        SayLeaving(superseded=True),
        SetTimer(IDLE, 22.0 + SUPERSEDED_S),
    ]
    assert session.handle(inputs.LeaveGranted(), 22.1)[-1] == End()


def test_what_no_other_process_could_take_up_keeps_this_one() -> None:
    session = ready()
    session.handle(inputs.ClientDetached(LOCAL), 0.0)
    session.handle(inputs.HubJoined(superseded=True), 1.0)
    held = frozenset({"a job that runs"})
    state = replace(session.state, holds=["a job that runs"])
    assert session.handle(inputs.Holds(held), 1.5) == [SayState(state), CancelTimer(IDLE)]
    found = without_state(session.handle(inputs.Holds(frozenset()), 9.0))
    assert found == [SetTimer(IDLE, 9.0 + SUPERSEDED_S)]


def test_a_client_that_gave_it_servers_keeps_it_while_it_is_there() -> None:
    session = ready(has_servers=True)
    assert without_state(session.handle(inputs.HubJoined(superseded=True), 1.0)) == []
    assert session.handle(inputs.ClientDetached(LOCAL), 2.0) == [SetTimer(IDLE, 2.0 + SUPERSEDED_S)]


def test_a_hub_that_cannot_be_spoken_with_is_no_hub_to_wait_for() -> None:
    session = running(ready(title="T"))
    session.handle(inputs.HubLost(), 10.0)
    assert session.handle(inputs.HubUnspeakable(), 11.0) == []
    session.handle(inputs.TurnFinished("t1", DONE), 20.0)
    assert session.handle(inputs.EndStored("t1", 9.0), 20.0)[-1] == SetTimer(
        ALONE, 20.0 + SUPERSEDED_S
    )
    assert session.handle(inputs.TimerFired(ALONE), 21.0)[0] == End()


def test_a_card_that_waits_and_a_local_client_keep_a_session_awake() -> None:
    session = ready()
    session.handle(inputs.CardsWait(1), 0.0)
    assert session.handle(inputs.ClientDetached(LOCAL), 0.0) == []
    assert session.handle(inputs.CardsWait(0), 5.0) == [SetTimer(IDLE, 905.0)]
    back = Attached(client=LOCAL, local=True)
    assert session.handle(inputs.ClientAttached(back), 6.0) == [CancelTimer(IDLE)]


def test_a_changed_idle_time_counts_at_once() -> None:
    session = ready()
    session.handle(inputs.ClientDetached(LOCAL), 0.0)
    assert session.handle(inputs.SettingsCame("edit", 5.0), 1.0) == [SetTimer(IDLE, 6.0)]


def test_without_a_hub_a_turn_goes_on_and_the_worker_ends_ten_idle_minutes_later() -> None:
    session = running(ready(title="T", alone_s=600.0))
    assert session.handle(inputs.HubLost(), 10.0) == []
    session.handle(inputs.TurnFinished("t1", DONE), 20.0)
    ended = session.handle(inputs.EndStored("t1", 9.0), 20.0)
    assert not any(isinstance(one, Reply | SayState) for one in ended)
    assert ended[-1] == SetTimer(ALONE, 620.0)
    assert session.handle(inputs.TimerFired(ALONE), 620.0)[0] == End()


def test_a_hub_that_comes_back_is_told_the_state_and_the_answer_is_kept() -> None:
    session = running(ready(title="T"))
    session.handle(inputs.HubLost(), 0.0)
    assert session.handle(inputs.HubJoined(), 0.0) == [SayState(session.state)]
    assert session.state == SessionState(
        busy=True, turn_id="t1", title="T", root="/project", mode="manual", model="m"
    )
    session.handle(prompt("t2"), 0.0)
    assert session.state.queued == [QueuedTurn("t2")]


def test_who_attaches_is_told_of_the_session_and_the_first_one_of_its_damage() -> None:
    session = Session(ABOUT, mode="manual", title="T", notice="damaged")
    told = EmitTo(
        LINK,
        events.Session(title="T", root="/project", model="m", mode="manual", effort="default"),
    )
    link = inputs.ClientAttached(Attached(client=LINK, protocol=3))
    assert session.handle(inputs.ClientAttached(Attached(client=LOCAL, local=True)), 0.0) == []
    assert session.handle(link, 0.0) == [
        told,
        EmitTo(LINK, events.Notice(level="warning", text="damaged")),
    ]
    assert session.handle(link, 0.0) == [told]


def test_a_change_that_could_not_be_stored_is_said() -> None:
    found = ready().handle(inputs.WriteFailed("no space"), 0.0)
    assert isinstance(found[0], Emit)
    assert isinstance(found[0].event, events.Notice)


@pytest.mark.parametrize(("gone", "held"), [(LOCAL, "here"), (LINK, "terminal")])
@pytest.mark.spec(
    "_lembas/session/status", "status: turnId, queued, lastTurnId", "status: held by a terminal"
)
def test_status_says_who_holds_the_session(gone: int, held: str) -> None:
    session = running(ready(title="T"))
    session.handle(inputs.ClientDetached(gone), 0.0)
    assert session.status == Status(
        sessionId="ses_1",
        exists=True,
        held=held,
        busy=True,
        title="T",
        turnId="t1",
        queued=[],
        lastTurnId=None,
    )


def test_a_person_who_only_looks_does_not_hold_the_session() -> None:
    session = ready()
    session.handle(inputs.ClientDetached(LOCAL), 0.0)
    session.handle(inputs.ClientAttached(Attached(client=9, local=True)), 0.0)
    assert session.status.held == "here"
    assert not session.is_idle


# ── what is said meanwhile ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("client", "local"), [(LOCAL, True), (LINK, False), (77, False)])
def test_a_message_for_the_running_turn_goes_to_its_engine(client: int, *, local: bool) -> None:
    session = running(ready())
    asked = inputs.SteerAsked(waiter(client, 9), "in French", "m")
    assert session.handle(asked, 0.0) == [
        effects.Steer(waiter(client, 9), "in French", "m", local=local)
    ]


@pytest.mark.spec("steer: refused while nothing runs")
def test_a_message_is_refused_where_no_turn_works() -> None:
    session = ready()
    asked = inputs.SteerAsked(waiter(), "in French")
    refused = [Refuse(waiter(), TurnError(-32602, NOTHING_RUNS))]
    assert session.handle(asked, 0.0) == refused
    session.handle(inputs.CompactAsked(waiter()), 0.0)
    assert session.handle(asked, 0.0) == refused
    session.handle(inputs.Compacted("all"), 0.0)
    running(session)
    session.handle(inputs.TurnFinished("t1", DONE), 0.0)
    assert session.handle(asked, 0.0) == refused


@pytest.mark.parametrize("data", [None, {"reason": "model"}])
@pytest.mark.spec("result: unsent")
def test_what_a_turn_did_not_take_in_is_in_its_answer(data: dict[str, str] | None) -> None:
    session = running(ready())
    answer = Answer(stop_reason="cancelled", unsent=["more"])
    session.handle(inputs.TurnFinished("t1", answer), 0.0)
    lembas = PromptResultLembas("t1", unsent=["more"])
    assert Reply(waiter(), PromptResult("cancelled", PromptResultMeta(lembas))) in session.handle(
        inputs.EndStored("t1", 9.0), 0.0
    )
    running(session, "t2")
    failed = Answer(error=TurnError(-32603, "away", data), unsent=["more"])
    session.handle(inputs.TurnFinished("t2", failed), 0.0)
    error = TurnError(-32603, "away", {**(data or {}), "unsent": ["more"]})
    assert Refuse(waiter(), error) in session.handle(inputs.EndStored("t2", 9.0), 0.0)


# ── compaction ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("_lembas/session/compact")
def test_a_summary_is_made_between_turns_and_a_prompt_waits_for_it() -> None:
    session = ready()
    asked = without_state(session.handle(inputs.CompactAsked(waiter(request=7)), 0.0))
    assert StartCompaction() in asked
    assert session.busy
    session.handle(prompt(), 0.0)
    assert not any(isinstance(one, StartTurn) for one in session.handle(inputs.Accepted("t1"), 0.0))
    done = without_state(session.handle(inputs.Compacted("all of it"), 0.0))
    assert done[0] == Reply(waiter(request=7), {"summary": "all of it"})
    assert any(isinstance(one, StartTurn) for one in done)


@pytest.mark.spec("compact: refused while the session works")
def test_a_session_that_works_is_not_summed_up() -> None:
    session = running(ready())
    refused = TurnError(-32602, "the session works; ask again when it is done")
    assert session.handle(inputs.CompactAsked(waiter()), 0.0) == [Refuse(waiter(), refused)]


def test_a_summary_may_be_cancelled_and_its_error_is_the_answer() -> None:
    session = ready()
    session.handle(inputs.CompactAsked(waiter()), 0.0)
    assert session.handle(inputs.CancelAsked(), 0.0) == [CancelTurn()]
    error = TurnError(-32602, "the summary was cancelled")
    assert Refuse(waiter(), error) in session.handle(inputs.Compacted(error=error), 0.0)
    assert not session.busy


def test_a_session_that_stops_cancels_its_summary_and_makes_no_other() -> None:
    session = ready()
    session.handle(inputs.CompactAsked(waiter()), 0.0)
    assert CancelTurn() in session.handle(inputs.StopAsked("stopped"), 0.0)
    refused = Refuse(waiter(request=2), TurnError(-32602, "stopped"))
    assert session.handle(inputs.CompactAsked(waiter(request=2)), 0.0) == [refused]
    ended = session.handle(inputs.Compacted("late"), 0.0)
    assert End() in ended
    assert session.handle(inputs.Compacted("later still"), 0.0) == [End()]


# ── a disk that is nearly full ──────────────────────────────────────────────────────────────────

LOW = inputs.SettingsCame("edit", 900.0, low_disk=True)
ENOUGH = inputs.SettingsCame("edit", 900.0)
NO_ROOM = TurnError(-32603, DISK_LOW, {"reason": "store", "retryable": True})


def test_with_hardly_any_room_left_no_turn_is_taken() -> None:
    session = ready(title="T")
    session.handle(LOW, 1.0)
    assert session.handle(prompt(), 2.0) == [Refuse(waiter(), NO_ROOM)]
    session.handle(ENOUGH, 3.0)
    assert StoreAccepted("t1", "hello", local=True) in session.handle(prompt(), 4.0)


def test_what_runs_goes_on_and_is_answered_with_hardly_any_room_left() -> None:
    session = running(ready(title="T"))
    assert session.handle(LOW, 1.0) == [], "nobody waits"
    assert session.handle(inputs.TurnFinished("t1", DONE), 2.0)[0] == StoreEnd("t1", DONE)
    ended = session.handle(inputs.EndStored("t1", 3.0), 3.0)
    assert Reply(waiter(), result()) in ended
    # and told again to who asks again
    assert session.handle(prompt(), 4.0) == [Reply(waiter(), result())]


def test_prompts_that_wait_begin_when_there_is_room_again() -> None:
    session = running(ready(title="T"))
    session.handle(prompt("t2"), 0.0)
    session.handle(inputs.Accepted("t2"), 0.0)
    (notice,) = session.handle(LOW, 1.0)
    assert isinstance(notice, Emit)
    assert isinstance(notice.event, events.Notice)
    assert session.handle(LOW, 1.0) == []
    session.handle(inputs.TurnFinished("t1", DONE), 2.0)
    session.handle(inputs.EndStored("t1", 3.0), 3.0)
    assert (session.turn_id, session.queued) == (None, ["t2"])
    assert StartTurn("t2", "hello", local=True) in session.handle(ENOUGH, 4.0)


def test_prompts_that_wait_for_room_begin_when_there_is_no_hub_to_tell_of_it() -> None:
    session = running(ready(title="T"))
    session.handle(prompt("t2"), 0.0)
    session.handle(inputs.Accepted("t2"), 0.0)
    session.handle(LOW, 1.0)
    session.handle(inputs.TurnFinished("t1", DONE), 2.0)
    session.handle(inputs.EndStored("t1", 3.0), 3.0)
    assert StartTurn("t2", "hello", local=True) in session.handle(inputs.HubLost(), 4.0)


# ── room for another session ────────────────────────────────────────────────────────────────────


def test_asked_for_its_room_an_idle_worker_asks_to_leave_and_another_does_not() -> None:
    session = ready()
    assert session.handle(inputs.YieldAsked(), 1.0) == [], "a person looks at it"
    session.handle(inputs.ClientDetached(LOCAL), 1.0)
    assert session.handle(inputs.YieldAsked(), 2.0) == [SayLeaving()]
    session.handle(prompt("t1", LINK), 3.0)
    assert session.handle(inputs.YieldAsked(), 4.0) == []
