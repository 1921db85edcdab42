"""Paths, locks, environments, the log, and how a process learns who runs it."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from lembasd.device import environment, runtime
from lembasd.device.lock import HubLock, Membership, all_gone, hub_pid
from lembasd.device.log_file import FILE_NAME
from lembasd.device.paths import MAX_SOCKET_PATH_BYTES, Paths, find_paths
from lembasd.protocol.errors import UsageError


@pytest.fixture
def paths(short_tmp: Path) -> Paths:
    made = Paths(config=short_tmp / "c", state=short_tmp / "s", run=short_tmp / "r")
    made.make()
    return made


def test_lembas_home_holds_everything(monkeypatch: pytest.MonkeyPatch, short_tmp: Path) -> None:
    monkeypatch.setenv("LEMBAS_HOME", str(short_tmp))
    assert find_paths() == Paths(
        config=short_tmp / "config", state=short_tmp / "state", run=short_tmp / "run"
    )


def test_the_xdg_variables_are_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEMBAS_HOME", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/x/c")
    monkeypatch.setenv("XDG_STATE_HOME", "/x/s")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/x/r")
    expected = Paths(config=Path("/x/c/lembas"), state=Path("/x/s/lembas"), run=Path("/x/r/lembas"))
    assert find_paths() == expected
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert find_paths().run == Path("/x/s/lembas/run")


def test_a_socket_path_that_is_too_long_falls_back_to_a_short_one_that_all_find(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LEMBAS_HOME", str(tmp_path / ("long" * 30)))
    found = find_paths()
    assert len(os.fsencode(found.socket)) <= MAX_SOCKET_PATH_BYTES
    assert (found, found.state) == (find_paths(), tmp_path / ("long" * 30) / "state")


def test_directories_are_the_persons_alone(paths: Paths) -> None:
    assert {one.stat().st_mode & 0o777 for one in (paths.config, paths.run, paths.sessions)} == {
        0o700
    }


def test_a_run_directory_that_is_a_link_is_refused(short_tmp: Path) -> None:
    (short_tmp / "r").symlink_to(short_tmp)
    with pytest.raises(PermissionError, match="remove it"):
        Paths(config=short_tmp / "c", state=short_tmp / "s", run=short_tmp / "r").make()


def test_there_is_one_hub(paths: Paths) -> None:
    assert hub_pid(paths) is None
    lock = HubLock.acquire(paths)
    assert hub_pid(paths) == os.getpid()
    with pytest.raises(UsageError, match=rf"a hub runs already \(pid {os.getpid()}\)"):
        HubLock.acquire(paths)
    lock.release()
    assert hub_pid(paths) is None
    HubLock.acquire(paths).release()


def test_locks_that_were_left_open_are_taken_over_and_closed_to_others(paths: Paths) -> None:
    lock, member = HubLock.acquire(paths), Membership.join(paths)
    for one in (lock, member):
        os.set_inheritable(one.handle, True)
    taken, share = (
        HubLock.take_over(paths, lock.handle),
        Membership.take_over(paths, member.handle),
    )
    assert (os.get_inheritable(taken.handle), os.get_inheritable(share.handle)) == (False, False)
    assert (hub_pid(paths), all_gone(paths)) == (os.getpid(), False)
    with pytest.raises(OSError, match="is not of"):
        HubLock.take_over(paths, share.handle)
    with pytest.raises(OSError, match="is not of"):
        Membership.take_over(paths, taken.handle)
    taken.release()
    share.leave()
    assert (hub_pid(paths), all_gone(paths)) == (None, True)


def test_all_are_gone_when_the_last_member_has_left(paths: Paths) -> None:
    assert all_gone(paths)
    one, other = Membership.join(paths), Membership.join(paths)
    one.leave()
    assert not all_gone(paths)
    other.leave()
    assert all_gone(paths)


def test_a_program_that_is_started_does_not_keep_the_locks(paths: Paths) -> None:
    lock, member = HubLock.acquire(paths), Membership.join(paths)
    child = subprocess.Popen(["sleep", "60"], close_fds=False)
    lock.release()
    member.leave()
    assert (hub_pid(paths), all_gone(paths)) == (None, True)
    child.kill()
    child.wait()


def test_tools_get_the_persons_environment_and_the_marker() -> None:
    given = {
        "PATH": "/bin",
        "LANG": "C.UTF-8",
        "LEMBAS_HOME": "/x",
        "LEMBASD_PORTABLE": "1",
        "NOTIFY_SOCKET": "/run/n",
        "LISTEN_FDS": "1",
        "WATCHDOG_USEC": "1",
        "SYSTEMD_EXEC_PID": "1",
    }
    assert environment.for_tools(given, "ses_x", 7) == {
        "PATH": "/bin",
        "LANG": "C.UTF-8",
        "LEMBAS_HOME": "/x",
        "LEMBASD_SESSION": "ses_x:7",
        "TERM": "dumb",
        "GIT_TERMINAL_PROMPT": "0",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
    }
    assert environment.for_shell(given) == {
        "PATH": "/bin",
        "LANG": "C.UTF-8",
        "LEMBAS_HOME": "/x",
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
    }


@pytest.mark.parametrize(
    ("name", "value", "managed"),
    [
        ("SYSTEMD_EXEC_PID", "ours", True),
        ("SYSTEMD_EXEC_PID", "1", False),
        ("NOTIFY_SOCKET", "/run/n", True),
        ("XPC_SERVICE_NAME", "org.lembas.lembasd", True),
        ("XPC_SERVICE_NAME", "com.apple.Terminal", False),
        ("NOTHING", "", False),
    ],
)
def test_a_service_manager_is_recognised(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, *, managed: bool
) -> None:
    for one in ("SYSTEMD_EXEC_PID", "NOTIFY_SOCKET", "XPC_SERVICE_NAME"):
        monkeypatch.delenv(one, raising=False)
    monkeypatch.setenv(name, str(os.getpid()) if value == "ours" else value)
    assert runtime.under_service_manager() is managed


_LOG = """
import sys
from pathlib import Path
from lembasd.device import logging
from lembasd.device.paths import Paths
base = Path(sys.argv[1])
paths = Paths(config=base / "c", state=base / "s", run=base / "r")
logging.configure("hub", paths, level=sys.argv[2], console=sys.argv[3] == "console")
log = logging.logger()
log.debug("hidden_thing", session_id="ses_1")
log.info("hub_listens", path=base / "x", duration_ms=3)
log.warning("odd_name", name="\\udcff\\n")
"""


def test_a_log_line_is_one_json_object_with_its_keys(paths: Paths) -> None:
    base = paths.state.parent
    subprocess.run([sys.executable, "-c", _LOG, str(base), "info", "json"], check=True)
    path = paths.log / FILE_NAME
    lines = [
        msgspec.json.decode(line, type=dict[str, object]) for line in path.read_bytes().splitlines()
    ]
    assert [sorted(line) for line in lines] == [
        ["component", "duration_ms", "event", "level", "path", "pid", "timestamp"],
        ["component", "event", "level", "name", "pid", "timestamp"],
    ]
    assert (lines[0]["event"], lines[0]["level"], lines[0]["component"]) == (
        "hub_listens",
        "info",
        "hub",
    )
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_person_at_a_terminal_gets_a_readable_line(paths: Paths) -> None:
    base = paths.state.parent
    done = subprocess.run(
        [sys.executable, "-c", _LOG, str(base), "info", "console"], check=True, capture_output=True
    )
    assert b"info    hub_listens  component=hub" in done.stderr


_BROKEN = """
import sys
from pathlib import Path
from lembasd.device import logging
from lembasd.device.paths import Paths
base = Path(sys.argv[1])
logging.configure("hub", Paths(config=base / "c", state=base / "s", run=base / "r"))
try:
    raise ValueError("odd")
except ValueError:
    logging.logger().exception("thing_broke")
logging.logger().error("thing_ended", error="why", exc_info=False)
"""


def test_a_bugs_traceback_is_in_its_line(paths: Paths) -> None:
    subprocess.run([sys.executable, "-c", _BROKEN, str(paths.state.parent)], check=True)
    lines = (paths.log / FILE_NAME).read_bytes().splitlines()
    broke, ended = (msgspec.json.decode(line, type=dict[str, object]) for line in lines)
    assert str(broke["error"]).startswith("Traceback")
    assert str(broke["error"]).endswith("ValueError: odd")
    assert (ended["event"], ended["error"]) == ("thing_ended", "why")


_SECRETIVE = """
import sys
from pathlib import Path
from lembasd.device import logging
from lembasd.device.paths import Paths
base = Path(sys.argv[1])
paths = Paths(config=base / "c", state=base / "s", run=base / "r")
logging.configure("hub", paths, console=True)
logging.hide("tok'en")
log = logging.logger()
log.warning("odd_answer", error="I know tok'en, and Bearer abcdefghij", count=3)
log.warning("long_answer", error="x" * 100_000, count=3)
for number in range(40):
    log.warning("loop_fails", session_id="ses_1")
    log.warning("loop_fails", session_id="ses_2") if number < 2 else None
"""


def _written(paths: Paths) -> list[dict[str, object]]:
    raw = (paths.log / FILE_NAME).read_bytes()
    return [msgspec.json.decode(line, type=dict[str, object]) for line in raw.splitlines()]


def test_secrets_are_hidden_long_texts_cut_and_repeats_left_out(paths: Paths) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SECRETIVE, str(paths.state.parent)], check=True, capture_output=True
    )
    first, second, *repeats = _written(paths)
    assert first["error"] == "I know [hidden], and Bearer [hidden]"
    assert (second["error"], second["count"]) == ("x" * 1000 + "…", 3)
    assert [one["session_id"] for one in repeats].count("ses_1") == 30
    assert [one["session_id"] for one in repeats].count("ses_2") == 2
    assert repeats[-1]["muted_s"] == 60
    assert b"tok'en" not in done.stderr
    assert b"abcdefghij" not in done.stderr


_TURNED = """
import sys
from pathlib import Path
from lembasd.device import logging
from lembasd.device.paths import Paths
base = Path(sys.argv[1])
paths = Paths(config=base / "c", state=base / "s", run=base / "r")
logging.configure("hub", paths, level="warning")
log = logging.logger().bind(session_id="ses_1")
log.info("not_said")
logging.set_level("debug")
log.debug("said_now")
logging.set_level("error")
log.warning("not_said")
"""


def test_the_level_of_a_logger_that_is_there_can_be_changed(paths: Paths) -> None:
    subprocess.run([sys.executable, "-c", _TURNED, str(paths.state.parent)], check=True)
    assert [(one["level"], one["event"]) for one in _written(paths)] == [("debug", "said_now")]


@pytest.mark.parametrize(("told", "is_journal"), [("ours", True), ("8:1234", False), (None, False)])
def test_the_journal_is_recognised_by_what_stderr_is(
    monkeypatch: pytest.MonkeyPatch, told: str | None, *, is_journal: bool
) -> None:
    about = os.fstat(2)
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    if told is not None:
        value = f"{about.st_dev}:{about.st_ino}" if told == "ours" else told
        monkeypatch.setenv("JOURNAL_STREAM", value)
    assert runtime.stderr_is_journal() is is_journal
