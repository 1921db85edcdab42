"""Peeking at JSON-RPC and the finished messages."""

import msgspec
import pytest

from lembasd.protocol import jsonrpc
from lembasd.protocol.errors import INVALID_REQUEST, PARSE_ERROR, RequestRefused


def test_a_request_gives_its_id_method_and_session_and_keeps_its_text() -> None:
    text = b'{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"sessionId":"ses_1","x":[1, 2]}}'
    assert jsonrpc.peek(text) == jsonrpc.Message(
        text=text,
        id=b"7",
        method="session/prompt",
        session="ses_1",
        params=b'{"sessionId":"ses_1","x":[1, 2]}',
    )


@pytest.mark.parametrize("given", [b"7", b'"a"', b"12345678901234567890123", b"1.50"])
def test_an_id_goes_back_as_it_came(given: bytes) -> None:
    seen = jsonrpc.peek(b'{"jsonrpc":"2.0","method":"m","id":' + given + b"}")
    assert jsonrpc.result(seen.id, {}) == b'{"jsonrpc":"2.0","id":' + given + b',"result":{}}'


def test_messages_are_requests_notifications_or_replies() -> None:
    kinds = [
        (seen.is_request, seen.is_notification, seen.is_reply)
        for seen in (
            jsonrpc.peek(b'{"id":1,"method":"m"}'),
            jsonrpc.peek(b'{"method":"m"}'),
            jsonrpc.peek(b'{"id":1,"result":{}}'),
        )
    ]
    assert kinds == [(True, False, False), (False, True, False), (False, False, True)]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", PARSE_ERROR),
        (b"{", PARSE_ERROR),
        (b"\xff\xfe", PARSE_ERROR),
        (b"[" * 100_000, INVALID_REQUEST),
        (b'{"id":1,"method":"m","params":' + b"[" * 100_000, PARSE_ERROR),
        (b"7", INVALID_REQUEST),
        (b"{}", INVALID_REQUEST),
        (b'{"method":7,"id":1}', INVALID_REQUEST),
        (b'{"method":"m","id":{}}', INVALID_REQUEST),
        (b'{"method":"m","id":true}', INVALID_REQUEST),
        (b'[{"method":"m","id":1}]', INVALID_REQUEST),
    ],
)
def test_what_is_no_message_is_refused_with_its_code(text: bytes, code: int) -> None:
    with pytest.raises(RequestRefused) as caught:
        jsonrpc.peek(text)
    assert caught.value.code == code


def test_a_batch_is_refused_by_name() -> None:
    with pytest.raises(RequestRefused, match="batches are not supported"):
        jsonrpc.peek(b' [{"jsonrpc":"2.0","id":1,"method":"m"}]')


def test_a_session_id_of_another_type_names_no_session() -> None:
    assert jsonrpc.peek(b'{"method":"m","id":1,"params":{"sessionId":5}}').session == ""


def test_a_reply_to_one_of_ours_has_a_string_id() -> None:
    assert jsonrpc.peek(b'{"id":"ses_1:3:4","result":{}}').reply_id == "ses_1:3:4"
    assert jsonrpc.peek(b'{"id":5,"result":{}}').reply_id == ""


def test_finished_messages_are_json_rpc_2() -> None:
    assert [
        jsonrpc.request("a", "m", {"x": 1}),
        jsonrpc.notification("m", {}),
        jsonrpc.result(b"1", None),
        jsonrpc.error(b"", -32600, "say"),
        jsonrpc.refusal(b"2", RequestRefused(-32602, "no", {"reason": "r"})),
    ] == [
        b'{"jsonrpc":"2.0","id":"a","method":"m","params":{"x":1}}',
        b'{"jsonrpc":"2.0","method":"m","params":{}}',
        b'{"jsonrpc":"2.0","id":1,"result":null}',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"say"}}',
        b'{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"no","data":{"reason":"r"}}}',
    ]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (rb"a\ud800b", "a\ufffdb"),
        (rb"a\udc00", "a\ufffd"),
        (rb"\uD83D\uDE00\ud83d", "\U0001f600\ufffd"),
        (rb"\ud800\ud83d\ude00", "\ufffd\U0001f600"),
        (rb"\\ud800\ud800", "\\ud800\ufffd"),
        (rb"\"\ud800\n", '"\ufffd\n'),
    ],
)
def test_half_a_character_becomes_the_sign_for_it_and_the_message_stays_one(
    written: bytes, read: str
) -> None:
    text = b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"sessionId":"s","text":"%b"}}' % written
    message = jsonrpc.peek(text)
    assert (message.id, message.method, message.session) == (b"7", "m", "s")
    assert msgspec.json.decode(message.params) == {"sessionId": "s", "text": read}
    assert msgspec.json.decode(message.text)["params"] == {"sessionId": "s", "text": read}


def test_what_is_no_json_is_none_with_half_a_character_either() -> None:
    with pytest.raises(RequestRefused, match="this is not JSON"):
        jsonrpc.peek(rb'{"method":"\ud800')
