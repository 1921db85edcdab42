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
            "Logged in to Fake.\nIts models: demo; see `lembas models`.\n",
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
        assert (again.values[-1]["fresh"], again.values[-1]["changes"]) == (True, [])


@pytest.mark.spec("login --token-stdin")
async def test_a_token_on_standard_input_is_proven_and_stored(person: Person) -> None:
    async with FakeInstance() as instance:
        done = await person.lembas(
            "login", "--server", instance.url, "--token-stdin", stdin=f"{TOKEN}\n".encode()
        )
        assert done == Done(0, "Logged in to Fake.\nIts models: demo; see `lembas models`.\n", "")
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
        # each is judged before the next: a server of another protocol is not even given the token
        (
            {"discovery": {"version": "1.9", "protocols": [1, 2]}, "about": None, "tokens": set()},
            4,
            (
                "runs LLeMbas 1.9, which speaks link protocol 1 and 2; this LLeMbas CLI needs a LLeMbas "
                "2.0 server (protocol 3) — update the server, or use LLeMbas CLI 1.x with it"
            ),
        ),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.spec("login --token-stdin: refused before anything is written")
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


@pytest.mark.spec("the embedding setting at login")
async def test_a_login_lists_the_models_for_chats_and_takes_the_first_for_embeddings(
    person: Person,
) -> None:
    async with FakeInstance() as instance:
        instance.models = [
            {"id": "voice", "kind": "tts"},
            {"id": "embed-1", "kind": "embedding"},
            {"id": "embed-2", "kind": "embedding"},
            {"id": "big"},
            {"id": "small", "kind": "chat"},
        ]
        done = (await person.lembas("login", "--server", instance.url, "--json")).values[-1]
        assert done["models"] == ["big", "small"]
        assert done["changes"] == ["server", "connection", "embedding"]
        assert config.load(person.paths.config_file).config.embedding == "fake/embed-1"
        instance.models.pop(1)
        again = await person.lembas("login")
        assert again.out.endswith("Its models: big and 1 more; see `lembas models`.\n")
        # one that is set is never replaced
        assert config.load(person.paths.config_file).config.embedding == "fake/embed-1"


@pytest.mark.parametrize("scope", ["link", "models memory link"])
async def test_a_login_does_not_fail_for_a_list_of_models(person: Person, scope: str) -> None:
    async with FakeInstance() as instance:
        instance.about = {"scope": scope, "name": "Fake"}
        instance.instead["/v1/models"] = Answer.of({"detail": "no scope"}, 403)
        done = await person.lembas("login", "--server", instance.url)
        assert done.out.endswith(
            f"Logged in to Fake.\nIts models are not known: {instance.url} refuses this: no scope\n"
        )
        assert person.stored() is not None
        instance.instead["/v1/models"] = Answer.of({"data": []})
        assert (await person.lembas("login")).out.endswith(
            "It has no model for chats yet; add one there.\n"
        )


@pytest.mark.parametrize("as_json", [False, True])
async def test_a_config_that_cannot_be_changed_is_found_before_anything_is_asked_or_written(
    person: Person, *, as_json: bool
) -> None:
    async with FakeInstance() as instance:
        person.paths.make()
        person.paths.config_file.write_text("mode: [\n")
        done = await person.lembas("login", "--server", instance.url, *["--json"] * as_json)
        said = done.values[0]["message"] if as_json else done.err
        assert (done.code, "is not YAML" in said) == (1, True)
        assert instance.requests == []
        assert person.stored() is None


async def test_a_place_where_no_login_can_be_kept_is_found_before_anything_is_asked(
    person: Person,
) -> None:
    person.paths.state.parent.mkdir(parents=True, exist_ok=True)
    person.paths.state.write_text("a file where the directory would be")
    async with FakeInstance() as instance:
        done = await person.lembas("login", "--server", instance.url)
        assert (done.code, done.out) == (1, "")
        assert done.err == (
            f"{person.paths.state}: Not a directory; make it a directory, or take it away\n"
        )
        assert instance.requests == []


async def test_a_login_that_cannot_be_stored_is_an_error_of_its_kind(person: Person) -> None:
    async with FakeInstance() as instance:
        person.paths.make()
        # a directory in the file's place: nobody can put a file there, not even root
        person.paths.credentials_file.mkdir()
        done = await person.lembas(
            "login", "--server", instance.url, "--token-stdin", "--json", stdin=TOKEN.encode()
        )
        (error,) = done.values
        assert (done.code, error["event"], done.err) == (1, "error", "")
        assert "credentials.json" in error["message"]
        assert TOKEN not in done.out


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
        (("--server", ""), 2, "'' is no server address; write it as https://lembas.example.org\n"),
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
        assert (refused.code, "does not accept this login any more" in refused.err) == (4, True)
