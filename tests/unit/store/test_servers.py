"""What servers of models have refused, kept for other sessions."""

from pathlib import Path

import pytest

from lembasd.device.paths import Paths
from lembasd.store import images, servers
from lembasd.store.records import Image

NOW = 1_000_000.0
SERVER, MODEL = "http://127.0.0.1:1", "m"


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths(config=tmp_path / "c", state=tmp_path / "s", run=tmp_path / "r")
    paths.make()
    return paths


def test_facts_are_kept_by_server_and_model(paths: Paths) -> None:
    assert servers.known(paths, SERVER, MODEL, NOW) == []
    servers.remember(paths, SERVER, MODEL, ["no_effort"], NOW)
    servers.remember(paths, SERVER, "other", ["no_system"], NOW)
    servers.remember(paths, f"{SERVER}/", MODEL, ["no_images"], NOW)
    assert servers.known(paths, SERVER, MODEL, NOW) == ["no_effort", "no_images"]
    assert servers.known(paths, SERVER, "other", NOW) == ["no_system"]


def test_a_fact_is_forgotten_after_its_time_and_one_from_the_future_does_not_hold(
    paths: Paths,
) -> None:
    servers.remember(paths, SERVER, MODEL, ["no_effort"], NOW)
    assert servers.known(paths, SERVER, MODEL, NOW + servers.KEPT_S - 1) == ["no_effort"]
    assert servers.known(paths, SERVER, MODEL, NOW + servers.KEPT_S) == []
    assert servers.known(paths, SERVER, MODEL, NOW - 3600.0) == []


def test_the_oldest_servers_are_forgotten_first(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "MAX_ENTRIES", 2)
    for number in range(3):
        servers.remember(paths, SERVER, f"m{number}", ["no_effort"], NOW + number)
    kept = [servers.known(paths, SERVER, f"m{number}", NOW + 3) for number in range(3)]
    assert kept == [[], ["no_effort"], ["no_effort"]]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"x": 7}', b"\xff"])
def test_a_file_that_is_none_costs_what_it_knew(paths: Paths, content: bytes) -> None:
    (paths.state / "servers.json").write_bytes(content)
    assert servers.known(paths, SERVER, MODEL, NOW) == []
    servers.remember(paths, SERVER, MODEL, ["no_effort"], NOW)
    assert servers.known(paths, SERVER, MODEL, NOW) == ["no_effort"]


def test_an_image_is_kept_once_by_its_content(paths: Paths) -> None:
    first = images.keep(paths, "ses_1", "image/png", b"one")
    assert images.keep(paths, "ses_1", "image/png", b"one") == first
    other = images.keep(paths, "ses_1", "image/png", b"two")
    assert [images.load(paths, "ses_1", one.name) for one in (first, other)] == [b"one", b"two"]
    assert images.load(paths, "ses_1", "gone") is None
    assert first == Image("image/png", first.name)
