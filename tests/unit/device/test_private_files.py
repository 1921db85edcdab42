"""Credentials and trust: private files, written whole."""

import os
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from lembasd.device import credentials, private_file, trust
from lembasd.device.credentials import Credentials
from lembasd.protocol.control import Account
from lembasd.protocol.errors import ConfigError

LOGIN = Credentials(
    server="https://lembas.example.org",
    token="t0ken",
    connection="example",
    instance_name="Example",
    default_model="qwen",
    scope="models link",
)


def test_a_login_comes_back_as_it_was_stored_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "credentials.json"
    credentials.store(path, LOGIN)
    assert (credentials.load(path), path.stat().st_mode & 0o777) == (LOGIN, 0o600)


def test_without_a_file_nobody_is_logged_in(tmp_path: Path) -> None:
    assert credentials.load(tmp_path / "credentials.json") is None
    assert credentials.remove(tmp_path / "credentials.json") is False


def test_logging_out_removes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "credentials.json"
    credentials.store(path, LOGIN)
    assert (credentials.remove(path), credentials.load(path)) == (True, None)


def test_two_who_log_in_write_one_after_the_other(tmp_path: Path) -> None:
    path, order = tmp_path / "new" / "credentials.json", []

    def second() -> None:
        with credentials.changing(path):
            order.append("second")

    with credentials.changing(path):
        other = threading.Thread(target=second)
        other.start()
        other.join(0.1)
        order.append("first")
    other.join(5)
    assert order == ["first", "second"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "credentials.json"
    credentials.store(path, LOGIN)
    path.chmod(mode)
    with pytest.raises(ConfigError, match="chmod 600"):
        credentials.load(path)


@pytest.mark.parametrize("content", [b"", b"{", b'{"token": "t0ken"}', b"\xff"])
def test_a_broken_file_says_log_in_again_and_nothing_of_its_content(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "credentials.json"
    private_file.write(path, content)
    with pytest.raises(ConfigError, match="log in again") as caught:
        credentials.load(path)
    assert ("t0ken" in str(caught.value), caught.value.__cause__) == (False, None)


@pytest.mark.parametrize("token", ["", "two words", "line\r\nX-Other: 1", "ünicode"])
def test_a_token_that_no_header_can_hold_is_not_used_and_not_quoted(
    tmp_path: Path, token: str
) -> None:
    file = tmp_path / "credentials.json"
    credentials.store(file, replace(LOGIN, token=token))
    with pytest.raises(ConfigError) as raised:
        credentials.load(file)
    assert str(raised.value) == f"{file}: holds no token; log in again with `lembas login`"


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "credentials.json", 0o600)
    with pytest.raises(ConfigError, match="is no file"):
        credentials.load(tmp_path / "credentials.json")


def test_a_login_never_prints_its_token() -> None:
    assert "t0ken" not in repr(LOGIN)
    assert LOGIN.account() == Account(
        base_url="https://lembas.example.org",
        token="t0ken",
        connection="example",
        instance_name="Example",
        default_model="qwen",
    )


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://Lembas.example.org/base", "https://lembas.example.org:443"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
    ],
)
def test_an_origin_has_one_form(url: str, origin: str) -> None:
    assert credentials.origin(url) == origin


def test_trust_is_added_and_taken_back(tmp_path: Path) -> None:
    path, project = tmp_path / "trust.json", tmp_path / "project"
    project.mkdir()
    assert trust.load(path) == []
    assert [trust.add(path, project), trust.add(path, project)] == [True, False]
    assert trust.load(path) == [str(project)]
    assert [trust.remove(path, project), trust.remove(path, project)] == [True, False]


def test_trust_holds_for_the_directory_behind_a_link(tmp_path: Path) -> None:
    path, project, link = tmp_path / "trust.json", tmp_path / "project", tmp_path / "link"
    project.mkdir()
    link.symlink_to(project)
    trust.add(path, link)
    assert trust.load(path) == [str(project)]


def test_a_broken_trust_file_trusts_nothing(tmp_path: Path) -> None:
    private_file.write(tmp_path / "trust.json", b"{}")
    with pytest.raises(ConfigError, match="trust your projects again"):
        trust.load(tmp_path / "trust.json")
