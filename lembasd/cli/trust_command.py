"""`lembas trust`: trusted projects."""

from pathlib import Path

import click

from lembasd.cli import running
from lembasd.cli.persons import persons_only
from lembasd.device import trust
from lembasd.device.paths import find_paths
from lembasd.protocol.errors import EXIT_DONE, UsageError


@click.group("trust")
def trust_group() -> None:
    """Trusted projects: where remote sessions may open.

    Their own settings count too (.mcp.json, .agent/).
    """


@trust_group.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def list_trusted(as_json: bool) -> int:
    """The trusted directories."""
    trusted = trust.load(find_paths().trust_file)
    if as_json:
        running.say_json({"trusted": trusted})
    else:
        for one in trusted or ["nothing is trusted; trust a project with `lembas trust add DIR`"]:
            click.echo(one)
    return EXIT_DONE


@trust_group.command("add")
@click.argument("directory")
@persons_only
def add(directory: str) -> int:
    """Trust DIRECTORY and what is below it."""
    name = running.directory(directory)
    added = trust.add(find_paths().trust_file, name)
    click.echo(f"{name} is {'now' if added else 'already'} trusted")
    return EXIT_DONE


@trust_group.command("remove")
@click.argument("directory", type=click.Path(path_type=Path))
@persons_only
def remove(directory: Path) -> int:
    """Trust DIRECTORY no more."""
    if not trust.remove(find_paths().trust_file, directory.absolute()):
        raise UsageError(f"{directory} was not trusted; see `lembas trust list`")
    click.echo(f"{directory} is not trusted any more")
    return EXIT_DONE
