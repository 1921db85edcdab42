"""Ids, modes, version ranges, and what must never be printed."""

import msgspec
import pytest

from lembasd.protocol import ids
from lembasd.protocol.acp import InitializeParams, lowered, read_mode
from lembasd.protocol.control import Account, Mode
from lembasd.protocol.errors import ConfigError
from lembasd.protocol.hello import PROTOCOL, Hello, common_protocol


def test_ids_have_their_shapes() -> None:
    session = ids.session_id(bytes(range(17)))
    terminal = ids.terminal_id(bytes(range(8)))
    assert (ids.is_session_id(session), ids.is_terminal_id(terminal)) == (True, True)


@pytest.mark.parametrize("text", ["", "ses_", "ses_../../../../etc/passwd_____", "SES_" + "a" * 26])
def test_what_could_leave_its_directory_is_no_session_id(text: str) -> None:
    assert not ids.is_session_id(text)


def test_a_card_id_names_its_session() -> None:
    session = ids.session_id(b"\x07" * 17)
    assert ids.session_of_card(ids.card_id(session, 12, 3)) == session
    assert ids.session_of_card("17") == ""


@pytest.mark.parametrize(
    ("mode", "ceiling", "result"),
    [
        ("auto", "edit", "edit"),
        ("plan", "auto", "plan"),
        ("edit", "edit", "edit"),
        ("manual", "plan", "plan"),
    ],
)
def test_a_mode_is_lowered_to_the_ceiling(mode: Mode, ceiling: Mode, result: Mode) -> None:
    assert lowered(mode, ceiling) == result


def test_unrestricted_is_read_as_auto_and_nonsense_as_none() -> None:
    assert [read_mode(text) for text in ("unrestricted", "edit", "Edit", "")] == [
        "auto",
        "edit",
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("ours", "theirs", "common"),
    [
        ((1, 1), (1, 1), 1),
        ((1, 3), (2, 5), 3),
        ((1, 1), (2, 3), None),
        ((4, 5), (1, 3), None),
    ],
)
def test_the_highest_common_version_is_spoken(
    ours: tuple[int, int], theirs: tuple[int, int], common: int | None
) -> None:
    assert common_protocol(ours, theirs) == common


def test_a_client_without_the_lembas_field_is_not_lembas() -> None:
    assert InitializeParams().lembas is None


def test_an_account_never_prints_its_token() -> None:
    assert "secret" not in repr(Account(base_url="https://example.org", token="secret"))


def test_a_config_error_names_file_and_line() -> None:
    assert [
        str(ConfigError("c.yaml", "say a number", line=3)),
        str(ConfigError("c.yaml", "unreadable")),
    ] == ["c.yaml, line 3: say a number", "c.yaml: unreadable"]


def test_a_hello_always_says_its_versions() -> None:
    """What is left out as a default would be read as the reader's own, which may be another build's."""
    said = msgspec.json.decode(msgspec.json.encode(Hello(role="client", build="b", pid=1)))
    assert said == {"role": "client", "build": "b", "pid": 1, "protocol": list(PROTOCOL)}
