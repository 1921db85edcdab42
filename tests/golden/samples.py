"""One sample of each message this build sends over the link. `python -m tests.golden.samples` writes the file anew.

What changes there changes for servers and clients that are older than this build: read the difference line by line.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from lembasd.engine.api import CardRequest, PlanRequest, QuestionRequest, ShowRequest
from lembasd.engine.core import cards
from lembasd.engine.core.card_kinds import Request, Watcher
from lembasd.engine.native.core import commands
from lembasd.engine.native.core.commands import Command
from lembasd.hub.introduction import initialize_result, link_hello
from lembasd.protocol import events, jsonrpc, lembas
from lembasd.protocol.acp import (
    CommandResult,
    PromptResult,
    PromptResultLembas,
    PromptResultMeta,
    Undone,
)
from lembasd.protocol.control import Account, Remote, Settings
from lembasd.protocol.errors import RequestRefused
from lembasd.protocol.interact import Option, Question
from lembasd.store.core.ledger import Answer
from lembasd.store.records import Attachment
from lembasd.worker.core import answers, requests, translate
from lembasd.worker.core.line import Stage, Turn

FILE: Final = Path(__file__).parent / "wire.json"
SESSION: Final = "ses_00000000000000000000000000"
TERMINAL: Final = "term_000000000000"
SETTINGS: Final = Settings(
    remote=Remote(enabled=True, roots=["/home/ann/src"], terminal=True),
    account=Account(base_url="https://lembas.example.org", token="t", connection="c"),
)

EVENTS: Final[tuple[events.AnyEvent, ...]] = (
    events.Session("a title", "/home/ann/src/p", "m", "manual", "default"),
    events.Prompt("do it", "t1"),
    events.Task("start", "t1"),
    events.Queue([lembas.QueuedPrompt("t2", "and then")]),
    events.Step(1, "m"),
    events.Text("tëxt\u2028", "msg1"),
    events.Reasoning("thought", "msg1"),
    events.ToolCallDelta("c1", "bash", '{"comm'),
    events.ToolStart("c1", "bash", "list it", "shell", {"command": "ls"}, purpose="to see"),
    events.ToolStart("c2", "read", "read a", "read", {"path": "a"}),
    events.ToolOutput("c1", "a\n"),
    events.ToolEnd("c1", "#0001", False, "a\nb\n", 12),
    events.ToolEnd("c2", "#0002", True, "", 0, diff="--- a\n+++ b\n"),
    events.ToolDenied("c3", "write", "the person denied this call", "person"),
    events.Usage(10, 20),
    events.Usage(10, 20, 5, reasoning=3, context=30, window=100),
    events.Usage(10, 20, cost=events.Cost(0.5, "EUR")),
    events.Progress(32, 90),
    events.Progress(32),
    events.Inbox(0),
    events.Inbox(2),
    events.Steered(["in French", "short"], ids=["m1"]),
    events.Steered(["in French"]),
    events.Flash("replies come whole"),
    events.Title(SESSION, "a title"),
    events.Notice("warning", "trying again in 2 s"),
    events.Retract("msg1"),
    events.Compacted("what was done"),
    events.ModeChanged("auto"),
    events.Setting("verbosity", "low"),
    events.ModelChanged("m", "high", None, True),
    events.Error("the model cannot be had", reason="model", retryable=True),
    events.Error("a fault"),
    events.Done("t1", "end_turn"),
)


COMMANDS: Final = (
    CommandResult("review"),
    CommandResult("compact", summary="what was done"),
    CommandResult("undo", undone=Undone("do it", ["src/a.py"])),
    CommandResult("undo", undone=None),
    CommandResult("plan", mode="plan"),
    CommandResult("review", message="nothing has changed"),
)


def _decoded(payload: bytes) -> Any:
    return msgspec.json.decode(payload)


def _hello(settings: Settings) -> Any:
    said = _decoded(jsonrpc.notification("_lembas/hello", link_hello(settings)))
    said["params"] |= {"version": "(this build)", "device": {"host": "h", "platform": "linux"}}
    return said


def _initialized(*, local: bool) -> Any:
    said = msgspec.to_builtins(initialize_result(SETTINGS, local=local))
    said["agentInfo"]["version"] = "(this build)"
    return said


def _card(**more: Any) -> Any:
    card = CardRequest(
        tool_call_id="c1",
        name="bash",
        title="list it",
        kind="execute",
        args={"command": "ls"},
        reason="it runs a command",
        **more,
    )
    return _asked(card)


def _asked(request: Request, *, local: bool = False) -> Any:
    """What a client is sent that knows every kind of card."""
    machine = cards.Cards(SESSION, 1)
    watcher = Watcher(local=local, protocol=3, shows=True, opened=True)
    machine.handle(cards.Attached(1, watcher), 0.0)
    out = machine.handle(cards.Ask(request, 300.0), 0.0)
    return [_decoded(one.payload) for one in out if isinstance(one, cards.Send)]


def samples() -> Iterator[tuple[str, Any]]:
    """The name of each sample, and the message as JSON values."""
    yield "_lembas/hello, remote work on", _hello(SETTINGS)
    yield "_lembas/hello, remote work off", _hello(Settings())
    yield "initialize, on the link", _initialized(local=False)
    yield "initialize, on this machine", _initialized(local=True)
    made = requests.read_new(
        b'{"cwd":"/p","mcpServers":[],"_meta":{"mode":"auto","lembas_model":"m"}}',
        SETTINGS,
        local=False,
    )
    yield "session/new", msgspec.to_builtins(requests.new_result(SESSION, made, "edit"))
    answer = PromptResult("end_turn", PromptResultMeta(PromptResultLembas("t1")))
    yield "session/prompt", msgspec.to_builtins(answer)
    left = PromptResultLembas("t1", unsent=["and short"])
    yield (
        "session/prompt, with what it did not take in",
        msgspec.to_builtins(PromptResult("cancelled", PromptResultMeta(left))),
    )
    for number, command in enumerate(COMMANDS):
        result = answers.prompt_result("t1", "end_turn", Answer("end_turn", command=command))
        yield f"session/prompt, command {number}", msgspec.to_builtins(result)
    asked = Turn("t1", "see", 0.0, Stage.READY, [Attachment("a.md", "text/plain", 5, "1-a.md")])
    brought = translate.messages(SESSION, answers.prompt_event(asked))
    yield "event prompt, with a file", [_decoded(one.payload) for one in brought]
    set_of = commands.offered(commands.together([Command("port", "Port it", kind="custom")], []))
    yield (
        "session/update, available_commands_update",
        _decoded(translate.commands_update(SESSION, set_of)),
    )
    yield "session/request_permission", _card(purpose="to see", always="this command")
    question = Question(
        "DB",
        "Which database?",
        False,
        [Option("Postgres"), Option("SQLite", "one file", True)],
    )
    asked_of = QuestionRequest(tool_call_id="c2", questions=[question], why="both would do")
    yield "_lembas/question", _asked(asked_of)
    plan = PlanRequest(tool_call_id="c3", path=".agent/plans/a.md", text="# A", plan={"version": 1})
    yield "_lembas/plan", _asked(plan, local=True)
    yield "_lembas/plan, without a structure", _asked(msgspec.structs.replace(plan, plan=None))
    shown = ShowRequest(
        tool_call_id="c4", path="src/a.py", kind="code", text="a = 1\n", language="python", line=1
    )
    yield "_lembas/show", _asked(shown)
    for number, event in enumerate(EVENTS):
        name = msgspec.to_builtins(event)["type"]
        said = [_decoded(one.payload) for one in translate.messages(SESSION, event)]
        yield f"event {number}, {name}", said
    status = lembas.Status(SESSION, True, "here", True, "a title", ["t3"], "t2", "t1")
    yield "_lembas/session/status", msgspec.to_builtins(status)
    tool = lembas.HistoryTool("c1", "read", {"path": "a"}, "text", False)
    turns: list[lembas.UserTurn | lembas.AssistantTurn] = [
        lembas.UserTurn("do it", "t1"),
        lembas.UserTurn("see", "t2", [lembas.AttachmentInfo("a.png", "image/png", 70)]),
        lembas.AssistantTurn("done", "thought", [tool]),
    ]
    history = lembas.History(SESSION, "a title", "/p", turns)
    yield "_lembas/session/history", msgspec.to_builtins(history)
    opened = lembas.TerminalOpenResult(TERMINAL, "/p", 80, 24, "zsh", integration=True)
    yield "_lembas/terminal/open", msgspec.to_builtins(opened)
    refusal = "/p is not a trusted project"
    yield (
        "_lembas/directories",
        msgspec.to_builtins(
            lembas.Places("", [lembas.Dir("/p", "p", False, refusal), lembas.Dir("/q", "q", True)])
        ),
    )
    listing = lembas.DirListing("/p/a", "a", True, "/p", [lembas.Dir("/p/a/b", "b", True)])
    yield "_lembas/directories, with a path", msgspec.to_builtins(listing)
    files = [{"path": "src/hub.py", "kind": "file"}]
    yield "_lembas/files/search", msgspec.to_builtins(lembas.FilesSearchResult("/p", files))
    for method, params in (
        ("_lembas/terminal/output", lembas.TerminalOutput(TERMINAL, b"\x1b[0m\xff")),
        ("_lembas/terminal/exit", lembas.TerminalExit(TERMINAL, 130)),
        ("_hub/gap", lembas.Gap(SESSION, "1:7")),
    ):
        yield method, _decoded(jsonrpc.notification(method, params))
    refused = RequestRefused(-32602, "/x is not there; make it", {"reason": "folder"})
    yield "an error", _decoded(jsonrpc.refusal(b"7", refused))


def main() -> None:
    """Write the file anew."""
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(dict(samples())), indent=1) + b"\n")


if __name__ == "__main__":
    main()
