"""Reading what clients ask about files."""

import msgspec
import pytest

from lembasd.protocol.errors import INVALID_PARAMS, RequestRefused
from lembasd.worker.core.file_requests import (
    MAX_QUERY_CHARS,
    Asked,
    read_directories,
    read_search,
)


@pytest.mark.parametrize(
    ("params", "asked"),
    [
        ({"cwd": "/p", "query": "a"}, Asked("", "/p", "a", 20)),
        ({"sessionId": "ses_1", "query": "", "limit": 7}, Asked("ses_1", "", "", 7)),
        ({"cwd": "/p", "sessionId": None, "query": "a", "limit": 51}, Asked("", "/p", "a", 50)),
        ({"cwd": "/p", "query": "a", "limit": -3, "more": 1}, Asked("", "/p", "a", 1)),
    ],
)
@pytest.mark.spec("files/search: limit")
def test_a_search_is_read(params: object, asked: Asked) -> None:
    assert read_search(msgspec.json.encode(params)) == asked


@pytest.mark.parametrize(
    ("params", "says"),
    [
        (b"", "cannot be read"),
        (b"[1]", "cannot be read"),
        (b'{"query":"a"}', "name one of them"),
        (b'{"query":"a","cwd":"/p","sessionId":"s"}', "name one of them"),
        (b'{"query":"a","cwd":"/p","limit":"many"}', "cannot be read"),
        (b'{"cwd":"/p"}', "cannot be read"),
        (b'{"cwd":"/p","query":"%s"}' % (b"x" * (MAX_QUERY_CHARS + 1)), "at most 500 characters"),
    ],
)
def test_what_is_no_search_is_refused(params: bytes, says: str) -> None:
    with pytest.raises(RequestRefused, match=says) as caught:
        read_search(params)
    assert caught.value.code == INVALID_PARAMS


def test_directories_are_asked_for_with_a_path_or_without() -> None:
    assert read_directories(b"") == read_directories(b'{"path":null}') == ""
    assert read_directories(b'{"path":"/p"}') == "/p"
    with pytest.raises(RequestRefused, match="cannot be read"):
        read_directories(b'{"path":5}')
