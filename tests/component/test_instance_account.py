"""The account at the pocket instance: use of the month and personalization, over real sockets and over its restart."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from lembasd.instance.main import Instance, InstanceOptions
from lembasd.protocol.errors import ConfigError
from tests.support.linked_device import log_in

ASKED = {"model": "demo", "messages": [{"role": "user", "content": "hi"}]}
PERSONAL = "/v1/me/personalization"


def client(instance: Instance, token: str) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.AsyncClient(base_url=instance.base_url, headers=headers)


async def test_what_the_demo_model_answers_is_counted_by_device_and_lasts_over_a_restart(
    short_tmp: Path,
) -> None:
    options = InstanceOptions(data=short_tmp, approve=True)
    async with Instance(options) as instance:
        one, other = await log_in(instance), await log_in(instance)
        async with client(instance, one) as http:
            answer = (await http.post("/v1/chat/completions", json=ASKED)).json()["usage"]
            await http.post("/v1/chat/completions", json={**ASKED, "stream": True})
        async with client(instance, other) as http:
            await http.post("/v1/chat/completions", json=ASKED)
    async with Instance(options) as instance, client(instance, one) as http:
        said = (await http.get("/v1/usage")).json()
    month, device = said["month"], said["device"]
    assert month["tokens_out"] == 3 * answer["completion_tokens"]
    assert device["tokens_out"] == 2 * answer["completion_tokens"]
    assert month["tokens_in"] > device["tokens_in"] > answer["prompt_tokens"]
    assert (month["cost_by_currency"], month["cost_money"]) == ({}, None)
    assert (said["unit"], said["windows"]) == ("money", [])


class Priced:
    """An upstream of two models with prices in two currencies, which answers as it is asked."""

    models = (
        b'{"data": [{"id": "euro", "price": {"currency": "EUR", "input": 1000000, "output": 0}},'
        b' {"id": "dollar", "pricing": {"prompt": "0.5", "completion": "0"}}, {"id": "free"}]}'
    )
    usage = b'{"prompt_tokens": 2, "completion_tokens": 1}'

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        kind, body = b"application/json", self.models
        if head.startswith(b"POST"):
            line = next(one for one in head.lower().split(b"\r\n") if one.startswith(b"content-l"))
            asked: dict[str, Any] = msgspec.json.decode(
                await reader.readexactly(int(line.split(b":")[1]))
            )
            body = b'{"choices": [], "usage": ' + self.usage + b"}"
            if asked.get("stream"):
                kind, body = b"text/event-stream", b"data: " + body + b"\n\ndata: [DONE]\n\n"
        head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: " + kind
        writer.write(head + b"\r\nContent-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body)
        await writer.drain()
        writer.close()


async def test_what_an_upstream_answers_is_priced_in_each_models_currency_and_never_summed() -> (
    None
):
    async with (
        Priced().running() as url,
        Instance(InstanceOptions(upstream=url, approve=True)) as instance,
        client(instance, await log_in(instance)) as http,
    ):
        assert (await http.get("/api/v1/instance")).json()["default_model"] == "euro"
        for model, stream in (("euro", True), ("dollar", False), ("euro", False), ("free", True)):
            asked = {**ASKED, "model": model, "stream": stream}
            assert (await http.post("/v1/chat/completions", json=asked)).status_code == 200
        said = (await http.get("/v1/usage")).json()
    assert said["month"]["cost_by_currency"] == {"EUR": 4.0, "USD": 1.0}
    assert (said["month"]["cost_money"], said["currency"]) == (None, None)
    assert (said["month"]["tokens_in"], said["device"]["tokens_out"]) == (8, 4)


async def test_a_personalization_is_changed_field_by_field_and_lasts_over_a_restart(
    short_tmp: Path,
) -> None:
    options = InstanceOptions(data=short_tmp, approve=True)
    async with Instance(options) as instance:
        token = await log_in(instance)
        async with client(instance, token) as http:
            at_first = (await http.get(PERSONAL)).json()
            await http.put(PERSONAL, json={"instructions": "be brief", "enabled": True})
            changed = (await http.put(PERSONAL, json={"personality": "friendly"})).json()
    async with Instance(options) as instance, client(instance, token) as http:
        kept = (await http.get(PERSONAL)).json()
    assert at_first == {
        "enabled": False,
        "available": True,
        "personality": "",
        "personality_custom": "",
        "instructions": "",
    }
    assert (
        kept
        == changed
        == {
            **at_first,
            "enabled": True,
            "personality": "friendly",
            "instructions": "be brief",
        }
    )
    assert (short_tmp / "account.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b'{"enabled": "yes", "personality": "x"}', 422, "enabled must be true or false"),
        (b'{"instructions": null}', 422, "instructions must be a text"),
        (b'"text"', 422, "send an object with the fields to change"),
        (b"{", 422, "send an object with the fields to change"),
        (b'{"instructions": "' + b"x" * 600_000 + b'"}', 413, "this is too long; shorten it"),
    ],
)
async def test_a_change_that_cannot_be_is_refused_whole(
    body: bytes, status: int, said: str
) -> None:
    async with (
        Instance(InstanceOptions(approve=True)) as instance,
        client(instance, await log_in(instance)) as http,
    ):
        answer = await http.put(PERSONAL, content=body)
        assert (answer.status_code, answer.json()) == (status, {"detail": said})
        assert (await http.get(PERSONAL)).json()["personality"] == ""


async def test_a_change_that_cannot_be_stored_is_said_and_not_made(short_tmp: Path) -> None:
    async with (
        Instance(InstanceOptions(data=short_tmp, approve=True)) as instance,
        client(instance, await log_in(instance)) as http,
    ):
        (short_tmp / "account.json").mkdir()  # nobody can put a file there, not even root
        refused = await http.put(PERSONAL, json={"personality": "friendly"})
        assert (refused.status_code, "cannot be stored" in refused.text) == (507, True)
        assert (await http.get(PERSONAL)).json()["personality"] == ""
        (short_tmp / "account.json").rmdir()
        taken = await http.put(PERSONAL, json={"instructions": "be brief"})
        assert (taken.status_code, taken.json()["personality"]) == (200, "")


@pytest.mark.parametrize(
    ("scope", "codes"),
    [
        ("models memory link", [200, 200, 200]),
        ("models", [200, 403, 403]),
        ("link", [403, 200, 200]),
    ],
)
async def test_each_part_of_the_account_opens_to_its_scope(scope: str, codes: list[int]) -> None:
    async with (
        Instance(InstanceOptions(approve=True)) as instance,
        client(instance, await log_in(instance, scope)) as http,
    ):
        answers = [await http.get("/v1/usage"), await http.get(PERSONAL)]
        answers.append(await http.put(PERSONAL, json={}))
        assert [answer.status_code for answer in answers] == codes


async def test_a_token_that_may_not_have_the_personalization_is_told_why_in_its_detail() -> None:
    async with (
        Instance(InstanceOptions(approve=True)) as instance,
        client(instance, await log_in(instance, "models")) as http,
    ):
        for answer in (await http.get(PERSONAL), await http.put(PERSONAL, json={})):
            said = {"detail": "this token has no scope `link`; log in again"}
            assert (answer.status_code, answer.json()) == (403, said)


async def test_without_a_token_the_account_is_closed_to_the_page_too() -> None:
    async with (
        Instance(InstanceOptions()) as instance,
        client(instance, instance.secret) as http,
    ):
        answers = [await http.get("/v1/usage"), await http.put(PERSONAL, json={})]
        assert [answer.status_code for answer in answers] == [401, 401]


@pytest.mark.parametrize("name", ["use.json", "account.json"])
async def test_a_damaged_file_of_the_account_is_named(short_tmp: Path, name: str) -> None:
    (short_tmp / name).write_text("{")
    (short_tmp / name).chmod(0o600)
    with pytest.raises(ConfigError, match=f"{name}: is damaged; remove it"):
        async with Instance(InstanceOptions(data=short_tmp)):
            pass
