"""`lembasd metrics` and `lembasd top`, and what watches them."""

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from tests.support.command_line import CommandLine, Done
from tests.support.played_hub import played_hub

_DOCS: Final = Path(__file__).parents[2] / "docs"
#: as the hub's own test has it, with this process in the place of each
PID: Final = os.getpid()
STATUS: dict[str, Any] = {
    "hub": {"pid": PID, "version": "0.1.0", "uptime_s": 61.5, "fds": 20, "max_fds": 1024},
    "config_problem": None,
    "alarms": [
        {"kind": "crash_loop", "channel": "worker", "text": "…"},
        {"kind": "crash_loop", "channel": "pty", "text": "…"},
    ],
    "counts": {
        "processes_started": 3,
        "processes_failed": 0,
        "processes_crashed": 1,
        "processes_adopted": 0,
        "link_ups": 2,
        "clients_joined": 5,
    },
    "link": {"state": "up", "server": "https://x.org", "reason": ""},
    "zygotes": [{"kind": "worker", "pid": PID, "ready": True, "spare": False}],
    "utility": [],
    "workers": [],
    "terminals": [],
    "clients": [
        {"client_id": 1, "kind": "local", "pid": 10, "queued_bytes": 5, "lagging": True},
        {"client_id": 2, "kind": "link", "pid": None, "queued_bytes": 2, "lagging": False},
    ],
}
_SLEEPER = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=sys.stdin)
print("ready", flush=True)
child.wait()
"""


@pytest.fixture
def run(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    return CommandLine(short_tmp / "h", monkeypatch, capsys)


@pytest.fixture
def status() -> Iterator[dict[str, Any]]:
    """A status with one session, whose processes are real: one with one below it."""
    child = subprocess.Popen(
        [sys.executable, "-c", _SLEEPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    session = {
        "session_id": "ses_1",
        "pid": child.pid,
        "state": "working",
        "queued": ["t2"],
        "cards": ["c1", "c2"],
        "title": "Tidy\x1b up",
        "root": "/p",
        "pss_bytes": 1 << 40,
    }
    yield {**STATUS, "workers": [session]}
    child.stdin.close()
    child.wait(20)
    child.stdout.close()


def values(text: str) -> dict[str, float]:
    """Each sample as it stands, with its labels. Reading it is a test of its form."""
    return {
        sample.name + "".join(f"[{value}]" for value in sample.labels.values()): float(sample.value)
        for family in text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
        for sample in family.samples
    }


# ── metrics ─────────────────────────────────────────────────────────────────────────────────────


def test_without_a_hub_metrics_say_so_and_exit_3(run: CommandLine) -> None:
    done = run.lembasd("metrics")
    assert (done.code, done.err) == (3, "")
    assert values(done.out) == {"lembasd_up": 0.0, "lembasd_log_bytes": 0.0}


async def test_metrics_are_what_the_hub_says(run: CommandLine, status: dict[str, Any]) -> None:
    async with played_hub(run.paths, status):
        done = await asyncio.to_thread(run.lembasd, "metrics")
    assert (done.code, done.err) == (0, "")
    found = values(done.out)
    assert found.pop("lembasd_state_free_bytes") > 0
    assert found.pop("lembasd_memory_bytes[hub]") > 0
    assert found.pop("lembasd_memory_bytes[zygote]") > 0
    assert found.pop("lembasd_memory_bytes[session]") > 1 << 40
    assert found == {
        "lembasd_up": 1.0,
        "lembasd_log_bytes": 0.0,
        "lembasd_build_info[0.1.0]": 1.0,
        "lembasd_uptime_seconds": 61.5,
        "lembasd_hub_open_fds": 20.0,
        "lembasd_hub_max_fds": 1024.0,
        "lembasd_settings_ok": 1.0,
        "lembasd_alarms[crash_loop]": 2.0,
        "lembasd_alarms[disk]": 0.0,
        "lembasd_alarms[descriptors]": 0.0,
        "lembasd_alarms[terminals]": 0.0,
        "lembasd_link_state[off]": 0.0,
        "lembasd_link_state[dialling]": 0.0,
        "lembasd_link_state[up]": 1.0,
        "lembasd_link_state[waiting]": 0.0,
        "lembasd_link_state[refused]": 0.0,
        "lembasd_helpers_ready[worker]": 1.0,
        "lembasd_helpers_ready[pty]": 0.0,
        "lembasd_processes_started_total": 3.0,
        "lembasd_processes_failed_total": 0.0,
        "lembasd_processes_crashed_total": 1.0,
        "lembasd_processes_adopted_total": 0.0,
        "lembasd_link_ups_total": 2.0,
        "lembasd_clients_joined_total": 5.0,
        "lembasd_sessions[idle]": 0.0,
        "lembasd_sessions[working]": 1.0,
        "lembasd_sessions[unresponsive]": 0.0,
        "lembasd_turns_queued": 1.0,
        "lembasd_cards_waiting": 2.0,
        "lembasd_terminals": 0.0,
        "lembasd_clients[local]": 1.0,
        "lembasd_clients[link]": 1.0,
        "lembasd_clients_lagging": 1.0,
        "lembasd_clients_queued_bytes": 7.0,
        "lembasd_processes[hub]": 1.0,
        "lembasd_processes[zygote]": 1.0,
        "lembasd_processes[session]": 2.0,
    }


async def test_the_dashboard_and_the_alerts_ask_for_what_is_there(
    run: CommandLine, status: dict[str, Any]
) -> None:
    async with played_hub(run.paths, status):
        done = await asyncio.to_thread(run.lembasd, "metrics")
    there = {name.partition("[")[0] for name in values(done.out)}
    dashboard = json.loads((_DOCS / "grafana-dashboard.json").read_text())
    rules = YAML(typ="safe").load((_DOCS / "prometheus-alerts.yml").read_text())
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]
    asked = {
        name
        for expression in [*shown, *(rule["expr"] for rule in alerts)]
        for name in re.findall(r"\blembasd_\w+", re.sub(r"\{[^}]*\}", "", expression))
    }
    assert asked <= there
    assert there - asked == {"lembasd_processes_started_total", "lembasd_clients_joined_total"}
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))
    assert all(rule["annotations"].keys() == {"summary", "description"} for rule in alerts)


# ── top ─────────────────────────────────────────────────────────────────────────────────────────


def test_without_a_hub_top_exits_3(run: CommandLine) -> None:
    assert run.lembasd("top") == Done(
        3, "", "lembasd is not running; start it with `lembasd run`\n"
    )


async def test_top_shows_each_session_with_all_it_started(
    run: CommandLine, status: dict[str, Any]
) -> None:
    async with played_hub(run.paths, status):
        value = (await asyncio.to_thread(run.lembasd, "top", "--json")).value
        done = await asyncio.to_thread(run.lembasd, "top", "--once")
    found = {one["kind"]: one for one in value["processes"]}
    assert list(found["session"]) == [
        "kind",
        "id",
        "pid",
        "state",
        "title",
        "processes",
        "cpu_percent",
        "memory_bytes",
    ]
    assert (found["session"]["id"], found["session"]["processes"]) == ("ses_1", 2)
    assert found["hub"]["processes"] == 1
    head, columns, *rows = done.out.splitlines()
    assert head.startswith("lembasd 0.1.0: 1 sessions, 0 terminals, link up; 4 processes, ")
    assert columns.split() == ["what", "id", "pid", "state", "procs", "cpu", "%", "memory", "title"]
    (row,) = [one for one in rows if one.startswith("session")]
    assert row.endswith("M  Tidy\\x1b up")
    assert "\x1b" not in done.out


_TOP = "import sys; from lembasd.cli.service import main; sys.exit(main())"


async def test_at_a_terminal_top_is_drawn_again_until_it_is_interrupted(
    run: CommandLine, status: dict[str, Any]
) -> None:
    ours, theirs = pty.openpty()
    async with played_hub(run.paths, status):
        child = await asyncio.to_thread(
            subprocess.Popen,
            [sys.executable, "-c", _TOP, "top", "--interval", "0.2"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        drawn = b""
        async with asyncio.timeout(30):
            while drawn.count(b"\x1b[H\x1b[J") < 2:
                drawn += await asyncio.to_thread(os.read, ours, 65536)
        child.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(child.wait, 20) == 130
    os.close(ours)
