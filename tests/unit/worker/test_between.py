"""What is done between turns, and how a session is deleted."""

from typing import Any

import pytest

from lembasd.protocol import events
from lembasd.protocol.acp import PromptResult, PromptResultLembas, PromptResultMeta
from lembasd.protocol.context import Context, SaidContext
from lembasd.protocol.control import Attached
from lembasd.store.core.ledger import Answer
from lembasd.store.records import ContextSet, Given, SettingSet, TitleSet, TurnError
from lembasd.worker.core import effects, inputs
from lembasd.worker.core.about import About
from lembasd.worker.core.between import MAX_WAITING, WORKS
from lembasd.worker.core.effects import (
    CancelTurn,
    Choose,
    Emit,
    End,
    Refuse,
    Remove,
    Reply,
    Rewind,
    SayState,
    SetTimer,
    StartCompaction,
    StartTurn,
    StoreAccepted,
    StoreEnd,
    TellDeleted,
    UseContext,
    UseEffort,
    UseModel,
    Write,
)
from lembasd.worker.core.inputs import Waiter
from lembasd.worker.core.session import STOP, STOP_S, Session

LOCAL, LINK, OTHER = 1, 2, 3
CANCELLED = Answer(stop_reason="cancelled")
UNKNOWN = TurnError(-32602, "unknown session")


def waiter(request: int = 1, client: int = LOCAL) -> Waiter:
    return Waiter(client, request, b'"c"', client == LOCAL)


def ready(**fields: Any) -> Session:
    """A session with two local clients and the link, its settings known."""
    session = Session(About("ses_1", "/project", "m", "default"), mode="manual", **fields)
    for what in (
        inputs.HubJoined(),
        inputs.ClientAttached(Attached(client=LOCAL, local=True)),
        inputs.ClientAttached(Attached(client=OTHER, local=True, protocol=3)),
        inputs.ClientAttached(Attached(client=LINK, protocol=3)),
        inputs.SettingsCame("edit", 900.0, "moria"),
    ):
        session.handle(what, 0.0)
    return session


def fed(session: Session, what: inputs.Input, now: float = 0.0) -> list[effects.Effect]:
    return [one for one in session.handle(what, now) if not is_standing(one)]


def is_standing(effect: effects.Effect) -> bool:
    """Whether it tells of how the session stands, which has tests of its own."""
    return isinstance(effect, SayState) or (
        isinstance(effect, effects.Emit) and isinstance(effect.event, events.Queue)
    )


def prompt(turn_id: str = "t1", client: int = LOCAL, **said: Any) -> inputs.PromptAsked:
    return inputs.PromptAsked(waiter(9, client), turn_id, "go", 5.0, SaidContext(**said))


def running(session: Session) -> Session:
    session.handle(prompt(), 0.0)
    session.handle(inputs.Accepted("t1"), 0.0)
    return session


def cancelled(turn_id: str) -> PromptResult:
    return PromptResult("cancelled", PromptResultMeta(PromptResultLembas(turn_id)))


# ── another model ───────────────────────────────────────────────────────────────────────────────


def test_another_model_is_looked_for_and_then_used_and_told_of() -> None:
    session = ready()
    assert fed(session, inputs.ConfigureAsked(waiter(), "b", "high")) == [Choose("b", "high")]
    assert fed(session, inputs.Configured("b", "low")) == [
        Write(SettingSet(key="model", value="b")),
        UseModel("b"),
        Write(SettingSet(key="effort", value="low")),
        UseEffort("low"),
        Emit(events.ModelChanged("b", "low", "moria", instance=True)),
        Reply(waiter(), {"model": "b", "effort": "low"}),
    ]
    assert session.state.model == "b"


def test_what_is_as_it_was_is_told_to_nobody_else() -> None:
    session = ready()
    fed(session, inputs.ConfigureAsked(waiter()))
    same = {"model": "m", "effort": "default"}
    assert fed(session, inputs.Configured("m", "default")) == [Reply(waiter(), same)]
    fed(session, inputs.ConfigureAsked(waiter(), None, "high"))
    assert UseModel("m") not in fed(session, inputs.Configured("m", "high"))


def test_a_model_that_is_not_served_leaves_the_session_with_its_own() -> None:
    session = ready()
    fed(session, inputs.ConfigureAsked(waiter(), "b"))
    error = TurnError(-32602, "no b here")
    assert fed(session, inputs.Configured(error=error)) == [Refuse(waiter(), error)]
    assert session.state.model == "m"


def test_what_is_asked_between_turns_is_done_in_order_and_a_prompt_waits() -> None:
    session = ready(title="T")
    fed(session, inputs.ConfigureAsked(waiter(1), "b"))
    assert fed(session, inputs.RewindAsked(waiter(2), "t0")) == []
    fed(session, prompt())
    assert fed(session, inputs.Accepted("t1")) == []
    refused = fed(session, inputs.RewindAsked(waiter(3), "t0"))
    assert refused == [Refuse(waiter(3), WORKS)]
    assert fed(session, inputs.Configured("b", "default"))[-1] == Rewind("t0")
    done = fed(session, inputs.Rewound(2))
    assert done[0] == Reply(waiter(2), {"reverted": 2})
    assert StartTurn("t1", "go", local=True) in done
    # an answer that nobody waits for
    assert fed(session, inputs.Rewound(2)) == []


def test_nothing_waits_behind_a_summary_or_too_many() -> None:
    session = ready()
    assert fed(session, inputs.CompactAsked(waiter(1))) == [StartCompaction()]
    assert fed(session, inputs.RewindAsked(waiter(2), "t")) == [Refuse(waiter(2), WORKS)]
    fed(session, inputs.Compacted("all"))
    for number in range(MAX_WAITING):
        fed(session, inputs.ConfigureAsked(waiter(number)))
    last = fed(session, inputs.ConfigureAsked(waiter(99)))
    assert last == [Refuse(waiter(99), WORKS)]


def test_the_limits_judge_what_the_instance_asks_in_its_place() -> None:
    session = ready(title="T")
    asked = inputs.RewindAsked(waiter(1, LINK), "t0")
    assert fed(session, asked) == [Rewind("t0", judge=True)]
    fed(session, prompt())
    assert fed(session, inputs.Accepted("t1")) == []
    error = TurnError(-32602, "no", {"reason": "folder"})
    refused = fed(session, inputs.NotAdmitted(error))
    assert refused[0] == Refuse(waiter(1, LINK), error)
    assert StartTurn("t1", "go", local=True) in refused


# ── title and context ───────────────────────────────────────────────────────────────────────────


def test_a_title_is_stored_told_and_answered() -> None:
    session = ready()
    assert fed(session, inputs.TitleAsked(waiter(), "Mine")) == [
        Write(TitleSet(title="Mine")),
        Emit(events.Title(id="ses_1", title="Mine")),
        Reply(waiter(), {"title": "Mine"}),
    ]
    again = fed(session, inputs.TitleAsked(waiter(), "Mine"))
    assert again == [Reply(waiter(), {"title": "Mine"})]


def test_a_changed_context_is_stored_before_the_prompt_that_brought_it() -> None:
    session = ready(title="T", context=Context(system_prompt="old"))
    now = Context(system_prompt="new")
    assert fed(session, prompt("t1", system_prompt="new")) == [
        Write(ContextSet(context=now)),
        UseContext(now),
        StoreAccepted("t1", "go", local=True),
    ]
    assert fed(session, prompt("t2", system_prompt="new")) == [
        StoreAccepted("t2", "go", local=True)
    ]
    assert fed(session, prompt("t3")) == [StoreAccepted("t3", "go", local=True)]


def test_a_session_is_given_once_the_limits_let_the_instance_have_it() -> None:
    session = ready()
    assert not session.state.given
    assert fed(session, inputs.Admitted()) == [Write(Given())]
    assert fed(session, inputs.Admitted()) == []
    assert session.state.given


# ── deleting ────────────────────────────────────────────────────────────────────────────────────


def test_a_session_at_rest_is_removed_at_once_and_whoever_looks_is_told() -> None:
    session = ready()
    assert fed(session, inputs.DeleteAsked(waiter()), 5.0) == [
        SetTimer(STOP, 5.0 + STOP_S),
        Remove(tell=True),
    ]
    assert fed(session, inputs.DeleteAsked(waiter(2, LINK))) == []
    assert fed(session, inputs.Removed()) == [
        TellDeleted(OTHER),
        Reply(waiter(), {"deleted": True}),
        Reply(waiter(2, LINK), {"deleted": True}),
        End(),
    ]


def test_what_the_instance_asked_for_itself_it_is_not_told() -> None:
    session = ready()
    assert Remove(tell=False) in fed(session, inputs.DeleteAsked(waiter(1, LINK)))


def test_a_turn_that_runs_is_cancelled_first_and_what_waits_with_it() -> None:
    session = running(ready(title="T"))
    fed(session, prompt("t2"))
    fed(session, inputs.Accepted("t2"))
    fed(session, prompt("t3", LINK))
    asked = fed(session, inputs.DeleteAsked(waiter()))
    assert asked == [
        SetTimer(STOP, STOP_S),
        CancelTurn(),
        Reply(waiter(9, LINK), cancelled("t3")),
        StoreEnd("t2", CANCELLED),
    ]
    assert fed(session, prompt("t4")) == [Refuse(waiter(9), UNKNOWN)]
    assert fed(session, inputs.RewindAsked(waiter(), "t1")) == [Refuse(waiter(), UNKNOWN)]
    fed(session, inputs.EndStored("t2", 9.0))
    fed(session, inputs.TurnFinished("t1", CANCELLED))
    ended = fed(session, inputs.EndStored("t1", 9.0))
    assert ended[-2:] == [Reply(waiter(9), cancelled("t1")), Remove(tell=True)]


def test_a_turn_that_does_not_end_is_left_behind() -> None:
    session = running(ready())
    fed(session, inputs.DeleteAsked(waiter()))
    assert fed(session, inputs.TimerFired(STOP), STOP_S) == [Remove(tell=True)]
    assert fed(session, inputs.TimerFired(STOP), STOP_S) == []
    assert fed(session, inputs.Removed())[-1] == End()


def test_what_waits_between_turns_is_answered_and_what_is_under_way_is_waited_for() -> None:
    session = ready()
    fed(session, inputs.ConfigureAsked(waiter(1), "b"))
    fed(session, inputs.RewindAsked(waiter(2), "t"))
    assert fed(session, inputs.DeleteAsked(waiter(3)))[1:] == [Refuse(waiter(2), UNKNOWN)]
    ended = fed(session, inputs.Configured("m", "default"))
    assert ended[-1] == Remove(tell=True)


def test_a_delete_that_comes_while_the_process_stops_is_done_all_the_same() -> None:
    session = running(ready(title="T"))
    fed(session, inputs.StopAsked("stopped"))
    assert fed(session, inputs.DeleteAsked(waiter())) == []
    fed(session, inputs.TurnFinished("t1", CANCELLED))
    assert fed(session, inputs.EndStored("t1", 9.0))[-1] == Remove(tell=True)


def test_a_store_that_cannot_be_removed_is_said_and_the_process_ends() -> None:
    session = ready()
    fed(session, inputs.DeleteAsked(waiter()))
    refused, end = fed(session, inputs.Removed("no space"))
    assert isinstance(refused, Refuse)
    assert (refused.error.code, refused.error.data) == (-32603, {"reason": "store"})
    assert end == End()


@pytest.mark.parametrize("what", [inputs.CompactAsked(waiter()), inputs.ConfigureAsked(waiter())])
def test_a_session_that_stops_begins_nothing(what: inputs.BetweenTurns) -> None:
    session = running(ready())
    fed(session, inputs.StopAsked("stopped"))
    assert fed(session, what) == [Refuse(waiter(), TurnError(-32602, "stopped"))]
