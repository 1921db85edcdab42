"""The list of models that the instance gave last."""

import stat
from pathlib import Path

import msgspec
import pytest

from lembasd.device.paths import Paths
from lembasd.protocol.control import Account
from lembasd.store import model_lists

NOW = 1_000_000.0
ACCOUNT = Account("http://127.0.0.1:1", "secret")
ANSWER = b'{"data": [{"id": "one"}, {"id": "other"}]}'


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths(config=tmp_path / "c", state=tmp_path / "s", run=tmp_path / "r")
    paths.make()
    return paths


def test_a_list_is_kept_for_a_minute_and_one_from_the_future_does_not_hold(paths: Paths) -> None:
    assert model_lists.kept(paths, ACCOUNT, NOW) is None
    model_lists.keep(paths, ACCOUNT, ANSWER, NOW)
    held = [model_lists.kept(paths, ACCOUNT, NOW + late) for late in (-1.0, 0.0, 59.0, 60.0)]
    assert held == [None, ANSWER, ANSWER, None]


def test_another_server_or_login_finds_none_and_its_own_takes_the_place(paths: Paths) -> None:
    others = [Account("http://127.0.0.1:2", "secret"), Account(ACCOUNT.base_url, "other")]
    model_lists.keep(paths, ACCOUNT, ANSWER, NOW)
    assert [model_lists.kept(paths, one, NOW) for one in others] == [None, None]
    assert model_lists.kept(paths, Account(f"{ACCOUNT.base_url}/", "secret"), NOW) == ANSWER
    model_lists.keep(paths, others[1], b"[]", NOW)
    assert model_lists.kept(paths, ACCOUNT, NOW) is None
    assert model_lists.kept(paths, others[1], NOW) == b"[]"


def test_the_file_is_the_persons_alone_and_tells_no_token(paths: Paths) -> None:
    model_lists.keep(paths, ACCOUNT, ANSWER, NOW)
    path = paths.state / "models.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(msgspec.json.decode(path.read_bytes())) == ["answer", "at", "login"]
    assert b"secret" not in path.read_bytes()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"login": 7}', b"\xff", b"[" * 100_000])
def test_a_file_that_is_none_costs_what_it_held(paths: Paths, content: bytes) -> None:
    (paths.state / "models.json").write_bytes(content)
    assert model_lists.kept(paths, ACCOUNT, NOW) is None
    model_lists.keep(paths, ACCOUNT, ANSWER, NOW)
    assert model_lists.kept(paths, ACCOUNT, NOW) == ANSWER
