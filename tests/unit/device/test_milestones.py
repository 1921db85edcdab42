"""Milestones: told to a test that is behind, and taken as the place to stop by one process alone."""

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from lembasd.device import milestones

#: more than a datagram socket lets wait by default
MANY = 40


@pytest.fixture
def listener(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> socket.socket:
    monkeypatch.setenv(milestones.VARIABLE, str(short_tmp / "m"))
    one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.bind(str(short_tmp / "m"))
    one.settimeout(10)
    return one


def test_none_is_lost_while_the_test_reads_late(listener: socket.socket) -> None:
    def tell() -> None:
        for number in range(MANY):
            milestones.reached("there", number=number)

    telling = threading.Thread(target=tell)
    with listener:
        telling.start()
        telling.join(0.2)  # reads late: they wait, as many as may
        numbers = [msgspec.json.decode(listener.recv(65536))["number"] for _ in range(MANY)]
        telling.join(10)
    assert numbers == list(range(MANY))


def test_a_test_that_is_gone_is_not_waited_for(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener.close()
    milestones.reached("there")
    monkeypatch.delenv(milestones.VARIABLE)
    milestones.reached("there")


def test_who_is_to_stop_there_takes_the_file_away_before_it_is_told_of(
    listener: socket.socket, short_tmp: Path
) -> None:
    code = "from lembasd.device.milestones import reached; reached('there'); reached('there')"
    file = short_tmp / "freeze.there"
    file.touch()
    environment = {**os.environ, milestones.FREEZE: str(short_tmp / "freeze")}
    with listener, subprocess.Popen([sys.executable, "-c", code], env=environment) as process:
        try:
            listener.recv(65536)
            assert not file.exists()
            assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
            process.send_signal(signal.SIGCONT)
            listener.recv(65536)
            assert process.wait(10) == 0
        finally:
            process.kill()
