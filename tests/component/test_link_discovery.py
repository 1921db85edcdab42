"""What the device makes of an instance's discovery."""

import asyncio
import zlib

import pytest

from lembasd.link import discovery
from lembasd.link.discovery import BadServer, Document, Unreachable, WrongProtocol
from tests.support.fake_instance import Answer, FakeInstance

WELL_KNOWN = "/.well-known/lembas.json"


async def discovered(instance: FakeInstance) -> Document:
    async with discovery.client(None) as http:
        return await discovery.discover(http, instance.url)


@pytest.mark.spec("versions: discovery must list 3")
async def test_an_instance_of_protocol_3_is_accepted() -> None:
    async with FakeInstance() as instance:
        assert await discovered(instance) == Document(
            name="Fake",
            version="2.0.1",
            protocol=3,
            protocols=[3],
            device_authorization_endpoint=f"{instance.url}/oauth/device",
            token_endpoint=f"{instance.url}/oauth/token",
        )


@pytest.mark.parametrize(
    "said", [{"protocols": [2, 3]}, {"protocol": 3}, {"protocol": 1, "protocols": [3]}]
)
@pytest.mark.spec("versions: protocols counts before protocol")
async def test_the_list_counts_and_without_one_the_number(said: dict[str, object]) -> None:
    async with FakeInstance() as instance:
        instance.discovery = {"version": "2.0", **said}
        assert (await discovered(instance)).version == "2.0"


@pytest.mark.parametrize(
    ("said", "spoken"),
    [
        ({"version": "1.9", "protocol": 1, "protocols": [1, 2]}, "1 and 2"),
        ({"version": "1.9", "protocol": 1}, "1"),
        ({"version": "1.9", "protocol": 3, "protocols": [4]}, "4"),
        ({"version": "1.9", "protocol": 3, "protocols": []}, "none"),
        ({"version": "1.9", "protocols": [1, 2, 4]}, "1, 2 and 4"),
    ],
)
@pytest.mark.spec("versions: a server without 3 is refused at login")
async def test_an_instance_without_protocol_3_is_refused_in_the_words_of_the_spec(
    said: dict[str, object], spoken: str
) -> None:
    async with FakeInstance() as instance:
        instance.discovery = said
        with pytest.raises(WrongProtocol) as raised:
            await discovered(instance)
        assert str(raised.value) == (
            f"{instance.url} runs LLeMbas 1.9, which speaks link protocol {spoken}; this LLeMbas CLI "
            "needs a LLeMbas 2.0 server (protocol 3) — update the server, or use LLeMbas CLI 1.x "
            "with it"
        )


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        pytest.param(Answer(404), "answers 404 to discovery", id="not-there"),
        pytest.param(Answer(200, b"<html>"), "no readable discovery", id="a-page"),
        pytest.param(Answer(200, b'{"protocol": "3"}'), "no readable discovery", id="wrong-type"),
        pytest.param(Answer(200, b"[" * 50_000), "no readable discovery", id="deep"),
        pytest.param(Answer(200, b'{"name": "\xff"}'), "no readable discovery", id="no-utf8"),
        pytest.param(Answer(200, b"[3]"), "no readable discovery", id="a-list"),
        pytest.param(Answer(500, b"<html>"), "answers 500 to discovery", id="in-trouble"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000, "gives no whole answer", id="long-head"
        ),
        pytest.param(
            Answer(200, zlib.compress(b"{}"), {"Content-Encoding": "deflate"}),
            "packs its answer, which was not asked for",
            id="packed",
        ),
        pytest.param(Answer(200, b" " * 1_100_000), "answers with too much", id="too-long"),
        pytest.param(
            Answer(302, headers={"Location": "http://localhost:1/"}),
            "if that is your server, run `lembas login --server http://localhost:1`",
            id="elsewhere",
        ),
        pytest.param(b"\x00\x01\x02", "gives no whole answer", id="garbage"),
        pytest.param(b"", "gives no whole answer", id="nothing"),
    ],
)
async def test_an_answer_that_is_no_discovery_is_said_to_be_none(
    answer: Answer | bytes, sentence: str
) -> None:
    async with FakeInstance() as instance:
        instance.instead[WELL_KNOWN] = answer
        with pytest.raises(Unreachable, match=sentence):
            await discovered(instance)


async def test_an_answer_that_comes_too_slowly_is_given_up_whatever_still_comes() -> None:
    async def stalls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(stalls, "127.0.0.1", 0)
    async with server, discovery.client(None) as http:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x"
        # the client's own time-out, of each read, is far away
        with pytest.raises(Unreachable) as raised:
            await discovery.fetch(http, "GET", url, timeout_s=0.2)
    assert str(raised.value) == (
        f"{url} did not answer within 0.2 s; see that it runs, and check the network"
    )


async def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeInstance() as instance:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, "http://localhost:1")
        assert (await discovered(instance)).version == "2.0.1"
        seen = await instance.asked(WELL_KNOWN)
        assert seen.headers["accept-encoding"] == "identity"


async def test_a_proxy_that_others_would_ask_is_named_where_nothing_is_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("https_proxy", "http://localhost:1")
    # an address of this machine, and not by one of its names
    async with discovery.client(discovery.tls_context("https:")) as http:
        with pytest.raises(Unreachable, match="must go without the proxy of the environment"):
            await discovery.discover(http, "https://0.0.0.0:1")


async def test_a_server_without_tls_is_said_to_have_none() -> None:
    async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    listener = await asyncio.start_server(refuses, "127.0.0.1", 0)
    server = f"https://localhost:{listener.sockets[0].getsockname()[1]}"
    async with listener, discovery.client(discovery.tls_context(server)) as http:
        with pytest.raises(Unreachable) as raised:
            await discovery.discover(http, server)
    assert str(raised.value) == (
        f"{server} does not speak TLS; write http:// for a server on this machine"
    )


@pytest.mark.parametrize("seconds", ["1e9", "-5", "9" * 400, "Wed, 21 Oct 2026 07:28:00 GMT", ""])
async def test_a_wish_that_is_no_number_of_seconds_is_none(seconds: str) -> None:
    assert discovery.retry_after({"retry-after": seconds}) is None


async def test_a_busy_instance_says_how_long_to_stay_away() -> None:
    async with FakeInstance() as instance:
        instance.instead[WELL_KNOWN] = Answer(429, headers={"Retry-After": "120"})
        with pytest.raises(Unreachable) as raised:
            await discovered(instance)
        assert raised.value.retry_after_s == 120.0


@pytest.mark.parametrize(
    ("written", "used"),
    [
        ("lembas.example.org", "https://lembas.example.org"),
        ("https://lembas.example.org/", "https://lembas.example.org"),
        ("https://example.org:8443/lembas/", "https://example.org:8443/lembas"),
        ("http://localhost:8000", "http://localhost:8000"),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_an_address_has_one_form(written: str, used: str) -> None:
    assert discovery.base_url(written) == used


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("http://lembas.example.org", "would send your token unencrypted"),
        ("http://localhost.example.org", "would send your token unencrypted"),
        ("ftp://example.org", "is no server address"),
        ("https://", "is no server address"),
        ("https://example.org:port", "is no server address"),
        ("https://[::1", "is no server address"),
        ("https://example.org/?secret=s3cret", "leave what follows the ? out"),
        ("https://example.org#s3cret", "write https://example.org"),
        ("ftp://example.org/?secret=s3cret", "is no server address"),
        ("", "is no server address"),
        ("https://me:secret@example.org", "leave name and password out"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(written: str, sentence: str) -> None:
    with pytest.raises(BadServer) as raised:
        discovery.base_url(written)
    assert sentence in str(raised.value)
    assert "s3cret" not in str(raised.value)
    assert "secret" not in str(raised.value)
