"""A session's MCP servers: real ones on pipes and over HTTP, and what they do wrong."""

import asyncio
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import psutil
import pytest
from msgspec.structs import replace

from lembasd.device import runtime
from lembasd.device.process_tree import by_marker
from lembasd.engine.api import CardRequest, Decision, TurnOutcome
from lembasd.engine.native.core.mcp_sources import is_instances
from lembasd.engine.native.engine import NativeEngine
from lembasd.engine.native.kept import Kept
from lembasd.engine.native.mcp.connection import HTTP_END_S, MAX_PAGES
from lembasd.engine.native.mcp.servers import Servers
from lembasd.protocol import events
from lembasd.protocol.control import Account, Mode
from lembasd.protocol.mcp import McpServer
from lembasd.store.records import Call, ToolResult, ToolsOffered
from tests.support.recorder_host import RecorderHost
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.subreaper import no_subreaper

DONE = TurnOutcome(stop_reason="end_turn")
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def subreaper() -> Iterator[None]:
    runtime.become_subreaper()
    yield
    no_subreaper()


def server(host: RecorderHost, *words: str, name: str = "srv", **fields: Any) -> McpServer:
    """The misbehaving server, set up for this session."""
    env = {
        "MISBEHAVE": " ".join(words),
        "MARKS": str(host.root),
        "PYTHONPATH": str(REPOSITORY),
        "SECRET": "s3cret",
    }
    return McpServer(
        name=name,
        command=sys.executable,
        args=["-m", "tests.support.mcp_server"],
        env=env,
        **fields,
    )


def old_server() -> McpServer:
    """One that speaks the old protocol."""
    return McpServer(
        name="old",
        command=sys.executable,
        args=["-m", "tests.support.mcp_old_server"],
        env={"PYTHONPATH": str(REPOSITORY)},
    )


def configure(host: RecorderHost, *servers: McpServer) -> None:
    host.settings = replace(host.settings, mcp=list(servers))


async def turn(host: RecorderHost, engine: NativeEngine, turn_id: str = "t1") -> None:
    assert await asyncio.wait_for(host.turn(engine, turn_id), 40) == DONE


def notices(host: RecorderHost) -> list[str]:
    return [one.text for one in host.events if isinstance(one, events.Notice)]


async def person() -> dict[str, str]:
    """A person whose login shell adds nothing."""
    return dict(os.environ)


def marked(host: RecorderHost, name: str) -> Awaitable[str]:
    """Waits until the server leaves this mark: a pipe, which it opens to write."""
    os.mkfifo(host.root / name)
    return asyncio.wait_for(asyncio.to_thread((host.root / name).read_text), 20)


async def call(
    host: RecorderHost,
    model: ScriptedModel,
    tool: str,
    *,
    words: tuple[str, ...] = (),
    **args: Any,
) -> ToolResult:
    """Have one call made in auto mode, and give its result."""
    configure(host, server(host, *words))
    model.script(Reply(calls=[(f"mcp__srv__{tool}", args)]))
    engine = host.engine("auto")
    await turn(host, engine)
    await engine.aclose()
    return host.results()[-1]


@asynccontextmanager
async def serving(transport: str) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """A server over HTTP in a process of its own: its address, and the process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.support.mcp_http_server",
        transport,
        cwd=REPOSITORY,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), 20)
        yield line.decode().strip(), process
    finally:
        process.kill()
        await process.wait()


def names(body: dict[str, Any]) -> list[str]:
    all_names = [one["function"]["name"] for one in body["tools"]]
    return [name for name in all_names if name.startswith("mcp__")]


async def test_a_servers_tools_are_offered_and_called(
    host: RecorderHost, model: ScriptedModel
) -> None:
    configure(host, server(host))
    model.script(Reply(calls=[("mcp__srv__echo", {"text": "hi"})]))
    engine = host.engine("auto")
    await turn(host, engine)
    await engine.aclose()
    assert notices(host) == []
    assert names(model.requests[0])[:3] == ["mcp__srv__die", "mcp__srv__echo", "mcp__srv__empty"]
    assert model.requests[0]["tools"] == model.requests[1]["tools"]
    assert host.results()[0].output == "echo: hi"
    flashes = [one for one in host.events if isinstance(one, events.Flash)]
    assert flashes == [events.Flash(text="starting MCP servers: srv")]
    assert by_marker(host.session_id) == []


@pytest.mark.parametrize(
    ("tool", "args", "output", "is_error"),
    [
        ("look", {}, "seen", False),
        ("fail", {}, "it did not work", True),
        ("empty", {}, "(no content)", False),
        ("structured", {}, '{\n  "n": 1\n}', False),
        (
            "mixed",
            {},
            "one\n[image image/png, 70 bytes]\n[resource file:///a]\ninside\n[resource b: file:///b]",
            False,
        ),
    ],
)
async def test_an_answer_is_text_for_the_model(
    host: RecorderHost,
    model: ScriptedModel,
    tool: str,
    args: dict[str, Any],
    output: str,
    is_error: bool,
) -> None:
    result = await call(host, model, tool, **args)
    assert (result.output, result.is_error) == (output, is_error)


async def test_a_huge_answer_is_capped_like_every_result(
    host: RecorderHost, model: ScriptedModel
) -> None:
    result = await call(host, model, "huge", chars=3_000_000)
    assert len(result.output) < 50_000
    assert result.full is not None
    assert len(result.full) < 2_000_100


async def test_a_message_over_the_bound_ends_its_server_and_it_is_started_again(
    host: RecorderHost, model: ScriptedModel
) -> None:
    configure(host, server(host))
    model.script(
        Reply(calls=[("mcp__srv__huge", {"chars": 9_000_000})]),
        Reply(calls=[("mcp__srv__look", {})]),
    )
    engine = host.engine("auto")
    await turn(host, engine)
    await engine.aclose()
    ended, looked = host.results()
    assert (ended.is_error, "ended while this ran" in ended.output) == (True, True)
    assert looked.output == "seen"
    assert "it sent a message over 8 MiB" in notices(host)[0]


async def test_a_server_that_dies_is_told_and_started_again_a_few_times(
    host: RecorderHost, model: ScriptedModel
) -> None:
    configure(host, server(host))
    model.choose = lambda _body: (
        Reply(calls=[("mcp__srv__die", {"n": len(model.requests)})])
        if len(model.requests) < 7
        else None
    )
    engine = host.engine("auto")
    await turn(host, engine)
    await engine.aclose()
    outputs = [one.output for one in host.results()]
    assert all("ended while this ran" in one for one in outputs[:4])
    assert all("was started 4 times and ended each time" in one for one in outputs[4:])
    assert len(outputs) == 6
    assert notices(host) == ["the MCP server srv has ended: it ended (exit status 3)"] * 4
    assert len(list(host.root.glob("started-*"))) == 4


async def test_a_server_that_hung_up_before_the_session_ended_is_told_however_long_it_takes_to_end(
    host: RecorderHost, model: ScriptedModel
) -> None:
    configure(host, server(host, "deaf"))
    model.script(*(Reply(calls=[("mcp__srv__hang_up", {})]) for _ in range(2)))
    engine = host.engine("auto")
    await turn(host, engine)
    await engine.aclose()
    assert all("ended while this ran" in one.output for one in host.results())
    assert [one.split(":")[0] for one in notices(host)] == ["the MCP server srv has ended"] * 2


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda host: server(host, "dies"), "it ended (exit status 1)"),
        (lambda _host: McpServer(name="srv", command="/no/such"), "No such file or directory"),
        (lambda _host: McpServer(name="srv", command="true", cwd="nowhere"), "cannot be started"),
        (
            lambda _host: McpServer(name="srv", transport="http", url="http://127.0.0.1:9/mcp"),
            "it failed (ConnectError)",
        ),
        (lambda _host: McpServer(name="srv", command="${NOWHERE_SET}"), "NOWHERE_SET is not set"),
    ],
)
async def test_a_server_that_cannot_be_started_is_told_and_the_session_works_without_it(
    host: RecorderHost, model: ScriptedModel, made: Callable[[RecorderHost], McpServer], why: str
) -> None:
    configure(host, made(host), server(host, name="well"))
    engine = host.engine("auto")
    await turn(host, engine)
    await engine.aclose()
    assert [why in one for one in notices(host)] == [True], notices(host)
    assert {name.split("__")[1] for name in names(model.requests[0])} == {"well"}


async def test_a_flood_on_stderr_and_chatter_on_stdout_stop_nothing(
    host: RecorderHost, model: ScriptedModel
) -> None:
    result = await call(host, model, "look", words=("floods", "chats"))
    assert result.output == "seen"
    assert "eeee" not in str(model.requests)


async def test_a_server_that_prints_without_end_holds_up_nobody_else(
    host: RecorderHost, model: ScriptedModel
) -> None:
    configure(host, replace(old_server(), timeout_s=0.5))
    model.script(Reply(calls=[("mcp__old__t4", {})]), Reply(calls=[("list", {"path": "."})]))
    engine = host.engine("auto")
    begun = time.monotonic()
    await turn(host, engine)
    assert time.monotonic() - begun < 5
    printed, listed = host.results()
    assert "gave no answer within 0.5 s" in printed.output
    assert not listed.is_error
    await asyncio.wait_for(engine.aclose(), 10)
    assert (notices(host), by_marker(host.session_id)) == ([], [])


async def test_a_server_that_stands_still_is_given_up_and_ended(
    host: RecorderHost, model: ScriptedModel
) -> None:
    configure(host, server(host, timeout_s=0.5))
    # more than a pipe holds
    long = {"text": "x" * 200_000}
    model.script(Reply(calls=[("mcp__srv__stop", {})]), Reply(calls=[("mcp__srv__stop", long)]))
    engine = host.engine("auto")
    await turn(host, engine)
    assert ["no answer within 0.5 s" in one.output for one in host.results()] == [True, True]
    await asyncio.wait_for(engine.aclose(), 10)
    assert by_marker(host.session_id) == []


async def test_a_call_that_takes_too_long_is_cancelled_at_its_server(
    host: RecorderHost, model: ScriptedModel
) -> None:
    configure(host, server(host, timeout_s=0.5))
    model.script(
        Reply(calls=[("mcp__srv__wait", {})]),
        Reply(calls=[("mcp__srv__look", {})]),
    )
    cancelled = asyncio.ensure_future(marked(host, "cancelled"))
    engine = host.engine("auto")
    await turn(host, engine)
    assert "gave no answer within 0.5 s" in host.results()[0].output
    assert host.results()[1].output == "seen"
    await cancelled
    await engine.aclose()


async def test_a_persons_cancel_reaches_the_server(
    host: RecorderHost, model: ScriptedModel
) -> None:
    configure(host, server(host))
    model.script(Reply(calls=[("mcp__srv__wait", {})]))
    engine = host.engine("auto")
    waiting, cancelled = marked(host, "waiting"), marked(host, "cancelled")
    running = asyncio.ensure_future(host.turn(engine))
    await waiting
    engine.cancel()
    assert await asyncio.wait_for(running, 10) == TurnOutcome(stop_reason="cancelled")
    assert (
        host.results()[0].output == "Cancelled by the person while it ran; what it had done stays."
    )
    await cancelled
    await engine.aclose()


async def test_a_cancel_is_heard_while_servers_start(
    host: RecorderHost, model: ScriptedModel
) -> None:
    configure(host, server(host, "slow"))
    engine = host.engine("auto")
    begun = marked(host, "begun")
    running = asyncio.ensure_future(host.turn(engine))
    await begun
    engine.cancel()
    assert await asyncio.wait_for(running, 5) == TurnOutcome(stop_reason="cancelled")
    assert model.requests == []
    await engine.aclose()
    assert by_marker(host.session_id) == []


async def test_a_server_of_the_old_protocol_works_and_what_it_changes_is_told_once(
    host: RecorderHost, model: ScriptedModel
) -> None:
    configure(host, old_server())
    model.script(*(Reply(calls=[(f"mcp__old__t{number}", {})]) for number in range(3)))
    engine = host.engine("auto")
    await turn(host, engine)
    await asyncio.wait_for(host.until(events.Notice), 10)
    await engine.aclose()
    assert len(names(model.requests[0])) == MAX_PAGES
    assert len({str(body["tools"]) for body in model.requests}) == 1
    assert notices(host) == ["the MCP server old has other tools now; a new session will have them"]
    assert [(one.output, one.is_error) for one in host.results()] == [
        ("old", False),
        (
            "The MCP server old gave an answer that cannot be read. Go on without it.",
            True,
        ),
        ("old refused the call: not like this", True),
    ]


async def test_a_server_that_asks_without_reading_the_answers_is_ended(
    host: RecorderHost, model: ScriptedModel
) -> None:
    configure(host, old_server())
    model.script(Reply(calls=[("mcp__old__t3", {})]))
    engine = host.engine("auto")
    await turn(host, engine)
    assert "ended while this ran" in host.results()[0].output
    told = await asyncio.wait_for(host.until(events.Notice), 10)
    assert told.text == (
        "the MCP server old has ended: it asks without reading the answers (exit status -15)"
    )
    await engine.aclose()


async def test_a_server_of_the_new_protocol_is_asked_to_tell_of_changes(
    host: RecorderHost, model: ScriptedModel
) -> None:
    async with serving("http") as (url, _):
        configure(host, McpServer(name="far", transport="http", url=url))
        model.script(Reply(calls=[("mcp__far__change", {})]))
        engine = host.engine("auto")
        await turn(host, engine)
        told = await asyncio.wait_for(host.until(events.Notice), 10)
        await engine.aclose()
    assert told.text == "the MCP server far has other tools now; a new session will have them"


async def test_an_opened_session_keeps_its_tools_and_starts_a_server_with_its_first_call(
    host: RecorderHost, model: ScriptedModel
) -> None:
    configure(host, server(host))
    engine = host.engine("auto")
    await turn(host, engine)
    await engine.aclose()
    first = model.requests[0]["tools"]
    for mark in host.root.glob("started-*"):
        mark.unlink()

    again = host.engine("auto", list(host.records))
    await turn(host, again, "t2")
    assert model.requests[1]["tools"] == first
    assert list(host.root.glob("started-*")) == []
    model.script(Reply(calls=[("mcp__srv__look", {})]))
    await turn(host, again, "t3")
    await again.aclose()
    assert host.results()[-1].output == "seen"
    assert sum(isinstance(one, ToolsOffered) for one in host.records) == 1


async def test_a_clients_server_is_gone_when_the_session_is_opened_again(
    host: RecorderHost, model: ScriptedModel
) -> None:
    # what a client says is taken as it stands
    host.client_servers = [replace(server(host), args=["-m", "tests.support.mcp_server", "${X}"])]
    engine = host.engine("auto")
    await turn(host, engine)
    await engine.aclose()
    host.client_servers = []
    again = host.engine("auto", list(host.records))
    model.script(Reply(calls=[("mcp__srv__look", {})]))
    await turn(host, again, "t2")
    await again.aclose()
    assert host.results()[-1].output == (
        "The MCP server srv cannot be used: it is not in the configuration of this session any more. "
        "Go on without it, or say what you need of it."
    )


async def test_a_session_that_began_without_servers_stays_without(
    host: RecorderHost, model: ScriptedModel
) -> None:
    engine = host.engine("auto")
    await turn(host, engine)
    await engine.aclose()
    configure(host, server(host))
    again = host.engine("auto", list(host.records))
    await turn(host, again, "t2")
    await again.aclose()
    assert names(model.requests[1]) == []
    assert list(host.root.glob("started-*")) == []


# ── of the project ──────────────────────────────────────────────────────────────────────────────


def project_file(host: RecorderHost, text: str | None = None) -> None:
    entry = {
        "command": f"${{PYTHON:-{sys.executable}}}",
        "args": ["-m", "tests.support.mcp_server"],
        "env": {"MARKS": str(host.root), "PYTHONPATH": str(REPOSITORY)},
        "trust_read_only": True,
    }
    said = {"mcpServers": {"ours": entry, "broken": {"command": 7}}}
    (host.root / ".mcp.json").write_text(json.dumps(said) if text is None else text)


async def test_the_servers_of_a_trusted_project_are_started(
    host: RecorderHost, model: ScriptedModel
) -> None:
    project_file(host)
    host.settings = replace(host.settings, trusted=[str(host.root)])
    engine = host.engine("plan")
    model.script(Reply(calls=[("mcp__ours__look", {})]))
    await turn(host, engine)
    await engine.aclose()
    assert "mcp__ours__look" in names(model.requests[0])
    # what the project says is to be trusted is not
    assert host.results()[0].output == "the plan mode allows no execute calls"
    assert notices(host) == ["broken of .mcp.json must be given command as a text; correct it"]


async def test_the_servers_of_a_project_that_is_not_trusted_are_not(
    host: RecorderHost, model: ScriptedModel
) -> None:
    project_file(host)
    engine = host.engine("auto")
    await turn(host, engine)
    await engine.aclose()
    assert names(model.requests[0]) == []
    assert ["is not trusted" in one for one in notices(host)] == [True]


@pytest.mark.parametrize(
    ("text", "says"), [("{", "is not JSON"), ("[]", "has no mcpServers"), ("é", "is not JSON")]
)
async def test_a_broken_file_of_the_project_is_told(
    host: RecorderHost, model: ScriptedModel, text: str, says: str
) -> None:
    project_file(host, text)
    host.settings = replace(host.settings, trusted=[str(host.root)])
    engine = host.engine("auto")
    await turn(host, engine)
    await engine.aclose()
    assert [says in one for one in notices(host)] == [True]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.symlink_to("/etc/hosts"), "leads out of the project"),
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: path.write_bytes(b'{"\xff"'), "is not UTF-8"),
    ],
)
async def test_a_file_of_the_project_that_is_no_such_file_is_told(
    host: RecorderHost, make: Callable[[Path], Any], says: str
) -> None:
    make(host.root / ".mcp.json")
    host.settings = replace(host.settings, trusted=[str(host.root)])
    engine = host.engine("auto")
    await turn(host, engine)
    await engine.aclose()
    assert [says in one for one in notices(host)] == [True], notices(host)


# ── permissions ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", ["manual", "edit"])
async def test_a_tool_is_asked_for_and_a_yes_for_the_session_covers_that_tool(
    host: RecorderHost, model: ScriptedModel, mode: Mode
) -> None:
    configure(host, server(host))
    look: tuple[str, dict[str, Any]] = ("mcp__srv__look", {})
    model.script(Reply(calls=[look]), Reply(calls=[look]), Reply(calls=[("mcp__srv__echo", {})]))
    host.decisions = [Decision(outcome="session"), Decision(outcome="deny")]
    engine = host.engine(mode)
    await turn(host, engine)
    await engine.aclose()
    start = await host.until(events.ToolStart)
    assert host.cards[0] == CardRequest(
        tool_call_id=start.toolCallId,
        name="mcp__srv__look",
        title="srv: look {}",
        kind="other",
        args={},
        reason=f"the {mode} mode asks before execute calls",
        always="every mcp__srv__look",
    )
    assert [one.name for one in host.cards] == ["mcp__srv__look", "mcp__srv__echo"]
    assert [one.output for one in host.results()] == [
        "seen",
        "seen",
        "The person denied this call",
    ]


async def test_a_servers_word_that_a_tool_only_reads_counts_where_the_person_says_so(
    host: RecorderHost, model: ScriptedModel
) -> None:
    configure(host, server(host, trust_read_only=True))
    model.script(Reply(calls=[("mcp__srv__look", {}), ("mcp__srv__echo", {})]))
    engine = host.engine("plan")
    await turn(host, engine)
    await engine.aclose()
    assert {one.output for one in host.results()} == {
        "the plan mode allows no execute calls",
        "seen",
    }


# ── processes and secrets ───────────────────────────────────────────────────────────────────────


async def test_a_server_has_a_tools_environment_and_its_own_variables(
    host: RecorderHost, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEMBAS_TOKEN", "hidden")
    monkeypatch.setenv("NOTIFY_SOCKET", "/hidden")
    result = await call(host, model, "environment")
    said = dict(line.split("=", 1) for line in (result.full or result.output).splitlines())
    assert (said["SECRET"], said["LEMBASD_SESSION"]) == ("s3cret", f"{host.session_id}:1")
    assert not {"LEMBAS_TOKEN", "NOTIFY_SOCKET"} & set(said)


async def test_a_server_is_started_as_from_the_persons_own_terminal(
    host: RecorderHost, model: ScriptedModel, short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = short_tmp / "home"
    (home / "bin").mkdir(parents=True)
    (home / ".profile").write_text('PATH="$HOME/bin:$PATH"; export FROM_PROFILE=yes\n')
    own = home / "bin" / "own-server"
    own.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    own.chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("LEMBAS_HOME", str(short_tmp))
    configure(host, replace(server(host), command="own-server"))
    model.script(Reply(calls=[("mcp__srv__environment", {})]))
    engine = host.engine("auto")
    await turn(host, engine)
    await engine.aclose()
    said = host.results()[-1]
    assert "FROM_PROFILE=yes" in (said.full or said.output).splitlines()


async def test_what_may_be_secret_is_neither_recorded_nor_told(
    host: RecorderHost, model: ScriptedModel
) -> None:
    configure(host, server(host), server(host, "dies", name="dead"))
    engine = host.engine("auto")
    await turn(host, engine)
    await engine.aclose()
    assert "s3cret" not in f"{host.records}{host.events}{model.requests}{host.settings!r}"


async def test_a_commands_end_leaves_servers_and_what_they_started_alone(
    host: RecorderHost, model: ScriptedModel
) -> None:
    configure(host, server(host))
    model.script(
        Reply(calls=[("mcp__srv__spawn", {})]),
        Reply(calls=[("bash", {"command": "sleep 600 & echo $!"})]),
        Reply(calls=[("mcp__srv__look", {})]),
    )
    engine = host.engine("auto")
    await turn(host, engine)
    spawned, commanded, looked = host.results()
    assert looked.output == "seen"
    assert psutil.pid_exists(int(spawned.output))
    assert not psutil.pid_exists(int(commanded.output.split()[0]))
    assert "1 processes it had left" in commanded.output
    await engine.aclose()
    assert not psutil.pid_exists(int(spawned.output))
    assert by_marker(host.session_id) == []


async def test_a_server_that_hears_nothing_is_killed_with_what_it_started(
    host: RecorderHost, model: ScriptedModel
) -> None:
    configure(host, server(host, "deaf"))
    model.script(Reply(calls=[("mcp__srv__spawn", {})]))
    engine = host.engine("auto")
    await turn(host, engine)
    pid = int(host.results()[0].output)
    begun = time.monotonic()
    await engine.aclose()
    assert time.monotonic() - begun < 5
    assert not psutil.pid_exists(pid)
    assert by_marker(host.session_id) == []


# ── names and schemas ───────────────────────────────────────────────────────────────────────────


async def test_odd_names_and_schemas_are_made_fit(host: RecorderHost, model: ScriptedModel) -> None:
    configure(host, server(host, "ugly"))
    model.script(Reply(calls=[("mcp__srv__odd", {"text": "x"})]))
    engine = host.engine("auto")
    await turn(host, engine)
    await engine.aclose()
    offered = {one["function"]["name"]: one["function"] for one in model.requests[0]["tools"]}
    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", name) for name in offered)
    assert len([name for name in offered if name.startswith("mcp__srv__a_b_")]) == 2
    odd = offered["mcp__srv__odd"]
    assert len(odd["description"]) == 1024
    assert "$" not in str(odd)
    assert odd["parameters"]["properties"]["maybe"] == {"type": "string"}
    assert host.results()[0].output == "odd: x"


# ── over HTTP ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_server_is_asked_over_http_with_its_headers(
    host: RecorderHost, model: ScriptedModel, transport: Literal["http", "sse"]
) -> None:
    async with serving(transport) as (url, _):
        configure(
            host,
            McpServer(name="far", transport=transport, url=url, headers={"X-Key": "s3cret"}),
        )
        model.script(Reply(calls=[("mcp__far__key", {})]))
        engine = host.engine("auto")
        await turn(host, engine)
        await engine.aclose()
    assert (notices(host), host.results()[0].output) == ([], "s3cret")


@pytest.mark.parametrize(("scope", "said"), [("ses_1", "{'scope': 'ses_1'}"), (None, "None")])
async def test_the_instances_own_server_is_told_for_which_of_its_chats_a_call_is_made(
    host: RecorderHost, model: ScriptedModel, scope: str | None, said: str
) -> None:
    async with serving("http") as (url, _):
        # a server that is the instance's, by its address, and answers for the model elsewhere
        assert is_instances(url, url.removesuffix("/mcp"))
        account = Account(base_url=url.removesuffix("/mcp"), token="t")
        host.scope = scope
        configure(host, McpServer(name="far", transport="http", url=url))
        servers = Servers(host, 1, Kept(), person)
        host.settings = replace(host.settings, account=account)
        servers.take(await servers.fix() or [])
        call = Call(id="c", server_id="s", name="mcp__far__scope", arguments="{}", args={})
        outcome = await servers.run(call, {}, lambda: None)
        await servers.aclose()
    assert outcome.output == said


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_server_over_http_that_hangs_does_not_hold_up_the_end(
    host: RecorderHost, model: ScriptedModel, transport: Literal["http", "sse"]
) -> None:
    async with serving(transport) as (url, process):
        configure(host, McpServer(name="far", transport=transport, url=url))
        engine = host.engine("auto")
        await turn(host, engine)
        process.send_signal(signal.SIGSTOP)
        await asyncio.wait_for(engine.aclose(), HTTP_END_S + 3)


async def test_a_server_that_refuses_is_told_with_its_status(
    host: RecorderHost, model: ScriptedModel
) -> None:
    async with serving("http") as (url, _):
        configure(host, McpServer(name="far", transport="http", url=f"{url}-not"))
        engine = host.engine("auto")
        await turn(host, engine)
        await engine.aclose()
    assert names(model.requests[0]) == []
    assert ["the MCP server far cannot be used" in one for one in notices(host)] == [True]


# ── a server of others' ─────────────────────────────────────────────────────────────────────────

#: `make mocks` puts it there
EVERYTHING = (
    REPOSITORY / ".mocks/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
)
NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None or not EVERYTHING.exists(), reason="`make mocks` needs npm")
async def test_the_server_that_does_everything_is_used(
    host: RecorderHost, model: ScriptedModel
) -> None:
    configure(host, McpServer(name="all", command=str(NODE), args=[str(EVERYTHING), "stdio"]))
    model.script(
        Reply(calls=[("mcp__all__echo", {"message": "hi"})]),
        Reply(calls=[("mcp__all__get-sum", {"a": 2, "b": 3})]),
        Reply(calls=[("mcp__all__get-tiny-image", {})]),
        Reply(calls=[("mcp__all__get-structured-content", {"location": "New York"})]),
        Reply(calls=[("mcp__all__echo", {"wrong": 1})]),
    )
    engine = host.engine("auto")
    await turn(host, engine)
    await engine.aclose()
    said = [one.output for one in host.results()]
    assert said[0] == "Echo: hi"
    assert "5" in said[1]
    assert "[image image/png, " in said[2]
    assert "temperature" in said[3]
    assert [one.is_error for one in host.results()] == [False, False, False, False, True]
    assert notices(host) == []
    assert by_marker(host.session_id) == []


async def test_a_worker_without_servers_never_loads_the_sdk() -> None:
    code = (
        "import sys, lembasd.worker.main, lembasd.worker.utility\n"
        "heavy = {'mcp', 'pydantic', 'httpx2', 'jsonschema', 'html_to_markdown'}\n"
        "sys.stdout.write(', '.join(sorted(heavy & set(sys.modules))))"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
    )
    loaded, _ = await process.communicate()
    assert (process.returncode, loaded) == (0, b"")
