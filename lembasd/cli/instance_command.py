"""`lembas instance`: a LLeMbas server for one person, on this machine."""

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Final

import click
import uvloop

from lembasd.device import private_file
from lembasd.device.paths import find_paths
from lembasd.instance.main import HOST, Instance, InstanceOptions, serve
from lembasd.protocol.errors import UsageError

#: a device is logged in to an address: the instance keeps its own
DEFAULT_PORT: Final = 8437


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help=f"Port on 127.0.0.1, 0 for any; {DEFAULT_PORT} when it is free.",
)
@click.option("--upstream", metavar="URL", help="An OpenAI-compatible server.")
@click.option(
    "--upstream-key-file",
    type=click.Path(path_type=Path),
    help="File with the upstream's key, readable by you alone.",
)
@click.option(
    "--upstream-key-env", metavar="NAME", help="Environment variable with the upstream's key."
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory that keeps logins and sessions.",
)
@click.option("--approve", is_flag=True, help="Approve every login at once; for trying out.")
def instance(
    port: int | None,
    upstream: str | None,
    upstream_key_file: Path | None,
    upstream_key_env: str | None,
    data: Path | None,
    approve: bool,
) -> None:
    """Run a pocket instance until it is interrupted. Without --upstream its model is a scripted demo."""
    key = _key(upstream, upstream_key_file, upstream_key_env)
    kept = data or find_paths().state / "instance"
    options = InstanceOptions(_free() if port is None else port, upstream, key, kept, approve)
    sys.exit(uvloop.run(_run(options)))


async def _run(options: InstanceOptions) -> int:
    async def ready(running: Instance) -> None:
        click.echo(f"Open {running.page}")
        sys.stdout.flush()
        if options.upstream is None:
            click.echo("Its model is a scripted demo, no language model; see --upstream.")
        else:
            click.echo(_about_upstream(options.upstream, await running.upstream_models()))
        sys.stdout.flush()

    serving = asyncio.create_task(serve(options, ready))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, serving.cancel)
    try:
        await serving
    except asyncio.CancelledError:
        pass  # a signal: it ended as it was asked to
    return 0


def _about_upstream(url: str, models: list[str] | None) -> str:
    if models is None:
        return f"{url} does not answer as an OpenAI-compatible server; its models come once it does"
    if not models:
        return f"{url} has no model for chats; load one there"
    rest = f" and {len(models) - 1} more" if len(models) > 1 else ""
    return f"Its models are those of {url}: {models[0]}{rest}."


def _free() -> int:
    """The port that logins are bound to from one start to the next, 0 when somebody else has it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, DEFAULT_PORT))
        except OSError:
            return 0
    return DEFAULT_PORT


def _key(upstream: str | None, file: Path | None, variable: str | None) -> str | None:
    """The upstream's key. Raises UsageError; ConfigError when others can read the file."""
    if file is None and variable is None:
        return None
    if upstream is None:
        raise UsageError("a key needs an --upstream to be for")
    if file is not None and variable is not None:
        raise UsageError("give --upstream-key-file or --upstream-key-env, not both")
    if file is not None:
        text = private_file.read(file)
        if text is None:
            raise UsageError(f"{file} is not there; write the upstream's key into it")
        source, key = str(file), text.decode("ascii", "replace").strip()
    else:
        source, key = f"${variable}", os.environ.pop(variable or "", "").strip()
    if not key or any(character <= " " or character > "~" for character in key):
        raise UsageError(f"{source} holds no key; put the upstream's key there, alone")
    return key
