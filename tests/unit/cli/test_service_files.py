"""The files of service managers, filled in."""

import plistlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from lembasd.cli.core.service_files import (
    CannotBeWritten,
    launchd_agent,
    systemd_service,
    systemd_socket,
)

ROOT = Path(__file__).parents[3]
SERVICE = (ROOT / "systemd" / "lembasd.service").read_text(encoding="utf-8")
SOCKET = (ROOT / "systemd" / "lembasd.socket").read_text(encoding="utf-8")
AGENT = (ROOT / "launchd" / "org.lembas.lembasd.plist").read_text(encoding="utf-8")


def lines(unit: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in unit.splitlines() if line[:1].isalpha())
    return {name: value for name, _equals, value in pairs}


def test_the_service_unit_says_what_lets_sessions_outlive_it() -> None:
    assert lines(systemd_service(SERVICE, "/opt/bin/lembasd", {})) == {
        "Description": "lembasd: coding agents on this computer",
        "StartLimitIntervalSec": "0",
        "After": "lembasd.socket",
        "Type": "notify",
        "ExecStart": '"/opt/bin/lembasd" run',
        "ExecReload": '"/opt/bin/lembasd" reload',
        "Restart": "on-failure",
        "RestartSec": "100ms",
        "WatchdogSec": "60",
        "TimeoutStartSec": "60",
        "TimeoutStopSec": "30",
        "KillMode": "process",
        "OOMPolicy": "continue",
        "Delegate": "yes",
        "WantedBy": "default.target",
        "Also": "lembasd.socket",
    }


def test_words_of_a_unit_are_quoted_so_that_nothing_in_them_is_expanded() -> None:
    unit = lines(systemd_service(SERVICE, '/a b/100%/"x"\\/lembasd', {"LEMBAS_HOME": "/h %u"}))
    assert unit["ExecStart"] == '"/a b/100%%/\\"x\\"\\\\/lembasd" run'
    assert unit["ExecReload"] == unit["ExecStart"].removesuffix("run") + "reload"
    assert unit["Environment"] == '"LEMBAS_HOME=/h %%u"'


def test_the_socket_unit_names_the_runtime_directory_as_systemd_does() -> None:
    run = "/run/user/7"
    assert lines(systemd_socket(SOCKET, f"{run}/lembas/hub.sock", run)) == {
        "Description": "lembasd: the socket of its hub",
        "ListenStream": "%t/lembas/hub.sock",
        "SocketMode": "0600",
        "DirectoryMode": "0700",
        "Backlog": "4096",
        "WantedBy": "sockets.target",
    }
    for runtime in (None, "/run/user/8"):
        unit = lines(systemd_socket(SOCKET, "/run/user/7/5%/hub.sock", runtime))
        assert unit["ListenStream"] == "/run/user/7/5%%/hub.sock"


def test_the_agent_of_launchd_is_started_again_when_it_fails_and_leaves_its_children() -> None:
    text = launchd_agent(AGENT, "/a & b/lembasd", "/l<og>", {"LEMBAS_HOME": "/h", "X": "&"})
    assert plistlib.loads(text.encode()) == {
        "Label": "org.lembas.lembasd",
        "ProgramArguments": ["/a & b/lembasd", "run"],
        "EnvironmentVariables": {"LEMBAS_HOME": "/h", "X": "&"},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "AbandonProcessGroup": True,
        "ProcessType": "Interactive",
        "StandardOutPath": "/l<og>/launchd.log",
        "StandardErrorPath": "/l<og>/launchd.log",
    }
    plain = plistlib.loads(launchd_agent(AGENT, "/lembasd", "/log", {}).encode())
    assert plain["EnvironmentVariables"] == {}


@pytest.mark.parametrize(
    "make",
    [
        partial(systemd_service, SERVICE, "/a\nb", {}),
        partial(systemd_service, SERVICE, "/a", {"LEMBAS_HOME": "/b\n"}),
        partial(systemd_socket, SOCKET, "/a\nb", None),
        partial(launchd_agent, AGENT, "/a", "/log", {"LEMBAS_HOME": "\x01"}),
    ],
)
def test_what_no_file_can_hold_is_refused(make: Callable[[], str]) -> None:
    with pytest.raises(CannotBeWritten):
        make()
