"""`lembasd install`, `uninstall`, and what else minds the service; with a `systemctl` that the test plays."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from lembasd.cli.service_managers.launchd import Launchd
from lembasd.device.lock import HubLock
from lembasd.protocol.errors import UsageError
from tests.support.command_line import CommandLine, Done

systemd_only = pytest.mark.skipif(sys.platform != "linux", reason="systemd is Linux'")

#: what is asked of it goes to `asked`; the files `active`, `refuses` and `lingers` say how it answers
_PLAYED = """#!/bin/sh
echo "$(basename "$0") $*" >> "{base}/asked"
case "$*" in
  *is-active*|*print*) test -e "{base}/active" ;;
  *show-environment*) test ! -e "{base}/refuses" ;;
  *enable*|*bootstrap*) touch "{base}/active" ;;
  *disable*|*bootout*|*stop*lembasd.service*) rm -f "{base}/active" ;;
  *Linger*) if test -e "{base}/lingers"; then echo yes; else echo no; fi ;;
  *fails*) echo "it is broken" >&2; exit 1 ;;
esac
"""


class Service:
    """A scratch home with played managers in front of the machine's own."""

    def __init__(self, base: Path, run: CommandLine) -> None:
        self.base = base
        self.run = run
        self.units = base / "home" / ".config" / "systemd" / "user"

    @property
    def asked(self) -> list[str]:
        """What was asked since the last look, without questions."""
        path = self.base / "asked"
        said = path.read_text().splitlines() if path.exists() else []
        path.write_text("")
        questions = ("is-active", "show-", "print")
        return [one for one in said if not any(word in one for word in questions)]

    def say(self, name: str, *, so: bool = True) -> None:
        (self.base / name).touch() if so else (self.base / name).unlink()


@pytest.fixture
def service(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Service]:
    programs = short_tmp / "bin"
    programs.mkdir()
    for name in ("systemctl", "loginctl", "launchctl"):
        (programs / name).write_text(_PLAYED.format(base=short_tmp))
        (programs / name).chmod(0o755)
    (programs / "lembasd").write_text("#!/bin/sh\n")
    (programs / "lembasd").chmod(0o755)
    (short_tmp / "home").mkdir()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(short_tmp / "home"))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "NOTIFY_SOCKET", "SYSTEMD_EXEC_PID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_tmp))
    yield Service(short_tmp, CommandLine(short_tmp / "h", monkeypatch, capsys))
    structlog.reset_defaults()


def listing(directory: Path) -> list[str]:
    return sorted(one.name for one in directory.iterdir())


# ── systemd ─────────────────────────────────────────────────────────────────────────────────────


@systemd_only
def test_install_writes_both_units_starts_them_and_explains_lingering(service: Service) -> None:
    assert service.run.lembasd("install") == Done(
        0,
        f"{service.units}/lembasd.service is written\n"
        f"{service.units}/lembasd.socket is written\n"
        "it ends when you log out; run `loginctl enable-linger` once to have it run always, "
        "from the start of the machine\n"
        "lembasd is a service of systemd now; `lembasd doctor` checks it\n",
        "",
    )
    assert service.asked == [
        "systemctl --user daemon-reload",
        "systemctl --user enable --now lembasd.socket lembasd.service",
    ]
    assert listing(service.units) == ["lembasd.service", "lembasd.socket"]
    unit = (service.units / "lembasd.service").read_text()
    assert f'ExecStart="{service.base}/bin/lembasd" run\n' in unit
    assert f'Environment="LEMBAS_HOME={service.base}/h"\n' in unit
    assert "ListenStream=%t/h/run/hub.sock\n" in (service.units / "lembasd.socket").read_text()


@systemd_only
def test_installed_again_it_says_what_is_up_to_date_and_how_to_use_what_is_new(
    service: Service,
) -> None:
    service.say("lingers")
    service.run.lembasd("install")
    (service.units / "lembasd.service").write_text("old")
    assert service.run.lembasd("install").out.splitlines() == [
        f"{service.units}/lembasd.service is written",
        f"{service.units}/lembasd.socket is up to date",
        "it runs already; `systemctl --user restart lembasd` has it use what was written, sessions go on",
        "lembasd is a service of systemd now; `lembasd doctor` checks it",
    ]


@systemd_only
def test_what_would_be_written_can_be_looked_at(service: Service) -> None:
    done = service.run.lembasd("install", "--print")
    assert (done.code, f"# {service.units}/lembasd.socket\n" in done.out) == (0, True)
    assert (service.asked, service.units.exists()) == ([], False)


@systemd_only
def test_uninstall_stops_and_removes_what_install_wrote(service: Service) -> None:
    service.run.lembasd("install")
    assert service.asked
    assert service.run.lembasd("uninstall") == Done(
        0,
        f"{service.units}/lembasd.service is removed\n"
        f"{service.units}/lembasd.socket is removed\n"
        "lembasd is no service of systemd any more\n",
        "",
    )
    assert service.asked == [
        "systemctl --user disable --now lembasd.socket lembasd.service",
        "systemctl --user daemon-reload",
    ]
    assert listing(service.units) == []
    assert service.run.lembasd("uninstall") == Done(0, "it was none\n", "")
    assert service.asked == []


@systemd_only
def test_a_hub_that_runs_by_itself_is_ended_first(service: Service) -> None:
    service.run.paths.make()
    lock = HubLock.acquire(service.run.paths)
    done = service.run.lembasd("install")
    lock.release()
    assert (done.code, service.units.exists(), service.asked) == (1, False, [])
    assert f"a hub runs already (pid {os.getpid()}), which is not the service's" in done.err


@systemd_only
def test_a_manager_that_cannot_be_reached_is_explained(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.say("refuses")
    done = service.run.lembasd("install")
    assert (done.code, service.units.exists()) == (1, False)
    assert "cannot be reached; log in to this machine as yourself" in done.err
    (service.base / "bin" / "systemctl").unlink()
    monkeypatch.setenv("PATH", str(service.base / "bin"))
    assert "there is no `systemctl` here" in service.run.lembasd("install").err


@systemd_only
def test_the_service_of_another_installation_is_left_alone(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.run.lembasd("install")
    assert service.asked
    monkeypatch.setenv("LEMBAS_HOME", str(service.base / "other"))
    done = service.run.lembasd("install")
    assert (
        done.code,
        "is there for another installation, which listens at %t/h/run" in done.err,
    ) == (
        1,
        True,
    )
    assert service.run.lembasd("uninstall").out == "it was none\n"
    assert service.run.lembasd("stop").code == 3
    assert service.asked == []


@systemd_only
def test_stop_marks_the_stop_then_stops_the_socket_then_the_service(service: Service) -> None:
    service.run.lembasd("install")
    assert service.asked
    service.run.paths.make()
    assert service.run.lembasd("stop") == Done(
        0,
        "lembasd has stopped; start it with `systemctl --user start lembasd.socket lembasd`\n",
        "",
    )
    assert service.asked == [
        "systemctl --user stop lembasd.socket",
        "systemctl --user stop lembasd.service",
    ]
    assert not service.run.paths.stopping.exists()
    assert service.run.lembasd("stop").code == 3


@systemd_only
def test_a_hub_is_not_run_beside_the_service(service: Service) -> None:
    service.run.lembasd("install")
    assert service.run.lembasd("run") == Done(
        1,
        "",
        "lembasd is a service of systemd, which runs its hub or listens for it; "
        "use that one, or run `lembasd stop` first\n",
    )


@systemd_only
def test_the_doctor_looks_at_the_service(service: Service) -> None:
    def said() -> list[tuple[str, str, str]]:
        found = service.run.lembasd("doctor", "--json").value["findings"]
        names = ("service", "lingering")
        return [(one["name"], one["state"], one["text"]) for one in found if one["name"] in names]

    assert said() == [("service", "ok", "not installed in systemd; `lembasd install` does it")]
    service.run.lembasd("install")
    running, lingering = said()
    assert running == ("service", "ok", "systemd runs it")
    assert lingering[:2] == ("lingering", "warn")
    service.say("lingers")
    service.say("active", so=False)
    ((_name, state, text),) = said()
    assert (state, text.startswith("stopped; start it with `systemctl")) == ("warn", True)
    (service.units / "lembasd.service").write_text("old")
    ((_name, state, text),) = said()
    assert (state, "is not as this build writes it; run `lembasd install`" in text) == (
        "warn",
        True,
    )


@systemd_only
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_has_nothing_to_say_against_the_units(service: Service) -> None:
    service.run.lembasd("install")
    (service.base / "systemd").mkdir()
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", "lembasd.service", "lembasd.socket"],
        cwd=service.units,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    # it returns 0 for keys that it does not know
    assert (done.stderr, done.returncode) == ("", 0)


# ── launchd ─────────────────────────────────────────────────────────────────────────────────────


def test_launchd_is_given_the_agent_and_takes_it_back(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Launchd(service.run.paths)
    path = service.base / "home" / "Library" / "LaunchAgents" / "org.lembas.lembasd.plist"
    monkeypatch.setattr("sys.argv", ["lembasd", "install"])
    domain = f"gui/{os.getuid()}"
    assert agent.install() == [
        f"{path} is written",
        "it runs while you are logged in at the screen of this Mac",
    ]
    assert service.asked == [f"launchctl bootstrap {domain} {path}"]
    assert (agent.is_installed(), agent.is_active()) == (True, True)
    assert agent.install()[0] == f"{path} is up to date"
    assert service.asked == [
        f"launchctl bootout {domain}/org.lembas.lembasd",
        f"launchctl bootstrap {domain} {path}",
    ]
    monkeypatch.setenv("LEMBAS_HOME", "/another")
    with pytest.raises(UsageError, match="is there for another installation"):
        agent.install()
    assert agent.uninstall() == []
    monkeypatch.setenv("LEMBAS_HOME", str(service.base / "h"))
    assert agent.uninstall() == [f"{path} is removed"]
    assert service.asked == [f"launchctl bootout {domain}/org.lembas.lembasd"]
    assert not agent.is_installed()
