"""`lembas` on a screen of text, with a service that is played."""

import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from textual.events import Key, Paste
from textual.worker import WorkerFailed

from lembasd.device.paths import Paths
from lembasd.protocol.errors import INVALID_PARAMS, RequestRefused, UsageError
from lembasd.tui.widgets.transcript import TranscriptView
from tests.support.chat_screen import ChatScreen, PlayedPorts, chat_screen, joined
from tests.support.played_service import SESSION, PlayedService

ANSWER = """\
## What it does

It **reads** `config.yaml` and then:

1. parses it
2. checks each *key*

```python
def load(path: str) -> Config:
    return parse(path)
```

| key | value |
| --- | --- |
| a | 1 |

See [the docs](https://example.org/x).
"""
COMMAND: dict[str, Any] = {
    "toolCall": {
        "toolCallId": "c1",
        "title": "python3 greet.py",
        "kind": "execute",
        "rawInput": {"command": "python3 greet.py"},
    },
    "options": [
        {"optionId": "once", "name": "Allow once", "kind": "allow_once"},
        {"optionId": "session", "name": "Allow", "kind": "allow_always"},
        {"optionId": "deny", "name": "Deny", "kind": "reject_once"},
    ],
    "_meta": {"lembas": {"reason": "the manual mode asks before execute calls"}},
}
PERMISSION = "session/request_permission"


@pytest.fixture
def paths(short_tmp: Path) -> Paths:
    made = Paths(config=short_tmp / "c", state=short_tmp / "s", run=short_tmp / "r")
    made.make()
    return made


@pytest.fixture
def project(short_tmp: Path) -> Path:
    directory = short_tmp / "p"
    directory.mkdir()
    return directory


@pytest.fixture
async def service(paths: Paths) -> AsyncIterator[PlayedService]:
    async with PlayedService(paths) as played:
        yield played


@pytest.fixture
async def screen(service: PlayedService, paths: Paths, project: Path) -> AsyncIterator[ChatScreen]:
    async with joined(service, paths, project) as one:
        yield one


def start(call_id: str, name: str, title: str, **args: Any) -> dict[str, Any]:
    return {"toolCallId": call_id, "name": name, "title": title, "block": "b", "args": args}


async def test_the_first_prompt_makes_a_session_and_its_answer_is_drawn_as_it_comes(
    service: PlayedService, paths: Paths, project: Path
) -> None:
    async with chat_screen(paths, project) as screen:
        await screen.shows("ready", "manual", "month €2.00 · $0.75")
        await screen.type("what does it do?")
        await screen.press("enter")
        made = await service.next("session/new")
        prompt = await service.next("session/prompt")
        assert (made["cwd"], made["_meta"]) == (str(project), {})
        assert prompt["prompt"] == [{"type": "text", "text": "what does it do?"}]
        turn_id = prompt["_meta"]["lembas"]["turnId"]
        service.event("prompt", text="what does it do?", turnId=turn_id)
        service.event("task", state="start", turnId=turn_id)
        for place in range(0, len(ANSWER), 7):
            service.event("text", text=ANSWER[place : place + 7], messageId="m")
        service.event("usage", input=1200, output=90, window=8000)
        await screen.shows("• writing 0 s", "context 16 %", "example.org")
        service.event("task", state="end", turnId=turn_id)
        service.end_turn(turn_id)
        await screen.shows("ready")
        await screen.is_as("an_answer")


async def test_calls_are_a_line_each_that_opens(screen: ChatScreen, service: PlayedService) -> None:
    service.event("task", state="start", turnId="t")
    service.event("tool_start", **start("c1", "read", "read a.py", path="a.py"))
    end = {"resultId": "r", "isError": False, "duration_ms": 3}
    service.event("tool_end", toolCallId="c1", output="1 x = 1", **end)
    service.event("tool_start", **start("c2", "edit", "edit a.py", path="a.py", old="1", new="2"))
    diff = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2"
    service.event("tool_end", toolCallId="c2", output="changed", diff=diff, **end)
    service.event("tool_start", **start("c3", "bash", "make test", command="make test"))
    content = [{"type": "content", "content": {"type": "text", "text": "one\ntwo\nthree"}}]
    service.update("tool_call_update", toolCallId="c3", status="in_progress", content=content)
    await screen.shows("three")
    failed = {**end, "isError": True, "duration_ms": 65_000}
    service.event("tool_end", toolCallId="c3", output="no rule\nmore", **failed)
    service.event("tool_denied", toolCallId="c4", name="bash", reason="not now", by="person")
    service.event("task", state="end", turnId="t")
    await screen.shows("not now", "ready")
    await screen.press("ctrl+o", "up", "up", "enter")
    await screen.shows("+x = 2", "old: 1")
    await screen.is_as("calls")
    await screen.press("enter")
    await screen.shows_no_more("+x = 2")
    await screen.type("w")
    await screen.shows("> w")


async def test_a_card_is_answered_by_a_key(screen: ChatScreen, service: PlayedService) -> None:
    number = service.ask(PERMISSION, COMMAND)
    await screen.shows("e Edit the command")
    await screen.is_as("a_permission")
    await screen.press("y")
    assert number not in service.answered, "it was on the screen for no time"
    screen.clock.now += 1
    await screen.press("y")
    assert await service.answer_of(number) == {
        "outcome": {"outcome": "selected", "optionId": "once"}
    }
    await screen.shows_no_more("Allow once")


async def test_a_command_is_edited_before_it_is_allowed(
    screen: ChatScreen, service: PlayedService
) -> None:
    await screen.type("draft")
    number = service.ask(PERMISSION, COMMAND)
    await screen.shows("Ctrl-Y answers it")
    screen.clock.now += 1
    await screen.press("ctrl+y", "e")
    await screen.shows("the command: python3 greet.py")
    await screen.type(" -v")
    await screen.press("enter")
    assert (await service.answer_of(number))["_meta"] == {
        "lembas": {"command": "python3 greet.py -v"}
    }
    await screen.shows("> draft")


async def test_a_refusal_says_why_and_escape_goes_back(
    screen: ChatScreen, service: PlayedService
) -> None:
    number = service.ask(PERMISSION, COMMAND)
    await screen.shows("f Deny and say why")
    screen.clock.now += 1
    await screen.press("f")
    await screen.shows("what should be done instead?:")
    await screen.press("escape")
    await screen.shows("f Deny and say why")
    await screen.press("down", "down", "down", "enter")
    await screen.shows("what should be done instead?:")
    await screen.type("ask me")
    await screen.press("enter")
    assert (await service.answer_of(number))["_meta"] == {"lembas": {"feedback": "ask me"}}


async def test_a_card_never_takes_the_keys_of_somebody_who_types(
    screen: ChatScreen, service: PlayedService
) -> None:
    await screen.type("never run")
    number = service.ask(PERMISSION, COMMAND)
    await screen.shows("Ctrl-Y answers it")
    screen.clock.now += 60
    await screen.type(" y ")
    await screen.shows("> never run y")
    assert number not in service.answered


async def test_a_question_and_a_plan_are_answered(
    screen: ChatScreen, service: PlayedService
) -> None:
    options = [{"label": "SQLite", "description": "small", "recommended": True}, {"label": "None"}]
    asked = {"header": "DB", "question": "Which **one**?", "multiple": True, "options": options}
    number = service.ask("_lembas/question", {"toolCallId": "q", "questions": [asked]})
    await screen.shows("[ ] SQLite — small (recommended)")
    screen.clock.now += 1
    await screen.press("1")
    await screen.shows("[x] SQLite")
    await screen.press("d")
    assert (await service.answer_of(number))["answers"] == [
        {"kind": "options", "labels": ["SQLite"]}
    ]
    text = "\n\n".join(f"Step {number} of it." for number in range(30))
    number = service.ask("_lembas/plan", {"toolCallId": "p", "path": "plan.md", "text": text})
    await screen.shows("? Plan: plan.md", "Step 0 of it.", "(PgUp, PgDn)")
    await screen.press(*(["pagedown"] * 12))
    await screen.shows("Step 29 of it.")
    screen.clock.now += 1
    await screen.press("m")
    assert await service.answer_of(number) == {"outcome": "approve", "mode": "manual"}


async def test_a_card_that_was_answered_elsewhere_is_taken_down(
    screen: ChatScreen, service: PlayedService
) -> None:
    service.ask(PERMISSION, COMMAND)
    await screen.shows("Allow once")
    by = {"lembas": {"by": "instance"}}
    service.say("_lembas/permission/settled", {"toolCallId": "c1", "_meta": by})
    await screen.shows("the card was answered on the instance")
    await screen.shows_no_more("Allow once")
    await screen.type("on")
    await screen.shows("> on")


async def test_while_it_works_one_steers_queues_and_cancels(
    screen: ChatScreen, service: PlayedService
) -> None:
    service.event("task", state="start", turnId="t")
    await screen.shows("• working")
    await screen.type("and quick")
    await screen.press("enter")
    assert (await service.next("_lembas/steer"))["text"] == "and quick"
    await screen.type("then this")
    await screen.press("tab")
    prompt = await service.next("session/prompt")
    assert prompt["prompt"][0]["text"] == "then this"
    await screen.shows("at the next step  and quick", "after this turn  then this")
    await screen.is_as("at_work")
    await screen.press("escape")
    assert await service.next("session/cancel") == {"sessionId": SESSION}


async def test_commands_and_files_are_completed(
    screen: ChatScreen, service: PlayedService, project: Path
) -> None:
    service.update(
        "available_commands_update", availableCommands=[{"name": "review", "description": "looks"}]
    )
    await screen.type("/re")
    await screen.shows("/review  looks")
    await screen.press("enter")
    await screen.shows("> /review")
    await screen.press("ctrl+c")
    files = [
        {"path": "my notes.md", "kind": "file"},
        {"path": "src", "kind": "dir"},
        {"path": "\x1b[2Jevil", "kind": "file"},
    ]
    service.answers["_lembas/files/search"] = lambda _params: {"root": "/", "files": files}
    await screen.type("see @")
    await screen.shows("my notes.md")
    assert "evil" not in screen.text
    await screen.press("down", "tab")
    await screen.shows("> see @src/")
    assert (await service.next("_lembas/files/search")) == {"sessionId": SESSION, "query": ""}
    await screen.press("escape")
    await screen.shows_no_more("my notes.md")


async def test_lists_are_searched_and_chosen_from(
    screen: ChatScreen, service: PlayedService
) -> None:
    await screen.type("/model")
    await screen.press("enter")
    await screen.shows("Models", "fast  32k tokens", "scripted")
    await screen.press("3", "2", "k")
    await screen.shows_no_more("scripted\n")
    await screen.press("enter")
    assert await service.next("_lembas/configure") == {"sessionId": SESSION, "model": "fast"}
    for name, keys in (("/mode", ("down", "enter")), ("/effort", ("escape",))):
        await screen.type(name)
        await screen.press("enter")
        await screen.shows("Enter opens, Esc leaves")
        await screen.press(*keys)
    assert await service.next("session/set_mode") == {"sessionId": SESSION, "modeId": "manual"}


async def test_settings_and_use_are_the_accounts(screen: ChatScreen) -> None:
    await screen.type("/settings")
    await screen.press("enter")
    await screen.shows("personality  pirate  (account)")
    await screen.press("enter")
    await screen.shows("> /settings personality")
    await screen.type("none")
    await screen.press("enter")
    await screen.shows("personality is set")
    assert screen.ports.changed == [("personality", "none")]
    await screen.type("/settings nothing 1")
    await screen.press("enter")
    await screen.shows("nothing is not a setting")
    await screen.type("/usage")
    await screen.press("enter")
    await screen.shows("1,200 tokens in", "cost         €2.00 · $0.75")


async def test_a_hub_that_dies_and_returns_is_caught_up_with(
    screen: ChatScreen, service: PlayedService
) -> None:
    service.event("text", text="before", messageId="m")
    await screen.shows("before")
    await service.end()
    await screen.shows("lembasd is gone; this waits for its return", "not connected")
    await screen.type("and then?")
    await screen.press("enter")
    await screen.shows("when lembasd is back  and then?")
    await service.start()
    assert await service.next("_hub/attach") == {"sessionId": SESSION, "since": "1:1"}
    await service.next("session/prompt")
    service.event("text", text=" and after", messageId="m")
    await screen.shows("before and after")
    await screen.shows_no_more("lembasd is gone")


async def test_a_hub_that_was_stopped_is_not_started(
    screen: ChatScreen, service: PlayedService, paths: Paths
) -> None:
    paths.stopping.touch()
    await service.end()
    await screen.shows("lembasd was stopped; `lembasd run` starts it")
    paths.stopping.unlink()
    await service.start()
    await screen.shows("ready")


async def test_why_it_cannot_begin_is_left_to_the_command(paths: Paths, project: Path) -> None:
    ports = PlayedPorts(paths)
    ports.failure = UsageError("lembasd could not be started")
    async with chat_screen(paths, project, ports=ports) as screen:
        await screen.ended()
        assert screen.app.failure is ports.failure


async def test_a_bug_ends_it_and_is_not_passed_over(
    service: PlayedService, paths: Paths, project: Path
) -> None:
    async def broken() -> None:
        async with joined(service, paths, project) as screen:
            screen.app.chat.transcript = None  # type: ignore[assignment]
            service.event("text", text="a", messageId="m")
            await screen.ended()

    with pytest.raises(WorkerFailed):
        await broken()


async def test_a_draft_is_kept_for_its_session_and_is_the_persons_alone(
    service: PlayedService, paths: Paths, project: Path
) -> None:
    async with chat_screen(paths, project) as screen:
        await screen.shows("ready")
        await screen.type("half a thought")
        await screen.press("ctrl+c")
        await screen.type("half a sentence")
        screen.app.leave()
    (kept,) = (paths.state / "drafts").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    async with chat_screen(paths, project) as screen:
        await screen.shows("> half a sentence")
    async with joined(service, paths, project) as screen:
        assert "half" not in screen.text


async def test_another_session_is_shown_on_a_connection_of_its_own(
    screen: ChatScreen, service: PlayedService
) -> None:
    (before,) = service.peers
    service.event("text", text="of this session", messageId="m")
    await screen.shows("of this session")
    await screen.type("/new")
    await screen.press("enter")
    await screen.shows_no_more("of this session")
    await service.until(lambda: len(service.peers) == 1 and service.peers[0] is not before)
    await screen.shows("ready")
    await screen.type("anew")
    await screen.press("enter")
    await service.next("session/new")


async def test_an_image_whose_path_is_pasted_goes_with_the_prompt(
    screen: ChatScreen, service: PlayedService, project: Path
) -> None:
    (project / "a b.png").write_bytes(b"\x89PNG")
    screen.app.post_message(Paste(f"'{project}/a b.png'"))
    await screen.shows("with  a b.png")
    await screen.type("look")
    await screen.press("enter")
    prompt = await service.next("session/prompt")
    assert prompt["prompt"] == [
        {"type": "text", "text": "look"},
        {"type": "image", "data": "iVBORw==", "mimeType": "image/png", "uri": "a b.png"},
    ]
    await screen.type("/attach none.png")
    await screen.press("enter")
    await screen.shows("is no file")


async def test_nothing_of_an_agents_reaches_the_screen_that_a_terminal_would_obey(
    screen: ChatScreen, service: PlayedService
) -> None:
    evil = "\x1b]0;title\x07\x1b[2J\x9b31m\x1b]52;c;eA==\x07\r\x08bad\u202e"
    service.event("task", state="start", turnId=evil)
    service.event("title", id="s", title=evil)
    service.event("mode", mode=evil)
    service.event("model", ref=evil, effort=evil, connection=None, instance=True)
    service.event("prompt", text=evil, turnId="t", attachments=[])
    service.event("reasoning", text=evil, messageId="m")
    service.event("text", text=f"{evil}\n\n```{evil}\n{evil}\n```\n", messageId="m")
    service.event("tool_start", **start("c1", evil, evil, **{evil: evil, "b": [evil]}))
    end = {"resultId": "r", "isError": True, "duration_ms": 1}
    service.event("tool_end", toolCallId="c1", output=evil, diff=evil, **end)
    service.event("notice", level="warning", text=evil)
    service.update(
        "available_commands_update", availableCommands=[{"name": f"e{evil}", "description": evil}]
    )
    card = {**COMMAND, "toolCall": {**COMMAND["toolCall"], "title": evil}}
    service.ask(PERMISSION, card)
    await screen.shows("Allow once", "bad")
    screen.clock.now += 1
    await screen.press("escape", "ctrl+o", "enter")
    await screen.type("/e")
    await screen.shows("/ebad")
    screen.app.post_message(Paste(evil + "pasted"))
    await screen.shows("pasted")
    unsafe = [one for one in screen.text if one != "\n" and not one.isprintable()]
    assert unsafe == []


async def test_of_a_long_history_only_what_is_seen_is_drawn(
    service: PlayedService, paths: Paths, project: Path
) -> None:
    turns: list[dict[str, Any]] = []
    for number in range(1000):
        turns.append({"role": "user", "text": f"question {number}"})
        turns.append(
            {"role": "assistant", "text": f"answer {number}", "reasoning": "", "tools": []}
        )
    service.snapshot = {**service.snapshot, "turns": turns}
    async with joined(service, paths, project) as screen:
        await screen.shows("answer 999")
        await screen.press("up", "up")
        await screen.shows("> question 998")
        await screen.press("ctrl+c")
        view = screen.app.query_one(TranscriptView)
        assert len(view.drawings) < 30
        await screen.press("pageup")
        await screen.shows("answer 990", "more below")
        service.event("notice", level="info", text="something new")
        await screen.press("ctrl+home")
        await screen.shows("question 0")
        await screen.press("ctrl+end")
        await screen.shows("something new")
        assert len(view.drawings) < 100


async def test_a_long_answer_is_drawn_piece_by_piece_to_its_end(
    screen: ChatScreen, service: PlayedService
) -> None:
    text = "\n\n".join(f"Paragraph {number}." for number in range(200))
    service.event("text", text=text, messageId="m")
    await screen.shows("Paragraph 199.")
    await screen.press("ctrl+home")
    await screen.shows("Paragraph 0.")


async def test_it_fits_a_small_screen_and_a_new_size(
    screen: ChatScreen, service: PlayedService
) -> None:
    service.event("text", text=ANSWER, messageId="m")
    service.ask(PERMISSION, COMMAND)
    await screen.shows("Allow once")
    await screen.pilot.resize_terminal(40, 16)
    await screen.shows("n Deny")
    await screen.is_as("small")
    await screen.pilot.resize_terminal(100, 30)
    await screen.shows("def load")


async def test_what_was_sent_comes_back_by_the_arrow_keys(
    screen: ChatScreen, service: PlayedService
) -> None:
    await screen.type("one\ntwo")
    await screen.press("enter")
    assert (await service.next("session/prompt"))["prompt"][0]["text"] == "one\ntwo"
    await screen.type("now")
    await screen.press("up")
    await screen.shows("> one")
    await screen.press("down", "down")
    await screen.shows("> now")


async def test_above_a_list_keys_are_the_lists(screen: ChatScreen, service: PlayedService) -> None:
    service.event("task", state="start", turnId="t")
    await screen.shows("• working")
    await screen.press("ctrl+r")
    await screen.shows("Sessions", "there is none")
    await screen.press("pageup", "shift+tab", "ctrl+c")
    await screen.shows("• working")
    assert [method for method, _ in service.asked if method.startswith("session/")] == []


async def test_what_cannot_be_sent_is_given_back_before_what_was_typed_since(
    service: PlayedService, paths: Paths, project: Path
) -> None:
    def refused(_params: dict[str, Any]) -> None:
        raise RequestRefused(INVALID_PARAMS, "this device is not logged in")

    service.answers["session/new"] = refused
    async with chat_screen(paths, project) as screen:
        await screen.shows("ready")
        await screen.type("first")
        screen.app.post_message(Key("enter", "\r"))
        screen.app.post_message(Key("x", "x"))
        await screen.shows("this device is not logged in", "> first", "x")


async def test_leaving_takes_two_presses(screen: ChatScreen) -> None:
    await screen.press("ctrl+c")
    await screen.shows("Ctrl-C again leaves")
    await screen.press("ctrl+c")
    await screen.ended()


async def test_thoughts_are_a_line_until_they_are_looked_at(
    screen: ChatScreen, service: PlayedService
) -> None:
    service.event("reasoning", text="First **this**.\n\nThen that.", messageId="m")
    await screen.shows("thought  First **this**. Then that.")
    await screen.press("ctrl+t")
    await screen.shows(" First this.\n\n Then that.")
    await screen.press("shift+tab")
    assert (await service.next("session/set_mode"))["modeId"] == "edit"
