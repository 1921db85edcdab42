"""Settings as they are now, and what a broken file does to them."""

import os
import resource
from pathlib import Path

from lembasd.device import credentials, trust
from lembasd.device.credentials import Credentials
from lembasd.device.paths import Paths
from lembasd.device.settings import SettingsSource
from lembasd.protocol.control import Remote, Settings


def make_paths(base: Path) -> Paths:
    paths = Paths(config=base / "config", state=base / "state", run=base / "run")
    paths.make()
    return paths


def test_without_files_all_is_default(tmp_path: Path) -> None:
    source = SettingsSource(make_paths(tmp_path))
    assert (source.current(), source.problem, source.logins) == (Settings(), None, 0)


def test_a_changed_file_is_taken_in_at_the_next_look(tmp_path: Path) -> None:
    paths = make_paths(tmp_path)
    source = SettingsSource(paths)
    source.current()
    paths.config_file.write_text("mode: edit\nremote: {enabled: true, roots: [/srv]}\n")
    assert source.current() == Settings(mode="edit", remote=Remote(enabled=True, roots=["/srv"]))
    login = Credentials(server="https://lembas.example.org", token="t")
    credentials.store(paths.credentials_file, login)
    trust.add(paths.trust_file, tmp_path)
    now = source.current()
    assert (now.account, now.trusted) == (login.account(), [str(tmp_path)])
    assert source.current() is now


def test_a_login_that_is_written_as_it_was_counts(tmp_path: Path) -> None:
    paths = make_paths(tmp_path)
    login = Credentials(server="https://lembas.example.org", token="t")
    source = SettingsSource(paths)
    counts = [source.logins]
    for _ in range(2):
        credentials.store(paths.credentials_file, login)
        source.current()
        counts.append(source.logins)
        source.current()
        counts.append(source.logins)
    assert counts == [0, 0, 0, 1, 1]


def test_trust_that_is_a_pipe_or_nested_without_end_is_a_problem_and_hangs_nothing(
    tmp_path: Path,
) -> None:
    paths = make_paths(tmp_path)
    source = SettingsSource(paths)
    paths.trust_file.write_text("[" * 1_000_000)
    paths.trust_file.chmod(0o600)
    assert (source.current().trusted, bool(source.problem)) == ([], True)
    paths.trust_file.unlink()
    os.mkfifo(paths.trust_file, 0o600)
    assert (source.current().trusted, source.problem) == (
        [],
        f"{paths.trust_file}: is no file; remove it",
    )


def test_a_broken_config_keeps_the_last_good_values_and_says_so(tmp_path: Path) -> None:
    paths = make_paths(tmp_path)
    paths.config_file.write_text("mode: edit\n")
    source = SettingsSource(paths)
    source.current()
    paths.config_file.write_text("mode: wild, wild\n")
    assert (source.current().mode, source.problem) == (
        "edit",
        f"{paths.config_file}, line 1: mode must be one of plan, manual, edit, auto",
    )
    paths.config_file.write_text("mode: plan\n")
    assert (source.current().mode, source.problem) == ("plan", None)


def test_a_login_that_others_can_read_is_not_used_even_from_memory(tmp_path: Path) -> None:
    paths = make_paths(tmp_path)
    credentials.store(paths.credentials_file, Credentials(server="https://x.example", token="t"))
    source = SettingsSource(paths)
    assert source.current().account is not None
    paths.credentials_file.chmod(0o644)
    assert source.current().account is None
    assert source.problem is not None
    assert "chmod 600" in source.problem


def test_nobody_is_logged_out_for_one_failure_to_read_the_login(tmp_path: Path) -> None:
    paths = make_paths(tmp_path)
    credentials.store(paths.credentials_file, Credentials(server="https://x.example", token="t"))
    source = SettingsSource(paths)
    account = source.current().account
    credentials.store(paths.credentials_file, Credentials(server="https://x.example", token="new"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        seen = source.current()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (seen.account, account is not None) == (account, True)
    assert "credentials.json: cannot be read now (Too many open files)" in (source.problem or "")
    # and it is tried again at the next look, though the file is as it was
    now = source.current().account
    assert now is not None
    assert (now.token, source.problem) == ("new", None)


def test_a_broken_trust_file_trusts_what_it_did(tmp_path: Path) -> None:
    paths = make_paths(tmp_path)
    trust.add(paths.trust_file, tmp_path)
    source = SettingsSource(paths)
    source.current()
    paths.trust_file.write_text("nonsense")
    assert (source.current().trusted, bool(source.problem)) == ([str(tmp_path)], True)


def test_a_token_is_used_for_no_server_but_its_own(tmp_path: Path) -> None:
    paths = make_paths(tmp_path)
    login = Credentials(server="https://lembas.example.org", token="t")
    credentials.store(paths.credentials_file, login)
    source = SettingsSource(paths)
    for server in ("https://lembas.example.org:443/", "lembas.example.org"):
        paths.config_file.write_text(f"server: {server}\n")
        assert source.current().account == login.account()
    for server in ("https://lembas.example.org:8443", "https://evil.example.org", "https://[::1"):
        paths.config_file.write_text(f"server: {server!r}\n".replace("'", '"'))
        assert source.current().account is None
        assert source.credentials is None
        assert source.problem == (
            f"config.yaml names {server}, the login is for https://lembas.example.org; "
            "log in there with `lembas login`, or correct `server`"
        )
