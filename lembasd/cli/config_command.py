"""`lembas config`: config.yaml from the command line, comments kept."""

from typing import Any

import click
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from lembasd.cli import running
from lembasd.cli.persons import persons_only
from lembasd.device import config
from lembasd.device.paths import find_paths
from lembasd.protocol.errors import EXIT_DONE, EXIT_USAGE, UsageError


@click.group("config")
def config_group() -> None:
    """Read and change config.yaml."""


@config_group.command("path")
def path() -> int:
    """Where config.yaml lies."""
    click.echo(find_paths().config_file)
    return EXIT_DONE


@config_group.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def list_settings(as_json: bool) -> int:
    """Every setting with its value, defaults included."""
    loaded = config.load(find_paths().config_file)
    values = config.as_settings(loaded.config)
    if as_json:
        running.say_json(values)
    else:
        for key, value in values.items():
            click.echo(f"{key}: {_shown(value)}")
    for warning in loaded.warnings:
        running.say_error(warning)
    return EXIT_DONE


@config_group.command("get")
@click.argument("key")
def get(key: str) -> int:
    """The value of KEY (dots name blocks: remote.max_mode)."""
    values = config.as_settings(config.load(find_paths().config_file).config)
    if key not in values:
        raise UsageError(f"{key} is not a setting; see `lembas config list`", EXIT_USAGE)
    click.echo(_shown(values[key]))
    return EXIT_DONE


@config_group.command("set")
@click.argument("key")
@click.argument("value")
@persons_only
def set_value(key: str, value: str) -> int:
    """Set KEY to VALUE, written as in config.yaml; null takes the default."""
    if key not in config.as_settings(config.Config()):
        raise UsageError(f"{key} is not a setting; see `lembas config list`", EXIT_USAGE)
    try:
        read = YAML(typ="safe", pure=True).load(value)
    except YAMLError as error:
        raise UsageError(
            f"{value!r} is no value; write it as in config.yaml", EXIT_USAGE
        ) from error
    config.set_value(find_paths().config_file, key, read)
    return EXIT_DONE


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(one) for one in value) or "[]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)
