"""Judging calls with real files: rules of config and project, grants, corrected commands, where links lead."""

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from lembasd.device.project_rules import FILE
from lembasd.engine.api import Decision
from lembasd.engine.native.judging import Denied, Judging, Unfit
from lembasd.protocol.control import Mode
from lembasd.protocol.events import Notice
from lembasd.protocol.permission import Rule
from lembasd.store.records import Call
from tests.support.recorder_host import RecorderHost


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RecorderHost:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    project = tmp_path.resolve() / "home" / "project"
    project.mkdir(parents=True)
    return RecorderHost(project, "http://127.0.0.1:9")


def call(name: str, **args: Any) -> Call:
    return Call(id="call_1", server_id="1", name=name, arguments="", args=args)


def bash(command: str) -> Call:
    return call("bash", command=command)


async def kind(judging: Judging, one: Call, mode: Mode = "manual") -> str:
    """What becomes of a call that nobody can be asked about."""
    found = await judging.judge(one, mode, anybody=False)
    if isinstance(found, Denied):
        return "ask" if found.reason.startswith("nobody can be asked") else "deny"
    return "unfit" if isinstance(found, Unfit) else "allow"


async def test_where_nobody_can_be_asked_nobody_is_and_the_reason_is_told(
    host: RecorderHost,
) -> None:
    judging = Judging(host)
    assert await judging.judge(bash("make"), "manual", anybody=False) == Denied(
        "nobody can be asked here, and the manual mode asks before execute calls", "mode"
    )
    assert host.cards == []
    assert await judging.judge(bash("ls"), "manual", anybody=False) == {"command": "ls"}


async def test_rules_of_the_config_count_from_the_next_call_on(host: RecorderHost) -> None:
    judging = Judging(host)
    assert await kind(judging, bash("make")) == "ask"
    rules = [Rule("allow", "bash", command=("make",)), Rule("deny", "read", path=".env")]
    host.settings = replace(host.settings, permission=rules)
    assert await kind(judging, bash("make")) == "allow"
    assert await kind(judging, bash("cat .env")) == "deny"
    assert await kind(judging, call("read", path=".env")) == "deny"
    assert await kind(judging, call("read", path="a")) == "allow"


async def test_rules_of_a_project_count_once_it_is_trusted(host: RecorderHost) -> None:
    file = host.root / FILE
    file.parent.mkdir()
    file.write_text("permission: [{allow: bash, command: make}]\n")
    judging = Judging(host)
    assert await kind(judging, bash("make")) == "ask"
    host.settings = replace(host.settings, trusted=[str(host.root)])
    assert await kind(judging, bash("make")) == "allow"
    file.write_text("permission: 1\n")
    assert await kind(judging, bash("make")) == "allow"
    assert await kind(judging, bash("make")) == "allow"
    notices = [one.text for one in host.events if isinstance(one, Notice)]
    assert notices == [f"{file}, line 1: permission must be a list of rules"]


async def test_no_tool_writes_the_rules_of_its_own_project(host: RecorderHost) -> None:
    judging = Judging(host)
    for one in (
        call("write", path=str(FILE), content="permission: [{allow: bash}]"),
        bash(f"echo a > {FILE}"),
        bash("mkdir -p .agent; cd .agent && tee config.yaml"),
        bash(f"cp x {FILE}"),
    ):
        assert await kind(judging, one, "auto") == "deny", one
    assert await kind(judging, call("read", path=str(FILE)), "auto") == "allow"


async def test_a_yes_for_the_session_covers_what_the_card_said(host: RecorderHost) -> None:
    judging = Judging(host)
    (host.root / "src").mkdir()
    host.decisions = [Decision(outcome="session")] * 2
    assert await judging.judge(bash("make a"), "manual") == {"command": "make a"}
    write = call("write", path="src/a", content="")
    assert await judging.judge(write, "manual") == write.args
    assert [one.always for one in host.cards] == ["make a *", f"write below {host.root}/src"]
    assert await kind(judging, bash("make a b")) == "allow"
    assert await kind(judging, bash("make b")) == "ask"
    assert await kind(judging, call("write", path="src/b/c", content="")) == "allow"
    assert await kind(judging, call("write", path="b", content="")) == "ask"
    assert await kind(judging, call("edit", path="src/a", content="")) == "ask"
    (host.root / "src" / "out").symlink_to(host.root.parent)
    assert await kind(judging, call("write", path="src/out/a", content="")) == "ask"


async def test_a_yes_for_the_session_that_was_not_offered_is_a_yes_for_once(
    host: RecorderHost,
) -> None:
    judging = Judging(host)
    host.decisions = [Decision(outcome="session")]
    assert await judging.judge(bash("rm -rf a"), "manual") == {"command": "rm -rf a"}
    assert host.cards[0].always is None
    assert await kind(judging, bash("rm -rf a")) == "ask"


async def test_a_corrected_command_is_the_persons_but_the_floor_holds(host: RecorderHost) -> None:
    judging = Judging(host)
    host.decisions = [
        Decision(outcome="once", command="make b"),
        Decision(outcome="once", command="rm -rf /"),
    ]
    assert await judging.judge(bash("make a"), "manual") == {"command": "make b"}
    assert await kind(judging, bash("make b")) == "ask"
    refused = await judging.judge(bash("make a"), "manual")
    assert isinstance(refused, Denied)
    assert refused.by == "floor"


@pytest.mark.parametrize(
    ("decision", "denied"),
    [
        (Decision(outcome="deny"), Denied("The person denied this call", "person")),
        (
            Decision(outcome="deny", feedback="not now"),
            Denied("The person denied this call: not now", "person"),
        ),
        (
            Decision(outcome="timeout"),
            Denied("Nobody answered in time, so this call was denied", "timeout"),
        ),
        (
            Decision(outcome="cancelled"),
            Denied("Cancelled by the person before it ran.", "person"),
        ),
    ],
)
async def test_a_no_is_told(host: RecorderHost, decision: Decision, denied: Denied) -> None:
    host.decisions = [decision]
    assert await Judging(host).judge(bash("make"), "manual") == denied


async def test_paths_lead_where_their_links_lead(host: RecorderHost) -> None:
    judging = Judging(host)
    home = host.root.parent
    secret = home / "state"
    secret.mkdir()
    host.protected = [secret]
    (host.root / "link").symlink_to(secret)
    (host.root / "up").symlink_to("..")
    (home / "real").mkdir()
    (home / "alias").symlink_to(secret)
    for line in ("cat link/a", "cat up/state/a", "cat < link/a", "cat ~/alias/a", "ls ~/state"):
        assert await kind(judging, bash(line), "auto") == "deny", line
    assert await kind(judging, bash("rm -rf up"), "auto") == "deny"
    assert await kind(judging, bash("cat up/real"), "manual") == "ask"
    assert await kind(judging, bash("cat up/project/a"), "manual") == "allow"


async def test_a_protected_path_that_is_a_link_itself_is_protected_where_it_leads(
    host: RecorderHost,
) -> None:
    home = host.root.parent
    (home / "dotfiles").mkdir()
    (home / "dotfiles" / "bashrc").write_text("")
    (home / ".bashrc").symlink_to("dotfiles/bashrc")
    judging = Judging(host)
    assert await kind(judging, bash("echo a >> ~/dotfiles/bashrc"), "auto") == "deny"
    assert await kind(judging, bash("echo a >> ~/.bashrc"), "auto") == "deny"
    assert await kind(judging, bash("echo a >> ~/dotfiles/vimrc"), "auto") == "allow"
    assert await kind(judging, call("write", path="~/.bashrc", content=""), "auto") == "deny"


async def test_a_path_that_leads_nowhere_is_told_as_an_error(host: RecorderHost) -> None:
    (host.root / "a").symlink_to("a")
    judging = Judging(host)
    found = await judging.judge(call("read", path="a"), "manual")
    assert isinstance(found, Unfit)
    found = await judging.judge(call("read", path="~nobody-of-that-name/a"), "manual")
    assert isinstance(found, Unfit)
    found = await judging.judge(call("web_fetch", url="ftp://a"), "manual")
    assert isinstance(found, Unfit)


async def test_a_page_of_the_web_is_asked_for_by_its_site(host: RecorderHost) -> None:
    judging = Judging(host)
    host.decisions = [Decision(outcome="session")]
    page = call("web_fetch", url="https://a.example/x")
    assert await judging.judge(page, "auto") == page.args
    assert host.cards[0].always == "every page of a.example"
    assert host.cards[0].kind == "fetch"
    assert await kind(judging, call("web_fetch", url="https://a.example/y"), "auto") == "allow"
    assert await kind(judging, call("web_fetch", url="https://b.example/"), "auto") == "ask"


async def test_a_command_that_names_the_service_by_its_variables_or_its_process_is_refused(
    host: RecorderHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LEMBAS_HOME", str(tmp_path))
    host.protected = [tmp_path / "config"]
    judging = Judging(host)
    for line in ("cat $LEMBAS_HOME/config/credentials.json", "kill -9 $PPID"):
        assert await kind(judging, bash(line), "auto") == "deny", line
    assert await kind(judging, bash(f"kill -9 {os.getppid()}"), "auto") == "deny"
    assert await kind(judging, bash("kill -9 99999999"), "auto") == "allow"


def linked(host: RecorderHost, tmp_path: Path) -> Path:
    """A directory outside that `docs` in the project leads to."""
    outside = tmp_path.resolve() / "outside"
    outside.mkdir()
    (host.root / "docs").symlink_to(outside)
    return outside


async def test_a_card_says_where_a_path_leads_that_is_not_where_it_says(
    host: RecorderHost, tmp_path: Path
) -> None:
    outside = linked(host, tmp_path)
    host.decisions = [Decision(outcome="deny"), Decision(outcome="deny")]
    judging = Judging(host)
    await judging.judge(call("write", path="docs/a", content="x"), "manual")
    await judging.judge(call("write", path="./b/../a", content="x"), "manual")
    assert [card.reason for card in host.cards] == [
        f"the manual mode asks before write calls; docs/a leads to {outside}/a",
        "the manual mode asks before write calls",
    ]
