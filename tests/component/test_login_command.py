"""`lembas login`, `logout` and `whoami` against a scripted instance."""

import asyncio
from pathlib import Path

import pytest

from lembasd.device import config, credentials
from lembasd.device.credentials import Credentials
from tests.support.command_line import CommandLine, Done
from tests.support.fake_instance import TOKEN, Answer, FakeInstance


class Person:
    """Types commands while the instance runs in this loop."""

    def __init__(self, run: CommandLine) -> None:
        self.paths = run.paths
        self._run = run

    async def lembas(self, *args: str, stdin: bytes = b"") -> Done:
        return await asyncio.to_thread(self._run.lembas, *args, stdin=stdin)

    def stored(self) -> Credentials | None:
        return credentials.load(self.paths.credentials_file)


@pytest.fixture
def person(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Person:
    return Person(CommandLine(short_tmp / "h", monkeypatch, capsys))


def login_at(instance: FakeInstance) -> Credentials:
    return Credentials(
        server=instance.url,
        token=TOKEN,
        connection="fake",
        instance_name="Fake",
        default_model="demo",
        scope="models memory link",
    )


async def test_a_device_login_shows_the_code_and_stores_the_login(person: Person) -> None:
    async with FakeInstance() as instance:
        instance.grants = [Answer.of({"error": "authorization_pending"}, 400), *instance.grants]
        done = await person.lembas("login", "--server", instance.url)
        assert done == Done(
            0,
            f"Open {instance.url}/device\nand approve this device with the code ABCD-EFGH\n"
            "Logged in to Fake.\n",
            "",
        )
        assert person.stored() == login_at(instance)
        assert person.paths.credentials_file.stat().st_mode & 0o777 == 0o600
        read = config.load(person.paths.config_file).config
        assert (read.server, read.connection) == (instance.url, "fake")


async def test_what_the_server_says_moves_no_cursor(person: Person) -> None:
    async with FakeInstance() as instance:
        instance.about = {"scope": "link", "name": "\x1b[2JFake\r\n"}
        instance.grant_fields["user_code"] = "\x1b]0;x\x07AB"
        done = await person.lembas("login", "--server", instance.url)
        assert done.code == 0
        assert all(one.isprintable() for one in done.out.replace("\n", ""))


async def test_json_is_one_object_a_line(person: Person) -> None:
    async with FakeInstance() as instance:
        done = await person.lembas("login", "--server", instance.url, "--json")
        assert done.values == [
            {
                "event": "code",
                "user_code": "ABCD-EFGH",
                "verification_uri": f"{instance.url}/device",
                "verification_uri_complete": None,
                "expires_in": 60.0,
            },
            {
                "event": "done",
                "fresh": True,
                "connection": "fake",
                "base_url": instance.url,
                "version": "2.0.1",
                "models": ["demo"],
                "changes": ["server", "connection"],
            },
        ]
        again = await person.lembas("login", "--json")
        assert (again.values[-1]["fresh"], again.values[-1]["changes"]) == (False, [])


async def test_a_token_on_standard_input_is_proven_and_stored(person: Person) -> None:
    async with FakeInstance() as instance:
        done = await person.lembas(
            "login", "--server", instance.url, "--token-stdin", stdin=f"{TOKEN}\n".encode()
        )
        assert done == Done(0, "Logged in to Fake.\n", "")
        assert person.stored() == login_at(instance)
        assert instance.asked_so_far("/oauth/device") == 0


async def test_a_login_keeps_the_comments_of_the_config(person: Person) -> None:
    async with FakeInstance() as instance:
        person.paths.make()
        person.paths.config_file.write_text("# mine\nserver: x.example.org  # old\nmode: edit\n")
        await person.lembas("login", "--server", instance.url)
        text = person.paths.config_file.read_text()
        assert "# mine\n" in text
        assert "# old\n" in text
        assert config.load(person.paths.config_file).config.server == instance.url


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ({"tokens": set()}, 4, "does not accept this token; get a new one"),
        ({"about": None}, 4, "is an older server; update it to LLeMbas 2.0"),
        ({"about": {"name": "x"}}, 4, "is an older server; update it to LLeMbas 2.0"),
        ({"about": {"scope": "models"}}, 4, "this token may do models but not link"),
        ({"discovery": {"version": "1.9", "protocol": 1}}, 4, "which speaks link protocol 1; this"),
        ({"discovery": None}, 1, "answers 404 to discovery; is it a LLeMbas server?"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
async def test_a_login_that_is_refused_writes_nothing(
    person: Person, change: dict[str, object], code: int, said: str, *, as_json: bool
) -> None:
    async with FakeInstance() as instance:
        for name, value in change.items():
            setattr(instance, name, value)
        args = ["login", "--server", instance.url, "--token-stdin", *["--json"] * as_json]
        done = await person.lembas(*args, stdin=TOKEN.encode())
        assert done.code == code
        if as_json:
            (error,) = done.values
            assert error["event"] == "error"
            assert said in error["message"]
        else:
            assert said in done.err
            assert done.err.count("\n") == 1
        assert TOKEN not in done.out + done.err
        assert not person.paths.config.exists()


@pytest.mark.parametrize("stdin", [b"", b"two words", b"\xff\xfe", b"x" * 20_000])
async def test_what_is_no_token_is_refused_before_it_is_sent(person: Person, stdin: bytes) -> None:
    async with FakeInstance() as instance:
        done = await person.lembas("login", "--server", instance.url, "--token-stdin", stdin=stdin)
        assert done == Done(4, "", "this is no token; give the token alone on standard input\n")
        assert instance.asked_so_far("/api/v1/instance") == 0


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        ((), 2, "say which server: `lembas login --server https://lembas.example.org`\n"),
        (("--server", "http://example.org"), 2, "would send your token unencrypted"),
        (("--server", "http://localhost:1"), 1, "cannot be reached"),
    ],
)
async def test_a_server_that_cannot_be_used_is_said_so(
    person: Person, args: tuple[str, ...], code: int, said: str
) -> None:
    done = await person.lembas("login", *args)
    assert (done.code, done.out, said in done.err) == (code, "", True)


async def test_a_login_that_others_could_read_is_replaced_by_a_good_one(person: Person) -> None:
    async with FakeInstance() as instance:
        person.paths.make()
        person.paths.credentials_file.write_text("{}")
        person.paths.credentials_file.chmod(0o644)
        assert (await person.lembas("login", "--server", instance.url)).code == 0
        assert person.stored() == login_at(instance)


async def test_logging_out_forgets_the_login(person: Person) -> None:
    async with FakeInstance() as instance:
        await person.lembas("login", "--server", instance.url)
        assert await person.lembas("logout") == Done(0, "Logged out.\n", "")
        assert person.stored() is None
        assert await person.lembas("logout") == Done(0, "Nobody was logged in.\n", "")


async def test_who_one_is_is_asked_of_the_instance(person: Person) -> None:
    nobody = await person.lembas("whoami")
    assert (nobody.code, nobody.err) == (
        1,
        "nobody is logged in; run `lembas login --server URL`\n",
    )
    async with FakeInstance() as instance:
        await person.lembas("login", "--server", instance.url)
        assert (await person.lembas("whoami")).out == (
            f"Ada <ada@example.org> at Fake ({instance.url}), may do: models memory link\n"
        )
        assert (await person.lembas("whoami", "--json")).value == {
            "server": instance.url,
            "connection": "fake",
            "instance": "Fake",
            "account": {"email": "ada@example.org", "name": "Ada"},
            "scope": "models memory link",
            "default_model": "demo",
        }
        instance.tokens.clear()
        refused = await person.lembas("whoami")
        assert (refused.code, "does not accept this token" in refused.err) == (4, True)
