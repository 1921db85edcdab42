"""The keys that leave a terminal, and what is typed into it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lembasd.cli.core.detach_keys import DEFAULT_KEYS, Asked, DetachKeys, parse, shown

KEYS = b"\x1dd"


def fed(keys: bytes, *reads: bytes) -> list[bytes | Asked]:
    detach = DetachKeys(keys)
    return [one for read in reads for one in detach.feed(read)]


@pytest.mark.parametrize(
    ("text", "keys", "said"),
    [
        (DEFAULT_KEYS, b"\x1dd", "Ctrl-] d"),
        ("ctrl-a", b"\x01", "Ctrl-a"),
        ("Ctrl-P,ctrl-q", b"\x10\x11", "Ctrl-p Ctrl-q"),
        ("ctrl-\\,~,.", b"\x1c~.", "Ctrl-\\ ~ ."),
        ("", b"", ""),
    ],
)
def test_keys_are_named_as_other_programs_name_them(text: str, keys: bytes, said: str) -> None:
    assert parse(text) == keys
    assert shown(keys) == said


@pytest.mark.parametrize("text", ["ctrl-", "ctrl-1", "alt-x", ",", "ctrl-a,", "é", " ", "ctrl-aa"])
def test_what_is_no_key_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="is no key; name each as ctrl-X"):
        parse(text)


def test_a_sequence_that_nobody_could_type_is_said() -> None:
    with pytest.raises(ValueError, match="more than 8 keys"):
        parse(",".join("abcdefghi"))


def test_what_is_typed_passes() -> None:
    assert fed(KEYS, b"ls -l\r", b"d") == [b"ls -l\r", b"d"]
    assert fed(b"", b"\x1dd") == [b"\x1dd"]


def test_the_keys_detach_however_they_are_split() -> None:
    assert fed(KEYS, b"ls\x1dd") == [b"ls", Asked.DETACH]
    assert fed(KEYS, b"\x1d", b"d") == [Asked.DETACH]
    assert fed(b"\x01", b"a\x01b") == [b"a", Asked.DETACH]


def test_the_first_key_twice_types_it_once() -> None:
    assert fed(KEYS, b"\x1d\x1dx") == [b"\x1dx"]
    assert fed(KEYS, b"\x1d", b"\x1d", b"d") == [b"\x1d", b"d"]


def test_the_first_key_and_ctrl_z_suspend_and_what_follows_is_typed() -> None:
    assert fed(KEYS, b"a\x1d\x1ab") == [b"a", Asked.SUSPEND, b"b"]
    assert fed(KEYS, b"\x1a") == [b"\x1a"]


def test_keys_that_only_began_are_typed_with_the_next() -> None:
    assert fed(KEYS, b"\x1dx") == [b"\x1dx"]
    assert fed(b"\x10\x11d", b"\x10\x11\x10\x11d") == [b"\x10\x11", Asked.DETACH]
    assert fed(b"abc", b"abx") == [b"abx"]


@given(st.lists(st.binary(max_size=6)), st.binary(min_size=1, max_size=3))
def test_reads_make_no_difference(reads: list[bytes], keys: bytes) -> None:
    def plain(found: list[bytes | Asked]) -> list[bytes | Asked]:
        joined: list[bytes | Asked] = []
        for one in found:
            if isinstance(one, bytes) and joined and isinstance(joined[-1], bytes):
                joined[-1] += one
            else:
                joined.append(one)
        # whoever detached reads no more
        return joined[: joined.index(Asked.DETACH)] if Asked.DETACH in joined else joined

    assert plain(fed(keys, *reads)) == plain(fed(keys, b"".join(reads)))
