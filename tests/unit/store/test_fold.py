"""What a journal's records fold to."""

import pytest

from lembasd.protocol.context import Context, Personalization
from lembasd.protocol.lembas import AssistantTurn, HistoryTool, UserTurn
from lembasd.store.core.fold import WORKER_ENDED, SessionView, fold, interrupted
from lembasd.store.core.ledger import Answer
from lembasd.store.records import (
    AccountPersonalization,
    AnyRecord,
    Assistant,
    Call,
    ContextSet,
    Created,
    Given,
    ModeSet,
    Opened,
    SettingSet,
    SteerAsked,
    Steered,
    SystemPrompt,
    TitleSet,
    ToolResult,
    ToolsOffered,
    ToolStarted,
    TurnAccepted,
    TurnEnded,
    TurnStarted,
)

CREATED = Created(session_id="ses_x", root="/project", mode="edit", model="m")
CALL = Call(id="call_1", server_id="s1", name="read", arguments='{"path":"a"}', args={"path": "a"})
BROKEN = Call(id="call_2", server_id="s2", name="read", arguments="{", args=None)


def test_an_empty_journal_is_nothing() -> None:
    assert fold([]) == SessionView()
    assert fold([]).root == ""


def test_meta_is_what_was_said_last() -> None:
    view = fold(
        [
            CREATED,
            Opened(epoch=1, build="b"),
            ModeSet(mode="auto"),
            TitleSet(title="T"),
            Opened(epoch=3, build="b"),
        ]
    )
    assert (view.root, view.mode, view.title, view.epoch) == ("/project", "auto", "T", 3)
    assert (view.widest, view.effort) == ("auto", "default")


def test_what_a_client_has_chosen_and_holds_is_what_it_said_last() -> None:
    context = Context(system_prompt="new")
    view = fold(
        [
            CREATED,
            ContextSet(context=Context(system_prompt="old")),
            SettingSet(key="model", value="other"),
            ContextSet(context=context),
        ]
    )
    assert (view.model, view.context, view.given) == ("other", context, False)
    assert fold([CREATED, Given()]).given
    assert fold([CREATED]).model == "m"


def test_what_a_tool_set_stands_and_the_persons_mode_stays_the_widest() -> None:
    view = fold(
        [
            CREATED,
            ModeSet(mode="plan", by_tool=True),
            SettingSet(key="effort", value="high"),
            SettingSet(key="verbosity", value="low"),
            ToolsOffered(tools=[]),
        ]
    )
    assert (view.mode, view.widest, view.effort) == ("plan", "edit", "high")


@pytest.mark.spec("history: turnId", "history: tools")
def test_history_has_prompts_where_they_started_and_tools_with_their_results() -> None:
    view = fold(
        [
            CREATED,
            AccountPersonalization(personalization=Personalization("brief")),
            SystemPrompt(text="be good"),
            TurnAccepted(turn_id="t1", text="one"),
            TurnStarted(turn_id="t1"),
            TurnAccepted(turn_id="t2", text="two"),
            Assistant(
                turn_id="t1", message_id="m1", model="m", reasoning="hm", calls=[CALL, BROKEN]
            ),
            ToolStarted(call_id="call_1"),
            ToolResult(call_id="call_1", result_id="#0001", output="text"),
            ToolResult(call_id="call_9", result_id="#0002", output="of nobody"),
            Assistant(
                turn_id="t1", message_id="m2", model="m", text="cut", calls=[CALL], partial=True
            ),
            TurnEnded(turn_id="t1", stop_reason="end_turn"),
            TurnStarted(turn_id="t2"),
        ]
    )
    assert view.history == [
        UserTurn(text="one", turnId="t1"),
        AssistantTurn(
            text="",
            reasoning="hm",
            tools=[
                HistoryTool(
                    id="call_1", name="read", args={"path": "a"}, output="text", isError=False
                ),
                HistoryTool(id="call_2", name="read", args={}),
            ],
        ),
        AssistantTurn(text="cut", reasoning="", tools=[]),
        UserTurn(text="two", turnId="t2"),
    ]


def test_a_prompt_that_was_cancelled_before_it_began_is_shown() -> None:
    view = fold(
        [
            CREATED,
            TurnAccepted(turn_id="t1", text="one"),
            TurnEnded(turn_id="t1", stop_reason="cancelled"),
        ]
    )
    assert view.history == [UserTurn(text="one", turnId="t1")]
    assert view.waiting == {}


def test_records_that_repeat_a_turn_change_nothing() -> None:
    accepted, started = TurnAccepted(turn_id="t1", text="one"), TurnStarted(turn_id="t1")
    assert fold([accepted, started, accepted, started]) == fold([accepted, started])


def test_a_turn_that_was_cut_off_is_to_be_ended_with_an_error() -> None:
    view = fold(
        [
            TurnAccepted(turn_id="t1", text="one"),
            TurnStarted(turn_id="t1"),
            TurnAccepted(turn_id="t2", text="two"),
        ]
    )
    assert interrupted(view) == [TurnEnded(turn_id="t1", error=WORKER_ENDED)]
    assert view.waiting == {"t2": TurnAccepted(turn_id="t2", text="two")}


def test_what_was_said_for_a_turn_stands_where_its_model_was_given_it() -> None:
    begun: list[AnyRecord] = [
        CREATED,
        TurnAccepted(turn_id="t1", text="one"),
        TurnStarted(turn_id="t1"),
        SteerAsked(text="in French", message_id="m"),
        Assistant(turn_id="t1", message_id="m1", model="m", text="Look"),
        SteerAsked(text="and short"),
        Steered(texts=["in French"], ids=["m"]),
        Assistant(turn_id="t1", message_id="m2", model="m", text="Voilà"),
    ]
    view = fold(begun)
    assert view.history == [
        UserTurn(text="one", turnId="t1"),
        AssistantTurn(text="Look", reasoning="", tools=[]),
        UserTurn(text="in French"),
        AssistantTurn(text="Voilà", reasoning="", tools=[]),
    ]
    end = TurnEnded(turn_id="t1", error=WORKER_ENDED, unsent=["and short"])
    assert interrupted(view) == [end]
    ended = fold([*begun, end])
    assert ended.unsent == []
    kept = ended.ledger.find("t1")
    assert kept is not None
    assert kept.answer == Answer(error=WORKER_ENDED, unsent=["and short"])
