"""`lembas login`, `logout` and `whoami`."""

import asyncio
import errno
import os
import sys
from typing import Any, Final

import click
import msgspec

from lembasd.cli import logged_in, running
from lembasd.cli.persons import persons_only
from lembasd.device import config, credentials
from lembasd.device.config import Config
from lembasd.device.credentials import Credentials
from lembasd.device.paths import Paths, find_paths
from lembasd.link import discovery
from lembasd.link import login as grant
from lembasd.link.api import InstanceApi
from lembasd.link.core import model_kinds
from lembasd.link.core.faults import plain
from lembasd.protocol.errors import EXIT_DONE, EXIT_FAILED, EXIT_USAGE, LembasError, UsageError
from lembasd.protocol.http_api import InstanceInfo

#: a token is a line; more on standard input is no token
MAX_TOKEN_BYTES: Final = 16_384
#: of the page where a login is approved; a longer one would not fit a browser either
MAX_ADDRESS_CHARS: Final = 2000


def _line(value: dict[str, Any]) -> None:
    """One JSON object a line: what another program reads."""
    click.echo(msgspec.json.encode(value).decode())


@click.command()
@click.option("--server", help="The instance's address; the one of config.yaml when left out.")
@click.option("--token-stdin", is_flag=True, help="Take a token from standard input.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@persons_only
def login(server: str | None, token_stdin: bool, as_json: bool) -> int:
    """Log this device in to your instance."""
    paths = find_paths()

    async def work() -> int:
        try:
            await _login(paths, server, token_stdin=token_stdin, as_json=as_json)
        except (LembasError, OSError) as error:
            if not as_json:
                raise
            _line({"event": "error", "message": running.sentence(error)})
            return error.exit_code if isinstance(error, LembasError) else EXIT_FAILED
        return EXIT_DONE

    return running.run_async(work)


async def _login(paths: Paths, server: str | None, *, token_stdin: bool, as_json: bool) -> None:
    # a file that cannot be changed afterwards is found before anything is asked
    kept = config.load(paths.config_file).config
    given = kept.server if server is None else server
    if given is None:
        raise UsageError(
            "say which server: `lembas login --server https://lembas.example.org`", EXIT_USAGE
        )
    base = discovery.base_url(given)
    _find_room(paths)
    token = _read_token() if token_stdin else None
    context = await asyncio.to_thread(discovery.tls_context, base)
    async with discovery.client(context) as http:
        document = await discovery.discover(http, base)
        if token is None:
            token = await _ask(grant.DeviceGrant(http, base, document), as_json=as_json)
        proven = await grant.prove(http, base, token)
        listed, problem = await _models(InstanceApi(http, base, token))
    models = [entry["id"] for entry in model_kinds.for_chat(listed)]
    changes = _store(paths, kept, proven, model_kinds.embedding(listed, proven.connection))
    if as_json:
        _line(
            {
                "event": "done",
                "fresh": True,  # whoever logs in has a token that was not here before
                "connection": proven.connection,
                "base_url": proven.server,
                "version": document.version,
                "models": models,
                "changes": changes,
            }
        )
        return
    click.echo(f"Logged in to {proven.instance_name or proven.server}.")
    click.echo(_about_models(models, problem))


async def _models(api: InstanceApi) -> tuple[Any, str]:
    """The instance's list, else why there is none: a login does not fail for it."""
    try:
        return await api.models(), ""
    except LembasError as error:
        return None, str(error)


def _about_models(models: list[str], problem: str) -> str:
    if problem:
        return f"Its models are not known: {problem}"
    if not models:
        return "It has no model for chats yet; add one there."
    first, rest = plain(models[0]), len(models) - 1
    more = f" and {rest} more" if rest else ""
    return f"Its models: {first}{more}; see `lembas models`."


def _read_token() -> str:
    """What is on standard input, "" for what is too long; at a terminal it is asked for, and not shown."""
    if sys.stdin is None:
        return ""
    if sys.stdin.isatty():
        return str(click.prompt("Token", hide_input=True, err=True, prompt_suffix=": ")).strip()
    raw = sys.stdin.buffer.read(MAX_TOKEN_BYTES + 1)
    return raw.decode("ascii", "replace").strip() if len(raw) <= MAX_TOKEN_BYTES else ""


async def _ask(device: grant.DeviceGrant, *, as_json: bool) -> str:
    code = await device.start()
    if as_json:
        _line(
            {
                "event": "code",
                "user_code": code.user_code,
                "verification_uri": code.verification_uri,
                "verification_uri_complete": code.verification_uri_complete,
                "expires_in": code.expires_in_s,
            }
        )
    else:
        address = plain(code.verification_uri_complete or code.verification_uri, MAX_ADDRESS_CHARS)
        click.echo(f"Open {address}\nand approve this device with the code {plain(code.user_code)}")
        sys.stdout.flush()
    return await grant.poll_until_done(device, code.expires_in_s, asyncio.sleep)


def _find_room(paths: Paths) -> None:
    """See that a login can be kept before somebody approves it. Raises OSError."""
    for directory in (paths.config, paths.state):
        there = next(one for one in (directory, *directory.parents) if one.exists())
        if not there.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(there))
        if not os.access(there, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(there))


def _store(paths: Paths, kept: Config, proven: Credentials, embedding: str | None) -> list[str]:
    """Write the login; which keys of config.yaml it changed."""
    paths.make()
    wanted = {"server": proven.server, "connection": proven.connection}
    if kept.embedding is None and embedding is not None:
        wanted["embedding"] = embedding
    changed = {key: value for key, value in wanted.items() if value != getattr(kept, key)}
    with credentials.changing(paths.credentials_file):
        if changed:
            config.set_values(paths.config_file, changed)
        credentials.store(paths.credentials_file, proven)
    return list(changed)


@click.command()
@persons_only
def logout() -> int:
    """Forget the login; the link ends."""
    path = find_paths().credentials_file
    with credentials.changing(path):
        was = credentials.remove(path)
    click.echo("Logged out." if was else "Nobody was logged in.")
    return EXIT_DONE


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def whoami(as_json: bool) -> int:
    """Who this device is logged in as, asked of the instance."""
    login = logged_in.required(find_paths())

    async def work() -> int:
        async with logged_in.api(login) as api:
            about = await api.about()
            server = api.server
        if as_json:
            running.say_json(
                {
                    "server": server,
                    "connection": about.connection,
                    "instance": about.name,
                    "account": about.account,
                    "scope": about.scope,
                    "default_model": about.default_model,
                }
            )
        else:
            click.echo(_who(about, server))
        return EXIT_DONE

    return running.run_async(work)


def _who(about: InstanceInfo, server: str) -> str:
    person = about.account
    named = [plain(person.name), f"<{plain(person.email)}>" * bool(person.email)] if person else []
    who = " ".join(filter(None, named)) or "somebody"
    scope = plain(about.scope or "") or "nothing"
    return f"{who} at {plain(about.name) or 'an instance'} ({server}), may do: {scope}"
