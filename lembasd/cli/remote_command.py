"""`lembas remote`: what the instance may do on this device. Each is one key of config.yaml."""

from pathlib import Path
from typing import Any

import click

from lembasd.cli import running
from lembasd.cli.persons import persons_only
from lembasd.device import config, limits, trust
from lembasd.device.paths import find_paths
from lembasd.protocol.acp import MODES
from lembasd.protocol.control import Settings
from lembasd.protocol.errors import EXIT_DONE, RequestRefused, UsageError


@click.group()
def remote() -> None:
    """What the instance may do here: folders, mode, terminals."""


def _set(key: str, value: Any) -> None:
    config.set_value(find_paths().config_file, f"remote.{key}", value)


def _switch(text: str) -> bool:
    return text == "on"


@remote.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def list_limits(as_json: bool) -> int:
    """The limits as they are."""
    remote = config.load(find_paths().config_file).config.remote
    values = {
        "enabled": remote.enabled,
        "roots": remote.roots,
        "max_mode": remote.max_mode,
        "require_trust": remote.require_trust,
        "terminal": remote.terminal,
        "scheduled": remote.scheduled,
        "approval_timeout": remote.approval_timeout_s,
    }
    if as_json:
        running.say_json(values)
    else:
        for name, value in values.items():
            click.echo(f"{name:17} {_shown(value)}")
    return EXIT_DONE


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "none; add a folder with `lembas remote add DIR`"
    return f"{value:g} s" if isinstance(value, float) else str(value).lower()


def _say_what_is_missing(roots: list[str]) -> None:
    """What keeps the instance from opening a session in the first of these folders that is closed to it yet."""
    paths = find_paths()
    remote = config.load(paths.config_file).config.remote
    settings = Settings(remote=remote, trusted=trust.load(paths.trust_file))
    for root in roots:
        try:
            limits.judge_opened(Path(root).expanduser().resolve(), settings)
        except RequestRefused as refused:
            click.echo(f"no session opens there yet: {refused.message}")
            return


@remote.command("on")
@persons_only
def on() -> int:
    """Let the instance work in the folders that were added."""
    _set("enabled", True)
    roots = config.load(find_paths().config_file).config.remote.roots
    if not roots:
        click.echo("remote work is on, but no folder is open yet; run `lembas remote add DIR`")
    _say_what_is_missing(roots)
    return EXIT_DONE


@remote.command("off")
@persons_only
def off() -> int:
    """Refuse all remote work; the device stays linked."""
    _set("enabled", False)
    return EXIT_DONE


@remote.command("add")
@click.argument("directory")
@persons_only
def add(directory: str) -> int:
    """Let the instance open sessions in DIRECTORY and below."""
    name = running.directory(directory)
    roots = list(config.load(find_paths().config_file).config.remote.roots)
    if not any(Path(root).expanduser().resolve() == name for root in roots):
        _set("roots", [*roots, str(name)])
    click.echo(f"the instance may work in {name} and below")
    _say_what_is_missing([str(name)])
    return EXIT_DONE


@remote.command("remove")
@click.argument("directory", type=click.Path(path_type=Path))
@persons_only
def remove(directory: Path) -> int:
    """Take DIRECTORY out again; holds from the next request on."""
    roots = list(config.load(find_paths().config_file).config.remote.roots)
    kept = [root for root in roots if Path(root).expanduser().resolve() != directory.resolve()]
    if len(kept) == len(roots):
        raise UsageError(f"{directory} is not among the folders; see `lembas remote list`")
    _set("roots", kept)
    return EXIT_DONE


@remote.command("mode")
@click.argument("mode", type=click.Choice(MODES))
@persons_only
def mode(mode: str) -> int:
    """The widest mode a remote session may have."""
    _set("max_mode", mode)
    return EXIT_DONE


@remote.command("terminal")
@click.argument("switch", type=click.Choice(["on", "off"]))
@persons_only
def terminal(switch: str) -> int:
    """Whether the instance may open terminals."""
    _set("terminal", _switch(switch))
    return EXIT_DONE


@remote.command("scheduled")
@click.argument("switch", type=click.Choice(["on", "off"]))
@persons_only
def scheduled(switch: str) -> int:
    """Whether the instance may run scheduled work here."""
    _set("scheduled", _switch(switch))
    return EXIT_DONE


@click.group("service")
def service_switches() -> None:
    """Switches of the service."""


service_switches.add_command(scheduled)
