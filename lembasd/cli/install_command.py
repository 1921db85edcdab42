"""`lembasd install` and `uninstall`."""

import click

from lembasd.cli.persons import persons_only
from lembasd.cli.service_managers.api import Manager, chosen
from lembasd.device.lock import all_gone, hub_pid
from lembasd.device.paths import Paths, find_paths
from lembasd.protocol.errors import EXIT_DONE, UsageError


def _manager(paths: Paths) -> Manager:
    manager = chosen(paths)
    if manager is None:
        raise UsageError(
            "no service manager of this system is known; run `lembasd run` by its means"
        )
    return manager


@click.command()
@click.option("--print", "only_print", is_flag=True, help="Show what would be written, do nothing.")
@persons_only
def install(only_print: bool) -> int:
    """Have the service manager of this system run lembasd, now and whenever you are logged in."""
    paths = find_paths()
    manager = _manager(paths)
    if only_print:
        for path, text in manager.files().items():
            click.echo(f"# {path}\n{text}")
        return EXIT_DONE
    running = hub_pid(paths)
    if running is not None and not manager.is_active():
        raise UsageError(
            f"a hub runs already (pid {running}), which is not the service's; "
            "end it with `lembasd stop`, then run `lembasd install` again"
        )
    for sentence in manager.install():
        click.echo(sentence)
    click.echo(f"lembasd is a service of {manager.name} now; `lembasd doctor` checks it")
    return EXIT_DONE


@click.command()
@persons_only
def uninstall() -> int:
    """Have the service manager run lembasd no more. What you configured and your sessions stay."""
    paths = find_paths()
    manager = _manager(paths)
    said = manager.uninstall()
    for sentence in said:
        click.echo(sentence)
    click.echo(f"lembasd is no service of {manager.name} any more" if said else "it was none")
    if not all_gone(paths):
        click.echo("sessions that are at work go on; `lembasd stop` ends them")
    return EXIT_DONE
