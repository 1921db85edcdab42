"""`lembas login`, `logout` and `whoami`."""

import asyncio
import sys
from typing import Any, Final

import click
import msgspec

from lembasd.cli import running
from lembasd.cli.persons import persons_only
from lembasd.device import config, credentials
from lembasd.device.credentials import Credentials
from lembasd.device.paths import Paths, find_paths
from lembasd.link import discovery
from lembasd.link import login as grant
from lembasd.protocol.errors import EXIT_DONE, EXIT_USAGE, LembasError, UsageError

#: a token is a line; more on standard input is no token
MAX_TOKEN_BYTES: Final = 16_384


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
        except LembasError as error:
            if not as_json:
                raise
            _line({"event": "error", "message": str(error)})
            return error.exit_code
        return EXIT_DONE

    return running.run_async(work)


async def _login(paths: Paths, server: str | None, *, token_stdin: bool, as_json: bool) -> None:
    given = server or config.load(paths.config_file).config.server
    if given is None:
        raise UsageError(
            "say which server: `lembas login --server https://lembas.example.org`", EXIT_USAGE
        )
    base = discovery.base_url(given)
    token = _read_token() if token_stdin else None
    context = await asyncio.to_thread(discovery.tls_context, base)
    async with discovery.client(context) as http:
        document = await discovery.discover(http, base)
        if token is None:
            token = await _ask(grant.DeviceGrant(http, document), as_json=as_json)
        proven = await grant.prove(http, base, token)
    fresh, changes = _store(paths, proven)
    if as_json:
        _line(
            {
                "event": "done",
                "fresh": fresh,
                "connection": proven.connection,
                "base_url": proven.server,
                "version": document.version,
                "models": [proven.default_model] if proven.default_model else [],
                "changes": changes,
            }
        )
    else:
        click.echo(f"Logged in to {discovery.plain(proven.instance_name) or proven.server}.")


def _read_token() -> str:
    raw = sys.stdin.buffer.read(MAX_TOKEN_BYTES + 1)
    if len(raw) > MAX_TOKEN_BYTES:
        raise grant.LoginRefused("this is no token; give the token alone on standard input")
    try:
        return raw.decode("ascii").strip()
    except UnicodeDecodeError:
        raise grant.LoginRefused(
            "this is no token; give the token alone on standard input"
        ) from None


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
        address = discovery.plain(code.verification_uri_complete or code.verification_uri)
        click.echo(
            f"Open {address}\nand approve this device with the code {discovery.plain(code.user_code)}"
        )
    return await grant.poll_until_done(device, code.expires_in_s, asyncio.sleep)


def _store(paths: Paths, proven: Credentials) -> tuple[bool, list[str]]:
    """Write the login; whether there was none to this server before, and which keys of config.yaml changed."""
    paths.make()
    try:
        before = credentials.load(paths.credentials_file)
    except LembasError:
        before = None  # broken or readable by others: it is replaced by a good one
    credentials.store(paths.credentials_file, proven)
    kept = config.load(paths.config_file).config
    changes = []
    for key, old, new in (
        ("server", kept.server, proven.server),
        ("connection", kept.connection, proven.connection),
    ):
        if new is not None and old != new:
            config.set_value(paths.config_file, key, new)
            changes.append(key)
    fresh = before is None or credentials.origin(before.server) != credentials.origin(proven.server)
    return fresh, changes


@click.command()
@persons_only
def logout() -> int:
    """Forget the login; the link ends."""
    was = credentials.remove(find_paths().credentials_file)
    click.echo("Logged out." if was else "Nobody was logged in.")
    return EXIT_DONE


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def whoami(as_json: bool) -> int:
    """Who this device is logged in as, asked of the instance."""
    stored = credentials.load(find_paths().credentials_file)
    if stored is None:
        raise UsageError("nobody is logged in; run `lembas login --server URL`")

    async def work() -> int:
        context = await asyncio.to_thread(discovery.tls_context, stored.server)
        async with discovery.client(context) as http:
            about = await grant.ask_instance(http, stored.server, stored.token)
        if as_json:
            running.say_json(
                {
                    "server": stored.server,
                    "connection": about.connection,
                    "instance": about.name,
                    "account": about.account,
                    "scope": about.scope,
                    "default_model": about.default_model,
                }
            )
        else:
            who = f"{about.account.name} <{about.account.email}> at " if about.account else ""
            click.echo(
                discovery.plain(f"{who}{about.name} ({stored.server}), may do: {about.scope}")
            )
        return EXIT_DONE

    return running.run_async(work)
