"""Who may ask the pocket instance what: other pages, other names, other keys."""

import asyncio
import socket
from collections.abc import AsyncIterator

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from lembasd.instance.main import Instance, InstanceOptions
from lembasd.protocol.errors import UsageError
from tests.support.linked_device import TIMEOUT_S, log_in


@pytest.fixture
async def instance() -> AsyncIterator[Instance]:
    async with Instance(InstanceOptions(approve=True)) as running:
        yield running


@pytest.fixture
async def http(instance: Instance) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=instance.base_url) as client:
        yield client


def secret(instance: Instance) -> dict[str, str]:
    return {"Authorization": f"Bearer {instance.secret}"}


ROUTES = ["/", "/.well-known/lembas.json", "/v1/models", "/api/local/devices", "/nowhere"]


@pytest.mark.parametrize("name", ["evil.example", "127.0.0.1", "localhost:1", "evil.localhost"])
async def test_a_rebound_name_is_misdirected_on_every_route(
    instance: Instance, http: httpx.AsyncClient, name: str
) -> None:
    headers = {**secret(instance), "Host": name}
    codes = [(await http.get(path, headers=headers)).status_code for path in ROUTES]
    assert codes == [421] * len(ROUTES)


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST", "[::1]"])
async def test_this_machines_other_names_are_good(
    instance: Instance, http: httpx.AsyncClient, name: str
) -> None:
    headers = {**secret(instance), "Host": f"{name}:{instance.port}"}
    assert (await http.get("/api/local/devices", headers=headers)).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1"])
@pytest.mark.parametrize("path", ["/oauth/device_authorization", "/api/local/sessions"])
async def test_a_post_of_another_page_is_forbidden_even_with_the_cookie(
    instance: Instance, http: httpx.AsyncClient, path: str, origin: str
) -> None:
    await http.get(instance.page)
    answer = await http.post(path, json={"cwd": "/w"}, headers={"Origin": origin})
    assert answer.status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_read_of_another_page_is_forbidden_though_it_sends_no_origin(
    instance: Instance, http: httpx.AsyncClient, site: str
) -> None:
    await http.get(instance.page)
    answer = await http.get("/api/local/sessions", headers={"Sec-Fetch-Site": site})
    assert answer.status_code == 403


async def test_the_page_s_own_requests_are_answered(
    instance: Instance, http: httpx.AsyncClient
) -> None:
    await http.get(instance.page)
    own = {"Origin": instance.base_url, "Sec-Fetch-Site": "same-origin"}
    answer = await http.get("/api/local/sessions", headers=own)
    assert (answer.status_code, answer.json()) == (200, {"sessions": []})


async def test_the_secret_becomes_a_strict_cookie_and_leaves_the_address(
    instance: Instance, http: httpx.AsyncClient
) -> None:
    answer = await http.get(instance.page)
    cookie = answer.headers["set-cookie"].lower()
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert answer.headers["referrer-policy"] == "no-referrer"


async def test_the_page_and_its_files_load_nothing_from_elsewhere(
    instance: Instance, http: httpx.AsyncClient
) -> None:
    await http.get(instance.page)
    pages = [await http.get(path) for path in ("/", "/page.js", "/page.css")]
    assert [page.status_code for page in pages] == [200, 200, 200]
    assert all("default-src 'none'" in page.headers["content-security-policy"] for page in pages)
    assert not any(word in page.text for page in pages for word in ("innerHTML", "https://"))


@pytest.mark.parametrize(
    "path", ["/", "/?secret=wrong", "/page.js", "/api/local/about", "/api/local/cards"]
)
async def test_without_the_secret_nothing_of_the_page_opens(
    http: httpx.AsyncClient, path: str
) -> None:
    assert (await http.get(path)).status_code == 401


@pytest.mark.parametrize("key", ["wrong", "é"])
async def test_a_wrong_secret_opens_nothing(http: httpx.AsyncClient, key: str) -> None:
    headers = [(b"Authorization", f"Bearer {key}".encode())]
    assert (await http.get("/api/local/devices", headers=headers)).status_code == 401


async def test_a_wrong_header_is_not_made_good_by_the_cookie(
    instance: Instance, http: httpx.AsyncClient
) -> None:
    await http.get(instance.page)
    headers = {"Authorization": "Bearer wrong"}
    assert (await http.get("/api/local/devices", headers=headers)).status_code == 401


async def test_a_token_is_no_secret_and_the_secret_no_token(
    instance: Instance, http: httpx.AsyncClient
) -> None:
    token = {"Authorization": f"Bearer {await log_in(instance)}"}
    codes = [
        (await http.get("/api/local/devices", headers=token)).status_code,
        (await http.get("/v1/models", headers=token)).status_code,
        (await http.get("/v1/models", headers=secret(instance))).status_code,
        (await http.get("/api/v1/instance")).status_code,
    ]
    await http.get(instance.page)  # from here on there is the cookie
    codes.append((await http.get("/v1/models")).status_code)
    assert codes == [401, 200, 401, 401, 401]


async def test_a_token_opens_what_its_scope_says(
    instance: Instance, http: httpx.AsyncClient
) -> None:
    token = {"Authorization": f"Bearer {await log_in(instance, 'link')}"}
    assert (await http.get("/v1/models", headers=token)).status_code == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer SECRET"}, 401),
        ({"Authorization": "Bearer MODELS"}, 401),
        ({"Authorization": "Bearer TOKEN", "Origin": "http://evil.example"}, 403),
        ({"Authorization": "Bearer TOKEN", "Host": "evil.example"}, 421),
    ],
)
async def test_a_link_that_may_not_be_is_refused_before_it_opens(
    instance: Instance, headers: dict[str, str], status: int
) -> None:
    keys = {
        "SECRET": instance.secret,
        "TOKEN": await log_in(instance),
        "MODELS": await log_in(instance, "models"),
    }
    given = dict(headers)
    scheme, _, key = given.get("Authorization", "").partition(" ")
    if key:
        given["Authorization"] = f"{scheme} {keys[key]}"
    host = given.pop("Host", f"127.0.0.1:{instance.port}")
    listener = socket.create_connection(("127.0.0.1", instance.port))
    with pytest.raises(InvalidStatus) as refused:
        await connect(
            f"ws://{host}/api/devices/link",
            additional_headers=given,
            sock=listener,
            proxy=None,
        )
    assert refused.value.response.status_code == status


async def test_a_request_that_says_it_is_too_long_is_refused_unread(instance: Instance) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", instance.port)
    head = f"POST /oauth/token HTTP/1.1\r\nHost: 127.0.0.1:{instance.port}\r\n"
    writer.write(f"{head}Content-Length: {10**12}\r\n\r\n".encode())
    async with asyncio.timeout(TIMEOUT_S):
        status = await reader.readline()
    writer.close()
    await writer.wait_closed()
    assert status.startswith(b"HTTP/1.1 413 ")


async def test_a_port_that_is_taken_is_said_in_one_sentence(instance: Instance) -> None:
    with pytest.raises(UsageError, match=f"port {instance.port} is taken; give another --port"):
        async with Instance(InstanceOptions(port=instance.port)):
            pass
