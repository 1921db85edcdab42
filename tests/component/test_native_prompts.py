"""What a model is given of a prompt: the files that it names or brings, and what stands for a command."""

import asyncio
import base64
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lembasd.engine.api import Decision, TurnOutcome
from lembasd.engine.native.engine import NativeEngine
from lembasd.protocol.acp import CommandResult, Undone
from lembasd.protocol.control import Remote
from lembasd.protocol.events import ModelChanged, Notice
from lembasd.store.records import Attachment, Prompted, Rewound
from tests.support.png import png
from tests.support.recorder_host import RecorderHost
from tests.support.scripted_model import Reply, ScriptedModel

ENDED = TurnOutcome(stop_reason="end_turn")


@pytest.fixture
def host(short_tmp: Path, model: ScriptedModel) -> RecorderHost:
    root = (short_tmp / "project").resolve()
    root.mkdir()
    host = RecorderHost(root, model.base_url)
    host.attachments_dir = (short_tmp / "attachments").resolve()
    host.attachments_dir.mkdir()
    return host


@pytest.fixture
async def engine(host: RecorderHost) -> AsyncIterator[NativeEngine]:
    engine = host.engine()
    yield engine
    await engine.aclose()


def brought(
    host: RecorderHost, name: str, content: bytes, kind: Any, mime: str = "text/plain"
) -> Attachment:
    (host.attachments_dir / f"1-{name}").write_bytes(content)
    return Attachment(name, mime, len(content), f"1-{name}", kind)


def said(model: ScriptedModel, request: int = -1) -> Any:
    """The content of the last user's message of a request."""
    messages = model.requests[request]["messages"]
    return [one["content"] for one in messages if one["role"] == "user"][-1]


# ── files that are named ────────────────────────────────────────────────────────────────────────


async def test_a_named_file_is_shown_with_its_lines_and_counts_as_read(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    (host.root / "a.py").write_text("one\ntwo\nthree\n")
    model.script(
        Reply(calls=[("read", {"path": "a.py"})]),
        Reply(calls=[("write", {"path": "a.py", "content": "new\n"})]),
    )
    assert await host.turn(engine, text="mend @a.py, please") == ENDED
    assert said(model, 0) == (
        "mend @a.py, please\n\nAttached file a.py:\n     1\tone\n     2\ttwo\n     3\tthree"
    )
    results = host.results()
    assert results[0].output == "[unchanged since the person's prompt, which shows lines 1-3]"
    assert not results[1].is_error


@pytest.mark.spec("session/prompt: @path with a range, an escape, a directory")
async def test_a_range_shows_its_lines_alone(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    (host.root / "a").write_text("".join(f"{n}\n" for n in range(1, 9)))
    await host.turn(engine, text="@a#2-3 @a#5 @a#8-")
    assert said(model) == (
        "@a#2-3 @a#5 @a#8-\n\n"
        "Attached file a:\n     2\t2\n     3\t3\n[lines 2-3 of 8; read on with offset 4]\n\n"
        "Attached file a:\n     5\t5\n[lines 5-5 of 8; read on with offset 6]\n\n"
        "Attached file a:\n     8\t8"
    )


@pytest.mark.spec("session/prompt: @path with a range, an escape, a directory")
async def test_a_name_with_a_space_a_hash_an_emoji_or_a_newline_is_written_with_a_backslash(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    for name in ("my notes.md", "a#b.md", "c#1", "\N{ROCKET}.md", "x\ny"):
        (host.root / name).write_text(f"{len(name)}\n")
    await host.turn(engine, text="@my\\ notes.md @a\\#b.md @c\\#1 @\N{ROCKET}.md @x\\\ny")
    assert said(model).partition("\n\n")[2].split("\n\n") == [
        "Attached file my notes.md:\n     1\t11",
        "Attached file a#b.md:\n     1\t6",
        "Attached file c#1:\n     1\t3",
        "Attached file \N{ROCKET}.md:\n     1\t4",
        "Attached file x\\ny:\n     1\t3",
    ]


@pytest.mark.spec("session/prompt: @path with a range, an escape, a directory")
async def test_a_directory_is_listed_and_an_image_shown(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    (host.root / "src").mkdir()
    (host.root / "src" / "a.py").write_text("")
    (host.root / "shot.png").write_bytes(png(3, 2))
    await host.turn(engine, text="see @src/ and @shot.png")
    text, label, image = said(model)
    size = len(png(3, 2))
    assert text == {
        "type": "text",
        "text": "see @src/ and @shot.png\n\nAttached directory src:\na.py\n\n"
        f"Attached image shot.png (PNG, 3x2 pixels, {size} bytes)",
    }
    assert label == {"type": "text", "text": "The image of shot.png:"}
    data = base64.b64encode(png(3, 2)).decode()
    assert image == {
        "type": "image_url",
        "image_url": {"url": f"data:image/png;base64,{data}"},
    }


async def test_a_model_without_eyes_is_told_that_the_image_is_there(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    model.models = [{"id": "scripted", "vision": False}]
    (host.root / "shot.png").write_bytes(png(3, 2))
    await host.turn(engine, text="see @shot.png")
    assert said(model).endswith("The image of shot.png:\n[not shown: this model takes no images]")


@pytest.mark.parametrize(
    "text",
    [
        "@/etc/passwd",
        "@../outside",
        "@link",
        "@way/outside",
        "@pipe",
        "@nothing",
        "@~/x",
        "me@a.txt",
        "@a.txt/",
        "@secret/key",
        "@.agent/config.yaml",
        "@other\\ name",
        "@" + "x" * 5000,
        "@a\0b",
    ],
)
@pytest.mark.spec("session/prompt: @path outside the project and roots")
async def test_any_other_word_stays_what_it_is_and_is_not_read(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine, text: str
) -> None:
    root = host.root
    (root.parent / "outside").write_text("SECRET")
    (root / "a.txt").write_text("inside")
    (root / "link").symlink_to(root.parent / "outside")
    (root / "way").symlink_to(root.parent)
    os.mkfifo(root / "pipe")
    (root / "secret").mkdir()
    (root / "secret" / "key").write_text("SECRET")
    (root / ".agent").mkdir()
    (root / ".agent" / "config.yaml").write_text("SECRET: 1")
    os.link(root / "secret" / "key", root / "other name")
    host.protected = [root / "secret", root / "secret" / "key"]
    await host.turn(engine, text=f"see {text}")
    assert "SECRET" not in str(model.requests)
    assert not any(isinstance(one, Prompted) for one in host.records)


@pytest.mark.spec("session/prompt: @path outside the project and roots")
async def test_what_is_outside_of_the_devices_roots_is_not_read_for_a_client_of_the_link(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    for name in ("in", "out"):
        (host.root / name).mkdir()
        (host.root / name / "a").write_text(name)
    roots = Remote(enabled=True, roots=[str(host.root / "in")])
    host.settings = type(host.settings)(account=host.settings.account, remote=roots)
    await host.turn(engine, "t1", "@in/a @out/a", local=False)
    assert said(model) == "@in/a @out/a\n\nAttached file in/a:\n     1\tin"
    host.settings = type(host.settings)(account=host.settings.account)
    await host.turn(engine, "t2", "@in/a", local=False)
    assert said(model) == "@in/a"
    await host.turn(engine, "t3", "@out/a", local=True)
    assert said(model).endswith("     1\tout")


async def test_what_cannot_be_shown_is_named_with_the_reason(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    (host.root / "data").write_bytes(b"\0\1\2")
    (host.root / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\nzip")
    (host.root / "short").write_text("one\n")
    await host.turn(engine, text="@data @bad.png @short#7")
    assert said(model).partition("\n\n")[2] == (
        "[not attached: data is a binary file (3 bytes)]\n\n"
        "[not attached: bad.png is a damaged PNG image]\n\n"
        "[not attached: short has 1 lines, none from 7 on]"
    )


async def test_ten_thousand_words_cost_no_more_than_the_bound(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    for n in range(60):
        (host.root / f"f{n}").write_text("x\n")
    words = " ".join(f"@f{n}" for n in range(10_000))
    await host.turn(engine, text=words)
    attached = said(model).removeprefix(words)
    assert attached.count("Attached file") == 50
    assert attached.endswith("[10 more files are named and not attached; read those that you need]")


async def test_more_than_there_is_room_for_is_named_only(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    for n in range(8):
        (host.root / f"f{n}").write_text("x" * 100 + "\n" * 1)
        (host.root / f"f{n}").write_text(f"{'x' * 99}\n" * 400)
    await host.turn(engine, text=" ".join(f"@f{n}" for n in range(8)))
    text = said(model)
    assert len(text) < 210_000
    assert text.count("Attached file") == 5
    assert "[not attached: f7, for there is too much already; read what you need of it]" in text


# ── files that are brought ──────────────────────────────────────────────────────────────────────


@pytest.mark.spec("session/prompt: resource with a blob")
async def test_what_a_prompt_brings_is_shown_by_its_kind(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    files = [
        brought(host, "n.md", b"one\ntwo\n", "text"),
        brought(host, "b.zip", b"PK\3\4\0", "blob"),
        brought(host, "i.png", png(1, 1), "blob"),
        brought(host, "bomb.png", b"PK\3\4\0", "image"),
        brought(host, "s.gif", b"GIF89a\1\0\2\0", "image"),
    ]
    await host.turn(engine, text="", attachments=files)
    where = host.attachments_dir
    content = said(model)
    assert content[0]["text"].split("\n\n") == [
        f"Attached file {where}/1-n.md:\n     1\tone\n     2\ttwo",
        f"Attached file {where}/1-b.zip (binary file, 5 bytes)",
        f"Attached image {where}/1-i.png (PNG, 1x1 pixels, {len(png(1, 1))} bytes)",
        f"Attached file {where}/1-bomb.png (binary file, 5 bytes)",
        f"Attached image {where}/1-s.gif (GIF, 1x2 pixels, 10 bytes)",
    ]
    assert [one["type"] for one in content[1:]] == ["text", "image_url"] * 2


async def test_the_tools_may_read_what_was_brought_and_nothing_else_that_is_protected(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    state = host.attachments_dir.parent
    host.protected = [state / "attachments", state / "journal"]
    (state / "journal").write_text("x")
    file = brought(host, "n.md", b"one\n", "text")
    path = host.attachments_dir / file.file
    model.script(
        Reply(calls=[("edit", {"path": str(path), "old": "one", "new": "two"})]),
        Reply(calls=[("bash", {"command": f"cat {path} > copy"})]),
        Reply(calls=[("read", {"path": str(host.attachments_dir)})]),
        Reply(calls=[("read", {"path": str(state / "journal")})]),
        Reply(calls=[("bash", {"command": f"cat {path}/../../journal"})]),
    )
    await host.turn(engine, text="see", attachments=[file])
    assert path.read_text() == (host.root / "copy").read_text() == "two\n"
    assert [one.denied_by for one in host.results()] == [None, None, *["floor"] * 3]


async def test_a_file_that_is_gone_when_the_turn_begins_is_said(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    file = Attachment("x", "text/plain", 1, "1-x", "text")
    await host.turn(engine, text="see", attachments=[file])
    assert said(model) == (
        f"see\n\n[not attached: No such file or directory: {host.attachments_dir}/1-x]"
    )


async def test_a_session_that_is_opened_again_says_the_same(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    (host.root / "a").write_text("one\n")
    (host.root / "i.png").write_bytes(png(1, 1))
    await host.turn(engine, "t1", "@a @i.png")
    await host.turn(engine, "t2", "/plan")
    before = model.requests[-1]["messages"]
    (host.root / "a").write_text("other\n")
    again = host.engine(records=list(host.records))
    await host.turn(again, "t3", "on")
    assert model.requests[-1]["messages"][: len(before)] == before
    await again.aclose()


# ── commands ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("session/prompt: /name that is none")
async def test_a_name_that_is_no_command_goes_to_the_model_as_it_is(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    for number, text in enumerate(("/src/a.py is wrong", "/^a+$/", "/sessions", "/nothing x")):
        assert await host.turn(engine, f"t{number}", text) == ENDED
        assert said(model) == text


async def test_plan_without_a_task_needs_only_the_mode(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    outcome = await host.turn(engine, "t1", "/plan")
    assert outcome == TurnOutcome(
        stop_reason="end_turn", command=CommandResult("plan", mode="plan")
    )
    assert (host.command_modes, model.requests) == (["plan"], [])
    model.script(Reply(calls=[("write", {"path": "a", "content": "x"})]))
    outcome = await host.turn(engine, "t2", "/plan a way to @src")
    assert outcome == TurnOutcome(stop_reason="end_turn", command=CommandResult("plan"))
    assert said(model, 0) == "a way to @src"
    assert [one.is_error for one in host.results()] == [True]


async def test_compact_sums_up_and_says_so_where_there_is_nothing(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    nothing = CommandResult(
        "compact", message="nothing was said in this session yet; write a prompt first"
    )
    assert (await host.turn(engine, "t1", "/compact")).command == nothing
    await host.turn(engine, "t2", "go")
    model.script(Reply(text="all of it"))
    outcome = await host.turn(engine, "t3", "/compact")
    assert outcome.command == CommandResult("compact", summary="all of it")
    await host.turn(engine, "t4", "on")
    assert "<summary>\\nall of it" in str(model.requests[-1]["messages"])
    assert "/compact" not in str(model.requests)


async def test_a_summary_that_is_cancelled_is_a_cancelled_turn(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    await host.turn(engine, "t1", "go")
    model.script(Reply(text="all", hold=asyncio.Event()))
    turn = asyncio.ensure_future(host.turn(engine, "t2", "/compact"))
    while "Write a summary" not in str((await model.asked.get())["messages"][-1]):
        pass
    assert engine.steer("and be short", "m1") == 1
    engine.cancel()
    assert await turn == TurnOutcome(
        stop_reason="cancelled", command=CommandResult("compact"), unsent=["and be short"]
    )
    await host.turn(engine, "t3", "on")
    assert said(model) == "on"


async def test_a_summary_that_fails_is_the_turns_error(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    await host.turn(engine, "t1", "go")
    model.script(Reply(status=400, raw=b"{}"))
    assert (await host.turn(engine, "t2", "/compact")).error is not None


async def test_init_and_continue_send_their_text_and_what_was_typed(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    nothing = await host.turn(engine, "t1", "/continue")
    assert nothing.command is not None
    assert nothing.command.message == "nothing was said in this session yet; write a prompt first"
    assert (await host.turn(engine, "t2", "/init in French")).command == CommandResult("init")
    assert said(model).startswith("Write AGENTS.md in the root")
    assert said(model).endswith("No general advice.\n\nin French")
    await host.turn(engine, "t3", "/continue")
    assert said(model).startswith("Go on where you stopped.")


def custom(folder: Path, name: str, text: str | bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)


async def test_a_custom_command_sends_its_text_and_attaches_what_was_typed_alone(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    (host.root / "a").write_text("A\n")
    (host.root / "b").write_text("B\n")
    project = host.root / ".agent" / "commands"
    custom(project, "port.md", "---\ndescription: Port it\nhint: <file>\n---\nPort $1 as @b says.")
    outcome = await host.turn(engine, "t1", "/port @a now")
    assert outcome.command == CommandResult("port")
    assert said(model) == "Port @a as @b says.\n\nAttached file a:\n     1\tA"
    names = [(one.name, one.description) for one in await engine.commands()]
    assert names[-1] == ("port", "Port it")


async def test_files_that_can_be_no_command_are_none(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    project = host.root / ".agent" / "commands"
    secret = host.root.parent / "secret.md"
    secret.write_text("SECRET")
    for name, text in {
        "huge.md": b"x" * 70_000,
        "binary.md": b"\0\1\2",
        "empty.md": b"---\ndescription: x\n---\n",
        "Upper.md": b"x",
        "review.md": b"mine",
        "theme.md": b"mine",
        "a b.md": b"x",
        "note.txt": b"x",
    }.items():
        custom(project, name, text)
    (project / "folder.md").mkdir()
    (project / "out.md").symlink_to(secret)
    (project / "loop.md").symlink_to("loop.md")
    os.mkfifo(project / "pipe.md")
    assert [one.name for one in await engine.commands()] == [
        *("compact", "plan", "undo", "review", "changelog", "init", "continue")
    ]
    await host.turn(engine, "t1", "/out")
    assert said(model) == "/out"


async def test_a_commands_folder_that_leads_out_of_the_project_is_not_looked_into(
    host: RecorderHost, engine: NativeEngine
) -> None:
    custom(host.root.parent / "elsewhere", "x.md", "do it")
    (host.root / ".agent").mkdir()
    (host.root / ".agent" / "commands").symlink_to(host.root.parent / "elsewhere")
    assert "x" not in [one.name for one in await engine.commands()]
    custom(host.commands_dir, "x.md", "mine")
    assert [one.name for one in await engine.commands()][-1] == "x"


async def test_what_came_with_a_project_never_takes_a_name_of_the_persons(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    project = host.root / ".agent" / "commands"
    custom(project, "ship.md", "theirs")
    custom(project, "zap.md", "zap")
    custom(host.commands_dir, "ship.md", "mine")
    await host.turn(engine, "t1", "/ship")
    assert said(model) == "mine"
    assert [one.name for one in await engine.commands()][-2:] == ["zap", "ship"]


async def test_a_commands_mode_holds_for_its_prompt_and_widens_nothing_that_a_person_set(
    host: RecorderHost, model: ScriptedModel
) -> None:
    host.widest_mode = "edit"
    engine = host.engine("edit")
    project = host.root / ".agent" / "commands"
    custom(project, "look.md", "---\nmode: plan\n---\nLook.")
    custom(project, "wild.md", "---\nmode: auto\n---\nRun.")
    custom(host.commands_dir, "mine.md", "---\nmode: auto\n---\nRun.")
    write = Reply(calls=[("write", {"path": "a", "content": "x"})])
    model.script(write)
    await host.turn(engine, "t1", "/look")
    assert host.results()[-1].denied_by == "mode"
    assert "The session's mode is now plan." in said(model, 0)
    model.script(write)
    await host.turn(engine, "t2", "on")
    assert not host.results()[-1].is_error
    assert "The session's mode is now edit." in str(model.requests[-1]["messages"])
    host.decisions.append(Decision(outcome="deny"))
    for turn, name in (("t3", "wild"), ("t4", "mine")):
        model.script(Reply(calls=[("bash", {"command": "touch x"})]))
        await host.turn(engine, turn, f"/{name}")
        # the project's is asked for, the person's own is not
        assert len(host.cards) == 1
    await engine.aclose()


async def test_a_commands_model_and_effort_hold_for_its_prompt(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    model.models = [
        {"id": "scripted", "vision": False, "efforts": ["low", "high"]},
        {"id": "other", "vision": True, "efforts": ["low", "high"]},
    ]
    (host.root / "i.png").write_bytes(png(1, 1))
    custom(host.commands_dir, "look.md", "---\nmodel: other\neffort: high\n---\nLook.")
    custom(host.commands_dir, "hard.md", "---\neffort: low\n---\nLook.")
    engine.set_effort("low")
    await host.turn(engine, "t1", "@i.png")
    model.script(Reply(raw=b"{}", status=400), Reply(text="seen"))
    await host.turn(engine, "t2", "/look @i.png")
    await host.turn(engine, "t3", "on")
    await host.turn(engine, "t4", "/hard")
    asked = [
        (one["model"], one.get("reasoning_effort"), "image_url" in str(one))
        for one in model.requests
    ]
    assert asked[0] == ("scripted", "low", False)
    assert ("other", "high", True) in asked
    assert asked[-2:] == [("scripted", "low", False), ("scripted", "low", False)]
    told = [(one.ref, one.effort) for one in host.events if isinstance(one, ModelChanged)]
    assert told == [
        ("other", "high"),
        ("scripted", "low"),
        ("scripted", "low"),
        ("scripted", "low"),
    ]


async def test_an_effort_that_is_set_in_the_middle_of_a_commands_prompt_is_the_sessions(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    model.models = [{"id": "scripted", "efforts": ["low", "high"]}]
    custom(host.commands_dir, "look.md", "---\neffort: low\n---\nLook.")
    model.choose = lambda _body: engine.set_effort("high")
    await host.turn(engine, "t1", "/look")
    await host.turn(engine, "t2", "on")
    assert [one.get("reasoning_effort") for one in model.requests] == ["low", "high"]


# ── git ─────────────────────────────────────────────────────────────────────────────────────────


def git(root: Path, *args: str) -> str:
    settings = ["-c", "user.name=n", "-c", "user.email=e@x", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *settings, *args], cwd=root, check=True, capture_output=True)
    return done.stdout.decode()


@pytest.fixture
def repository(host: RecorderHost) -> Path:
    git(host.root, "init")
    (host.root / "a").write_text("one\n")
    git(host.root, "add", "a")
    git(host.root, "commit", "-m", "First\n\nwith a body")
    return host.root


async def message(host: RecorderHost, engine: NativeEngine, turn_id: str, text: str) -> Any:
    outcome = await host.turn(engine, turn_id, text)
    assert outcome.stop_reason == "end_turn"
    assert outcome.command is not None
    return outcome.command.message


async def test_a_review_shows_what_is_not_committed(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine, repository: Path
) -> None:
    nothing = "nothing has changed in this project, so there is nothing to review"
    assert await message(host, engine, "t1", "/review") == nothing
    assert model.requests == []
    (repository / "a").write_text("two @b\n")
    (repository / "b").write_text("not attached\n")
    outcome = await host.turn(engine, "t2", "/review")
    assert outcome.command == CommandResult("review")
    text = said(model)
    assert text.startswith("Review the changes in the working tree that are not committed.")
    assert "-one\n+two @b" in text
    assert text.endswith("new file, not known to git: 'b'\n")


async def test_a_review_of_a_commit_and_of_a_branch(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine, repository: Path
) -> None:
    git(repository, "branch", "start")
    (repository / "a").write_text("two\n")
    git(repository, "commit", "-am", "Second")
    await host.turn(engine, "t1", "/review head")
    assert said(model).startswith("Review the last commit.")
    assert "Second" in said(model)
    await host.turn(engine, "t2", "/review start and be short")
    assert said(model).startswith("Review everything that has changed since start.")
    assert "in one sentence.\n\nand be short" in said(model)
    assert "-one\n+two" in said(model)
    for text in ("/review nowhere", "/review --output=x"):
        what = text.partition(" ")[2]
        assert await message(host, engine, text, text) == (
            f"git knows no commit or branch {what}; name one that is there"
        )


async def test_a_changelog_has_the_commits_since_the_last_tag(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine, repository: Path
) -> None:
    await host.turn(engine, "t1", "/changelog")
    assert "The commits in this project, newest first:" in said(model)
    assert "First\n  with a body" in said(model)
    git(repository, "tag", "v1")
    assert await message(host, engine, "t2", "/changelog") == (
        "there are no commits since v1, so there is nothing to write"
    )
    (repository / "a").write_text("two\n")
    git(repository, "commit", "-am", "Second")
    await host.turn(engine, "t3", "/changelog")
    assert "Second" in said(model)
    assert "First" not in said(model)
    assert await message(host, engine, "t4", "/changelog nope") == (
        "git knows no commit or branch nope; name one that is there"
    )


async def test_a_project_without_git_or_without_a_commit_is_said(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    no_git = "git cannot be asked here (this is no repository); /review needs a git repository"
    assert await message(host, engine, "t1", "/review") == no_git
    git(host.root, "init")
    assert await message(host, engine, "t2", "/changelog") == (
        "there are no commits in this project, so there is nothing to write"
    )
    (host.root / "a").write_text("x")
    git(host.root, "add", "a")
    await host.turn(engine, "t3", "/review")
    assert "new file mode" in said(model)
    (host.root / ".git" / "config").write_text("[broken")
    assert "git cannot be asked here (" in await message(host, engine, "t4", "/review")


async def test_git_runs_nothing_that_the_repository_names_and_shows_nothing_outside(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine, repository: Path
) -> None:
    ran = host.root.parent / "ran"
    bad = host.root.parent / "bad.sh"
    bad.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    bad.chmod(0o755)
    outside = host.root.parent / "outside"
    outside.mkdir()
    (outside / "a").write_text("SECRET\n")
    for key in (
        "filter.f.clean",
        "filter.f.process",
        "filter.with.dots.clean",
        "diff.external",
        "diff.d.textconv",
        "diff.d.command",
        "core.fsmonitor",
        "core.pager",
        "gpg.program",
    ):
        git(repository, "config", key, str(bad))
    git(repository, "config", "filter.f.required", "true")
    git(repository, "config", "log.showSignature", "true")
    (repository / ".gitattributes").write_text("a filter=f diff=d\nb filter=with.dots\n")
    (repository / "a").write_text("two\n")
    (repository / "b").write_text("b\n")
    git(repository, "config", "core.worktree", str(outside))
    host.protected = [repository / "key"]
    (repository / "key").write_text("SECRET")
    await host.turn(engine, "t1", "/review")
    assert "+two" in said(model)
    await host.turn(engine, "t2", "/review head")
    await host.turn(engine, "t3", "/changelog")
    assert "SECRET" not in str(model.requests)
    assert "key" not in said(model, 0)
    assert not ran.exists()


async def test_git_fetches_nothing_by_a_transport_that_the_repository_allows(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine, repository: Path
) -> None:
    blob = git(repository, "rev-parse", "HEAD:a").strip()
    (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    ran = host.root.parent / "ran"
    for key, value in {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": "o",
        "remote.o.promisor": "true",
        "remote.o.url": f"ext::touch {ran}",
        "protocol.ext.allow": "always",
    }.items():
        git(repository, "config", key, value)
    (repository / "a").write_text("two\n")
    assert "git cannot be asked here" in await message(host, engine, "t1", "/review")
    assert not ran.exists()


async def test_a_command_whose_git_hangs_can_be_cancelled(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine, repository: Path
) -> None:
    pipe = host.root.parent / "pipe"
    os.mkfifo(pipe)
    git(repository, "config", "core.excludesFile", str(pipe))
    turn = asyncio.ensure_future(host.turn(engine, "t1", "/review"))
    writer = await asyncio.to_thread(os.open, pipe, os.O_WRONLY)
    engine.cancel()
    outcome = await turn
    os.close(writer)
    assert (outcome.stop_reason, model.requests) == ("cancelled", [])


async def test_a_change_that_is_too_long_is_cut(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine, repository: Path
) -> None:
    (repository / "a").write_text("x" * 99 + "\n" + f"{'y' * 99}\n" * 4000)
    await host.turn(engine, "t1", "/review")
    assert len(said(model)) < 202_000
    assert "more lines; ask git for the rest]" in said(model)


# ── undo ────────────────────────────────────────────────────────────────────────────────────────


async def test_undo_takes_the_last_prompt_back_with_what_the_file_tools_changed(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    (host.root / "old").write_text("one\n")
    (host.root / "old").chmod(0o755)
    await host.turn(engine, "t1", "first")
    model.script(
        Reply(calls=[("read", {"path": "old"})]),
        Reply(calls=[("write", {"path": "old", "content": "two\n"})]),
        Reply(calls=[("edit", {"path": "old", "old": "two", "new": "three"})]),
        Reply(calls=[("write", {"path": "new/file", "content": "new\n"})]),
    )
    await host.turn(engine, "t2", "second")
    outcome = await host.turn(engine, "t3", "/undo")
    assert outcome.command == CommandResult(
        "undo", undone=Undone(prompt="second", files=["old", "new/file"])
    )
    assert (host.root / "old").read_text() == "one\n"
    assert (host.root / "old").stat().st_mode & 0o777 == 0o755
    assert not (host.root / "new" / "file").exists()
    await host.turn(engine, "t4", "third")
    users = [one["content"] for one in model.requests[-1]["messages"] if one["role"] == "user"]
    assert users == ["first", "third"]
    assert [one for one in host.records if isinstance(one, Rewound)] == [
        Rewound(turns=["t2"], results=4)
    ]
    model.script(Reply(calls=[("list", {})]))
    await host.turn(engine, "t5", "fourth")
    assert host.results()[-1].result_id == "#0005"


async def test_an_undo_that_was_cut_off_after_its_files_is_made_again(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    for name in ("a", "b"):
        model.script(Reply(calls=[("write", {"path": name, "content": "x"})]))
    await host.turn(engine, "t1", "make them")
    (host.root / "a").unlink()  # as the first undo left it
    outcome = await host.turn(engine, "t2", "/undo")
    assert outcome.command == CommandResult("undo", undone=Undone("make them", ["b"]))
    assert list(host.root.iterdir()) == []
    assert not any(isinstance(one, Notice) for one in host.events)


async def test_undo_goes_back_one_prompt_each_time_and_says_when_there_is_none(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    nothing = CommandResult("undo", undone=None)
    assert (await host.turn(engine, "t0", "/undo")).command == nothing
    for name in ("a", "b"):
        model.script(Reply(calls=[("write", {"path": name, "content": "x"})]))
        await host.turn(engine, name, f"make {name}")
    await host.turn(engine, "p", "/plan")
    done = [(await host.turn(engine, f"u{n}", "/undo")).command for n in range(3)]
    assert done == [
        CommandResult("undo", undone=Undone("make b", ["b"])),
        CommandResult("undo", undone=Undone("make a", ["a"])),
        nothing,
    ]
    assert list(host.root.iterdir()) == []


async def test_undo_leaves_a_file_that_somebody_changed_since(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    model.script(
        Reply(calls=[("write", {"path": "a", "content": "x"})]),
        Reply(calls=[("write", {"path": "b", "content": "x"})]),
        Reply(calls=[("write", {"path": "c", "content": "x"})]),
    )
    await host.turn(engine, "t1", "make them")
    (host.root / "a").write_text("the person's")
    (host.root / "b").unlink()
    outcome = await host.turn(engine, "t2", "/undo")
    assert outcome.command == CommandResult("undo", undone=Undone("make them", ["c"]))
    assert (host.root / "a").read_text() == "the person's"
    notices = [one.text for one in host.events if isinstance(one, Notice)]
    assert notices == [
        "these files were changed since, or cannot be written, and stay as they are: a"
    ]


async def test_undo_leaves_a_file_that_somebody_changed_between_two_calls(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    model.script(
        Reply(calls=[("write", {"path": "a", "content": "x"})]),
        Reply(calls=[("bash", {"command": "echo more > a"})]),
        Reply(calls=[("read", {"path": "a"})]),
        Reply(calls=[("edit", {"path": "a", "old": "more", "new": "less"})]),
    )
    await host.turn(engine, "t1", "make it")
    await host.turn(engine, "t2", "/undo")
    assert (host.root / "a").read_text() == "less\n"


async def test_undo_through_a_link_that_was_put_in_a_files_way_touches_nothing(
    host: RecorderHost, model: ScriptedModel, engine: NativeEngine
) -> None:
    model.script(Reply(calls=[("write", {"path": "d/a", "content": "x"})]))
    await host.turn(engine, "t1", "make it")
    outside = host.root.parent / "outside"
    (host.root / "d").rename(outside)
    (host.root / "d").symlink_to(outside)
    outcome = await host.turn(engine, "t2", "/undo")
    assert outcome.command == CommandResult("undo", undone=Undone("make it", []))
    assert (outside / "a").read_text() == "x"
