"""Login and models of the pocket instance over real sockets: the demo, and an upstream passed through."""

import asyncio
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from lembasd.instance.main import Instance, InstanceOptions
from lembasd.instance.oauth import GRANT_TYPE
from lembasd.protocol.errors import ConfigError, UsageError
from tests.support.linked_device import log_in


@asynccontextmanager
async def client(instance: Instance, key: str = "") -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx.AsyncClient(base_url=instance.base_url, headers=headers) as http:
        yield http


def chunks(text: str) -> list[Any]:
    """The data of server-sent events; [DONE] as it is."""
    data = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    return [one if one == "[DONE]" else msgspec.json.decode(one) for one in data]


async def test_discovery_says_protocol_3_and_where_to_log_in() -> None:
    async with Instance(InstanceOptions()) as instance, client(instance) as http:
        assert (await http.get("/.well-known/lembas.json")).json() == {
            "name": "Pocket instance",
            "version": "2.0",
            "protocol": 3,
            "protocols": [3],
            "device_authorization_endpoint": f"{instance.base_url}/oauth/device_authorization",
            "token_endpoint": f"{instance.base_url}/oauth/token",
        }


@pytest.mark.parametrize(("approve", "expected"), [(True, 200), (False, "access_denied")])
async def test_a_login_waits_until_the_person_decides(approve: bool, expected: object) -> None:
    async with (
        Instance(InstanceOptions()) as instance,
        client(instance) as http,
        client(instance, instance.secret) as person,
    ):
        form = {"client_id": "cli", "scope": "link"}
        code = (await http.post("/oauth/device_authorization", data=form)).json()
        poll = {
            "grant_type": GRANT_TYPE,
            "client_id": "cli",
            "device_code": code["device_code"],
        }
        waiting = await http.post("/oauth/token", data=poll)
        hasty = await http.post("/oauth/token", data=poll)
        logins = (await person.get("/api/local/logins")).json()
        path = f"/api/local/logins/{code['user_code']}"
        decided = await person.post(path, json={"approve": approve})
        answer = await http.post("/oauth/token", data=poll)
        again = await person.post(path, json={"approve": True})
    assert (waiting.json()["error"], waiting.status_code) == ("authorization_pending", 400)
    assert hasty.json()["error"] == "slow_down"
    assert logins == {
        "logins": [{"user_code": code["user_code"], "client_id": "cli", "scope": "link"}]
    }
    assert (decided.status_code, again.status_code) == (200, 404)
    assert expected in (answer.status_code, answer.json().get("error"))


@pytest.mark.parametrize(
    ("form", "error"),
    [
        ({"grant_type": "password", "device_code": "x"}, "unsupported_grant_type"),
        ({"grant_type": GRANT_TYPE}, "invalid_request"),
        ({"grant_type": GRANT_TYPE, "device_code": "x", "client_id": "c"}, "invalid_grant"),
    ],
)
async def test_a_poll_that_is_none_is_refused_with_its_reason(
    form: dict[str, str], error: str
) -> None:
    async with Instance(InstanceOptions()) as instance, client(instance) as http:
        answer = await http.post("/oauth/token", data=form)
    assert (answer.status_code, answer.json()["error"]) == (400, error)


async def test_a_login_that_is_no_form_is_refused() -> None:
    async with Instance(InstanceOptions()) as instance, client(instance) as http:
        answers = [
            await http.post("/oauth/device_authorization", json={"client_id": "c"}),
            await http.post("/oauth/device_authorization", data={"client_id": ["c", "d"]}),
            await http.post("/oauth/device_authorization", data={"client_id": "c" * 20_000}),
        ]
    assert [answer.json()["error"] for answer in answers] == ["invalid_request"] * 3


async def test_a_token_lasts_over_a_restart_and_is_kept_as_a_hash(short_tmp: Path) -> None:
    options = InstanceOptions(data=short_tmp / "data", approve=True)
    async with Instance(options) as instance:
        token = await log_in(instance)
    async with Instance(options) as instance, client(instance, token) as http:
        about = (await http.get("/api/v1/instance")).json()
    file = short_tmp / "data" / "tokens.json"
    assert about == {
        "service": "lembas",
        "version": "2.0",
        "name": "Pocket instance",
        "connection": "pocket",
        "account": {"email": "you@localhost", "name": "You"},
        "scope": "models memory link",
        "default_model": "demo",
        "services": [],
    }
    assert token not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["tokens.json", "sessions.json"])
async def test_a_damaged_data_file_is_named(short_tmp: Path, name: str) -> None:
    (short_tmp / name).write_text("{")
    (short_tmp / name).chmod(0o600)
    with pytest.raises(ConfigError, match=f"{name}: is damaged; remove it"):
        async with Instance(InstanceOptions(data=short_tmp)):
            pass


async def test_the_demo_model_says_what_it_is_and_streams_as_a_real_one() -> None:
    async with Instance(InstanceOptions(approve=True)) as instance:
        tool = {"type": "function", "function": {"name": "bash", "parameters": {}}}
        asked = {
            "model": "demo",
            "stream": True,
            "stream_options": {"include_usage": True},
            "messages": [{"role": "user", "content": "run: ls"}],
            "tools": [tool],
        }
        async with client(instance, await log_in(instance)) as http:
            models = (await http.get("/v1/models")).json()
            answer = await http.post("/v1/chat/completions", json=asked)
    [model] = models["data"]
    assert (model["id"], model["kind"]) == ("demo", "chat")
    assert "scripted" in model["name"]
    assert answer.headers["content-type"].startswith("text/event-stream")
    *parts, usage, done = chunks(answer.text)
    deltas = [part["choices"][0]["delta"] for part in parts]
    calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
    arguments = "".join(call["function"].get("arguments", "") for call in calls)
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(delta.get("content", "") for delta in deltas) == "I run the command."
    assert (calls[0]["type"], calls[0]["function"]["name"]) == ("function", "bash")
    assert calls[0]["id"].startswith("call_demo_1")
    assert {call["index"] for call in calls} == {0}
    assert arguments == '{"command":"ls"}'
    assert deltas[-1] == {}
    assert [part["choices"][0]["finish_reason"] for part in parts][-2:] == [None, "tool_calls"]
    read = len(answer.request.content) // 4 + 1
    counted = {"prompt_tokens": read, "completion_tokens": 5, "total_tokens": read + 5}
    assert (usage["choices"], usage["usage"], done) == ([], counted, "[DONE]")


async def test_the_demo_model_answers_whole_when_it_is_not_asked_to_stream() -> None:
    async with Instance(InstanceOptions(approve=True)) as instance:
        asked = {"model": "demo", "messages": [{"role": "user", "content": "hi"}]}
        async with client(instance, await log_in(instance)) as http:
            answer = (await http.post("/v1/chat/completions", json=asked)).json()
            wrong = [
                (await http.post("/v1/chat/completions", json={**asked, "model": "x"})).status_code,
                (await http.post("/v1/chat/completions", content=b"{")).status_code,
            ]
    text = "You said: hi (demo model, no language model)"
    message = {"role": "assistant", "content": text}
    assert answer["choices"] == [{"index": 0, "message": message, "finish_reason": "stop"}]
    assert wrong == [404, 400]


# ── upstream ────────────────────────────────────────────────────────────────────────────────────


class UpstreamServer:
    """One answer for each connection, sent in two pieces: the second after `go_on`."""

    def __init__(self, head: bytes, first: bytes, second: bytes = b"") -> None:
        self._pieces = (head + first, second)
        self.asked: list[bytes] = []
        self.go_on = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-len")]
        length = int(lengths[0].split(b":")[1]) if lengths else 0
        self.asked.append(head + await reader.readexactly(length))
        writer.write(self._pieces[0])
        if self._pieces[1]:
            await self.go_on.wait()
            writer.write(self._pieces[1])
        writer.close()
        await writer.wait_closed()


async def test_an_upstream_s_stream_passes_piece_by_piece_with_the_key_and_without_the_token() -> (
    None
):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nSet-Cookie: a=b\r\n\r\n"
    upstream = UpstreamServer(head, b"data: 1\n\n", b"data: [DONE]\n\n")
    async with (
        upstream.running() as url,
        Instance(InstanceOptions(upstream=url, upstream_key="sk-1", approve=True)) as instance,
    ):
        token = await log_in(instance)
        async with (
            client(instance, token) as http,
            http.stream("POST", "/v1/chat/completions", content=b'{"a":1}') as answer,
        ):
            pieces = answer.aiter_bytes()
            first = await anext(pieces)
            upstream.go_on.set()  # what came first came before the upstream sent the rest
            rest = b"".join([piece async for piece in pieces])
    [asked] = upstream.asked
    assert (first, rest) == (b"data: 1\n\n", b"data: [DONE]\n\n")
    assert "set-cookie" not in answer.headers
    assert asked.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert asked.endswith(b'\r\n\r\n{"a":1}')
    assert b"authorization: Bearer sk-1\r\n" in asked
    assert token.encode() not in asked


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"HTTP/1.1 429 Slow\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n", 429),
        (b"HTTP/1.1 302 There\r\nLocation: http://evil/\r\nContent-Length: 0\r\n\r\n", 502),
        (b"garbage\r\n\r\n", 502),
    ],
)
async def test_what_the_upstream_refuses_is_passed_and_what_is_no_answer_is_a_502(
    head: bytes, status: int
) -> None:
    async with (
        UpstreamServer(head, b"").running() as url,
        Instance(InstanceOptions(upstream=url, approve=True)) as instance,
        client(instance, await log_in(instance)) as http,
    ):
        assert (await http.get("/v1/models")).status_code == status


async def test_an_upstream_that_is_away_is_said() -> None:
    async with UpstreamServer(b"", b"").running() as url:
        pass
    async with (
        Instance(InstanceOptions(upstream=url, approve=True)) as instance,
        client(instance, await log_in(instance)) as http,
    ):
        answer = await http.get("/v1/models")
    assert answer.status_code == 502
    assert "the upstream cannot be reached" in answer.json()["error"]["message"]


@pytest.mark.parametrize("url", ["nope", "ftp://x/v1", "http://", "http://[x", "https://x/?a=b"])
async def test_an_upstream_that_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="is no server address; write it as https://"):
        async with Instance(InstanceOptions(upstream=url)):
            pass


async def test_a_key_in_the_upstream_s_address_is_refused() -> None:
    with pytest.raises(UsageError, match="leave the key out"):
        async with Instance(InstanceOptions(upstream="https://key@models.example.org/v1")):
            pass


class ListingServer:
    """An OpenAI-compatible server of a few paths."""

    def __init__(self, base: str, models: bytes) -> None:
        self._base = base.encode()
        self._models = models
        self.asked: list[bytes] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split()[1]
        self.asked.append(path)
        known = path == self._base + b"/models"
        status, body = (b"200 OK", self._models) if known else (b"404 No", b"not here")
        length = str(len(body)).encode()
        writer.write(
            b"HTTP/1.1 %b\r\nConnection: close\r\nContent-Length: %b\r\n\r\n" % (status, length)
        )
        writer.write(body)
        await writer.drain()
        writer.close()


@pytest.mark.parametrize(
    ("answers", "given"), [("/v1", ""), ("/v1", "/v1"), ("", ""), ("/api/v3", "/api/v3")]
)
async def test_an_upstream_is_found_with_or_without_its_v1_and_its_first_model_for_chats_is_the_default(
    answers: str, given: str
) -> None:
    models = (
        b'{"data":[{"id":"e","kind":"embedding"},{"id":"first"},{"id":"second","kind":"chat"}]}'
    )
    upstream = ListingServer(answers, models)
    async with (
        upstream.running() as url,
        Instance(InstanceOptions(upstream=url + given, approve=True)) as instance,
    ):
        token = await log_in(instance)
        async with client(instance, token) as http:
            about = (await http.get("/api/v1/instance")).json()
            listed = (await http.get("/v1/models")).json()
        assert await instance.upstream_models() == ["first", "second"]
    assert about["default_model"] == "first"
    assert [one["id"] for one in listed["data"]] == ["e", "first", "second"]


async def test_an_upstream_that_lists_nothing_has_no_default() -> None:
    upstream = ListingServer("/elsewhere", b"{}")
    async with (
        upstream.running() as url,
        Instance(InstanceOptions(upstream=url, approve=True)) as instance,
    ):
        token = await log_in(instance)
        async with client(instance, token) as http:
            assert (await http.get("/api/v1/instance")).json()["default_model"] is None
        assert await instance.upstream_models() is None
