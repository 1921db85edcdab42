"""What `lembas -p` makes of the events of a turn."""

from typing import Any

from lembasd.cli.core.printed import Denied, Turn

SESSION = "ses_" + "0" * 26
DONE = {"stopReason": "end_turn"}


def turn(*events: dict[str, Any]) -> Turn:
    found = Turn(SESSION, "t1")
    for event in events:
        found.take(event)
    return found


def text(said: str, message: str = "m1") -> dict[str, Any]:
    return {"type": "text", "text": said, "messageId": message}


PROMPT = {"type": "prompt", "turnId": "t1", "text": "go"}
BEGIN = {"type": "task", "state": "start", "turnId": "t1"}
END = {"type": "task", "state": "end", "turnId": "t1"}


def test_the_answer_is_the_last_message_of_the_turn() -> None:
    assert turn(PROMPT, BEGIN, text("look"), text("ing"), text("done", "m2")).text(DONE) == "done"
    withdrawn = {"type": "retract", "messageId": "m2"}
    assert turn(PROMPT, text("kept"), text("no", "m2"), withdrawn).text(DONE) == "kept"


def test_another_turn_of_the_session_is_none_of_ours() -> None:
    other = {"type": "prompt", "turnId": "t0", "text": "theirs"}
    running = Turn(SESSION, "t1")
    took = [running.take(one) for one in (other, text("theirs"), PROMPT, text("ours", "m2"), END)]
    assert took == [False, False, True, True, True]
    assert not running.take(text("later", "m3"))
    assert running.text(DONE) == "ours"
    over = {"type": "task", "state": "end", "turnId": "t0"}
    running = turn(over, PROMPT, over)
    assert running.take(text("still"))


def test_a_command_that_says_something_is_answered_with_that() -> None:
    said = {"stopReason": "end_turn", "_meta": {"lembas": {"turnId": "t1", "message": "nothing"}}}
    assert turn(PROMPT).text(said) == "nothing"
    assert turn(PROMPT).text({"stopReason": "end_turn", "_meta": {"lembas": 7}}) == ""
    assert turn(PROMPT).text(None) == ""


def test_a_turn_is_one_object_with_what_it_used() -> None:
    usage = {"type": "usage", "input": 10, "output": 3, "cached": 4}
    paid = {**usage, "cost": {"amount": 0.25, "currency": "EUR"}}
    ran = turn(usage, PROMPT, {"type": "step", "n": 1}, usage, {"type": "step", "n": 2}, paid, paid)
    ran.take(text("done"))
    ran.denied.append(Denied("call1", "bash: ls", "it runs a command"))
    assert ran.value(DONE, None, 12) == {
        "type": "result",
        "session_id": SESSION,
        "turn_id": "t1",
        "stop_reason": "end_turn",
        "text": "done",
        "error": None,
        "denied": [{"toolCallId": "call1", "title": "bash: ls", "reason": "it runs a command"}],
        "steps": 2,
        "usage": {"input": 30, "output": 9, "cached": 12, "cost": {"EUR": 0.5}},
        "duration_ms": 12,
    }


def test_how_it_ended_is_an_exit_code_and_a_sentence() -> None:
    assert turn().end(DONE) == (0, "")
    assert turn().end({"stopReason": "cancelled"}) == (130, "the turn was cancelled")
    go_on = f"; go on with `lembas -p --resume {SESSION} …`"
    assert turn().end({"stopReason": "max_tokens"}) == (
        1,
        f"the answer was cut off at the model's output limit{go_on}",
    )
    overran = turn()
    overran.overran = True
    assert overran.end({"stopReason": "cancelled"}) == (
        1,
        f"the turn stopped at its last step{go_on}",
    )
    assert turn().end({"stopReason": "odd"}) == (1, f"the turn did not end{go_on}")
    assert turn().stop_reason(None) is None
