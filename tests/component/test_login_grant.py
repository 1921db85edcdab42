"""The device login and the proof of a token, against a scripted instance."""

from typing import Any

import pytest

from lembasd.device.credentials import Credentials
from lembasd.link import discovery
from lembasd.link.discovery import Document, Unreachable
from lembasd.link.login import Code, DeviceGrant, LoginRefused, Pending, poll_until_done, prove
from tests.support.fake_instance import TOKEN, Answer, FakeInstance


def refused(error: str) -> Answer:
    return Answer.of({"error": error}, 400)


PENDING = refused("authorization_pending")
GRANTED = Answer.of({"access_token": TOKEN, "token_type": "Bearer"})


async def logged_in(instance: FakeInstance, waits: list[float]) -> tuple[Code, str]:
    """One whole device login; what it waited is added to `waits` and not waited for."""

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async with discovery.client(None) as http:
        grant = DeviceGrant(http, instance.url, await discovery.discover(http, instance.url))
        code = await grant.start()
        return code, await poll_until_done(grant, code.expires_in_s, sleep)


async def test_a_login_that_is_approved_after_a_while_gives_the_token() -> None:
    async with FakeInstance() as instance:
        instance.grants = [PENDING, PENDING, GRANTED]
        instance.grant_fields = {
            "interval": 2,
            "expires_in": 600,
            "verification_uri_complete": f"{instance.url}/device?code=ABCD-EFGH",
        }
        waits: list[float] = []
        code, token = await logged_in(instance, waits)
        assert token == TOKEN
        assert waits == [2.0, 2.0]
        assert code == Code(
            user_code="ABCD-EFGH",
            verification_uri=f"{instance.url}/device",
            verification_uri_complete=f"{instance.url}/device?code=ABCD-EFGH",
            expires_in_s=600.0,
        )
        asked = await instance.asked("/oauth/device")
        assert asked.form == {"client_id": "lembas-cli", "scope": "models memory link"}
        polled = await instance.asked("/oauth/token", 3)
        assert polled.form == {
            "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
            "device_code": "device-code",
            "client_id": "lembas-cli",
        }


async def test_slow_down_and_a_busy_server_lengthen_every_later_wait() -> None:
    async with FakeInstance() as instance:
        instance.grants = [PENDING, refused("slow_down"), Answer(503), PENDING, GRANTED]
        instance.grant_fields = {"interval": 1, "expires_in": 600}
        waits: list[float] = []
        await logged_in(instance, waits)
        assert waits == [1.0, 6.0, 11.0, 11.0]


async def test_without_an_interval_it_is_five_seconds() -> None:
    async with FakeInstance() as instance:
        instance.grants = [PENDING, GRANTED]
        instance.grant_fields = {"expires_in": 600}
        waits: list[float] = []
        await logged_in(instance, waits)
        assert waits == [5.0]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (refused("access_denied"), "the login was denied; run `lembas login` to ask again"),
        (refused("expired_token"), "nobody approved in time; run `lembas login` again"),
        (refused("invalid_client"), "the server refuses the login"),
        (Answer(400, b"no"), "is none of a login"),
        (Answer(200, b"{}"), "is none of a login"),
    ],
)
async def test_a_login_that_does_not_come_about_says_why(answer: Answer, sentence: str) -> None:
    async with FakeInstance() as instance:
        instance.grants = [PENDING, answer]
        with pytest.raises(LoginRefused, match=sentence):
            await logged_in(instance, [])


async def test_a_code_that_nobody_uses_is_given_up_when_it_expires() -> None:
    async with FakeInstance() as instance:
        instance.grants = [PENDING]
        instance.grant_fields = {"interval": 10, "expires_in": 25}
        waits: list[float] = []
        with pytest.raises(LoginRefused, match="nobody approved in time"):
            await logged_in(instance, waits)
        assert waits == [10.0, 10.0]


async def test_a_server_that_is_away_for_a_moment_is_polled_again() -> None:
    async with FakeInstance() as instance, discovery.client(None) as http:
        grant = DeviceGrant(http, instance.url, await discovery.discover(http, instance.url))
        await grant.start()
        await instance.go_away()
        assert await grant.poll() == Pending(5.1)
        await instance.come_back()
        assert await grant.poll() == TOKEN


async def test_a_server_without_device_login_is_said_so() -> None:
    async with discovery.client(None) as http:
        with pytest.raises(LoginRefused, match="--token-stdin"):
            DeviceGrant(http, "https://example.org", Document(protocol=3))


@pytest.mark.parametrize(
    ("server", "endpoint"),
    [
        ("https://example.org", "http://example.org/token"),
        ("https://example.org", "http://localhost:1/token"),  # a server elsewhere names a port here
        ("https://example.org", "/token"),
        ("https://example.org", "https://"),
        ("https://example.org", "https://[::1"),
        ("https://example.org", "https://me:secret@example.org/token"),
        ("http://localhost:1", "https://example.org/token"),  # whose certificate nobody would check
        ("http://localhost:1", "http://example.org/token"),
    ],
)
async def test_a_login_at_an_address_that_cannot_be_trusted_is_refused(
    server: str, endpoint: str
) -> None:
    good = f"{server}/device"
    async with discovery.client(None) as http:
        for document in (
            Document(device_authorization_endpoint=good, token_endpoint=endpoint),
            Document(device_authorization_endpoint=endpoint, token_endpoint=good),
        ):
            with pytest.raises(LoginRefused, match="which cannot be used; ask who runs it"):
                DeviceGrant(http, server, document)


@pytest.mark.parametrize("token", ["", "two words", "ünicode", "a\nb"])
async def test_a_token_that_no_header_can_hold_is_refused(token: str) -> None:
    async with FakeInstance() as instance:
        instance.grants = [Answer.of({"access_token": token})]
        with pytest.raises(LoginRefused, match="gives a token that cannot be used; ask who runs"):
            await logged_in(instance, [])


async def test_a_login_page_in_the_way_of_the_grant_is_said_at_once() -> None:
    async with FakeInstance() as instance:
        instance.grants = [Answer(302, headers={"Location": "https://elsewhere.example.org/sso"})]
        with pytest.raises(
            Unreachable, match=r"sends on to https://elsewhere\.example\.org; if that"
        ):
            await logged_in(instance, [])


@pytest.mark.parametrize("address", ["javascript:alert(1)", "", "/device", "file:///etc/passwd"])
async def test_what_is_no_page_is_not_shown_as_one(address: str) -> None:
    async with FakeInstance() as instance:
        instance.grant_fields = {"verification_uri_complete": address}
        code, _ = await logged_in(instance, [])
        assert code.verification_uri_complete is None
        instance.grant_fields = {"verification_uri": address}
        with pytest.raises(LoginRefused, match="names no page to approve a login on; ask who"):
            await logged_in(instance, [])


async def test_a_server_that_takes_its_time_over_each_poll_ends_a_login_no_later() -> None:
    async with FakeInstance() as instance:
        instance.mute.add("/oauth/token")
        instance.grant_fields = {"interval": 1, "expires_in": 0.2}
        with pytest.raises(LoginRefused, match="nobody approved in time"):
            await logged_in(instance, [])


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_server_in_trouble_when_a_login_begins_is_no_refusal(status: int) -> None:
    async with FakeInstance() as instance:
        instance.instead["/oauth/device"] = Answer(status)
        with pytest.raises(Unreachable, match=f"answers {status}; try again later"):
            await logged_in(instance, [])


async def test_no_server_makes_a_login_wait_for_ever_or_poll_without_pause() -> None:
    async with FakeInstance() as instance:
        instance.grants = [PENDING, GRANTED]
        instance.grant_fields = {"interval": 0, "expires_in": 1e300}
        waits: list[float] = []
        code, _ = await logged_in(instance, waits)
        assert (code.expires_in_s, waits) == (3600.0, [0.1])
        instance.grants = [PENDING]
        instance.grant_fields = {"interval": 1e300, "expires_in": 1e300}
        waits.clear()
        with pytest.raises(LoginRefused, match="nobody approved in time"):
            await logged_in(instance, waits)
        assert sum(waits) <= 3600.0


async def test_a_server_that_refuses_to_begin_is_said_so() -> None:
    async with FakeInstance() as instance:
        instance.instead["/oauth/device"] = Answer(403)
        with pytest.raises(LoginRefused, match="refuses a device login"):
            await logged_in(instance, [])


async def proven(instance: FakeInstance, token: str = TOKEN) -> Credentials:
    async with discovery.client(None) as http:
        return await prove(http, instance.url, token)


async def test_a_token_is_proven_at_the_instance() -> None:
    async with FakeInstance() as instance:
        assert await proven(instance) == Credentials(
            server=instance.url,
            token=TOKEN,
            connection="fake",
            instance_name="Fake",
            default_model="demo",
            scope="models memory link",
        )
        seen = await instance.asked("/api/v1/instance")
        assert seen.headers["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize(
    ("about", "sentence"),
    [
        (None, "is an older server; update it to LLeMbas 2.0"),
        ({"service": "lembas"}, "is an older server; update it to LLeMbas 2.0"),
        ({"scope": "models memory"}, "may do models memory but not link"),
        ({"scope": ""}, "may do nothing but not link"),
        ({"scope": "models linkage"}, "but not link"),
    ],
)
@pytest.mark.spec("GET /api/v1/instance: scope must have link")
async def test_an_instance_that_does_not_let_the_device_link_is_refused(
    about: dict[str, Any] | None, sentence: str
) -> None:
    async with FakeInstance() as instance:
        instance.about = about
        with pytest.raises(LoginRefused, match=sentence):
            await proven(instance)


@pytest.mark.parametrize("body", [b'{"scope": 7}', b"<html>", b"[]", b"\xff", b"[" * 50_000, b""])
async def test_an_answer_that_is_no_description_of_an_instance_is_said_to_be_none(
    body: bytes,
) -> None:
    async with FakeInstance() as instance:
        instance.instead["/api/v1/instance"] = Answer(200, body)
        with pytest.raises(Unreachable, match="answers with something else than was asked for"):
            await proven(instance)


async def test_a_token_that_may_not_even_ask_is_refused_with_the_servers_reason() -> None:
    async with FakeInstance() as instance:
        instance.instead["/api/v1/instance"] = Answer.of({"detail": "no scope models"}, 403)
        with pytest.raises(LoginRefused) as raised:
            await proven(instance)
        assert str(raised.value) == (
            f"{instance.url} refuses this: no scope models; "
            "get a token with the scopes models memory link"
        )


async def test_what_a_server_calls_itself_is_kept_short_and_plain() -> None:
    async with FakeInstance() as instance:
        instance.about = {"scope": "link", "name": "N" * 9_000, "connection": "a\x1b[2Jb"}
        stored = await proven(instance)
        assert (len(stored.instance_name), stored.connection) == (301, "a [2Jb")


async def test_a_token_that_the_instance_does_not_know_is_refused() -> None:
    async with FakeInstance() as instance:
        with pytest.raises(LoginRefused, match="does not accept this token") as raised:
            await proven(instance, "another-token")
        assert "another-token" not in str(raised.value)


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "ünicode"])
async def test_what_is_no_token_is_never_sent(token: str) -> None:
    async with FakeInstance() as instance:
        with pytest.raises(LoginRefused, match="this is no token"):
            await proven(instance, token)
        assert instance.requests == []


async def test_an_instance_in_trouble_is_not_taken_for_a_refusal() -> None:
    async with FakeInstance() as instance:
        instance.instead["/api/v1/instance"] = Answer(502)
        with pytest.raises(Unreachable, match="answers 502; try again later"):
            await proven(instance)
