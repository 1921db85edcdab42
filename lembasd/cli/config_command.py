"""`lembas config`: config.yaml from the command line, comments kept."""

import asyncio
from typing import Any

import click
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from lembasd.cli import running
from lembasd.cli.persons import persons_only
from lembasd.device import config
from lembasd.device.paths import Paths, find_paths
from lembasd.link.core.personalization import FIELDS
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
    paths = find_paths()
    loaded = config.load(paths.config_file)
    values = config.as_settings(loaded.config)
    if as_json:
        running.say_json(values)
    else:
        for key, value in values.items():
            click.echo(f"{key}: {shown(value)}")
    for warning in loaded.warnings:
        running.say_error(warning)
    if paths.credentials_file.exists():
        # not asked for here: a list of what stands in a file must not wait for a network
        running.say_error(
            f"while you are logged in your account may have its own {', '.join(FIELDS)}; "
            "see `lembas config get personality`"
        )
    return EXIT_DONE


@config_group.command("get")
@click.argument("key")
def get(key: str) -> int:
    """The value of KEY (dots name blocks: remote.max_mode).

    Of personality, personality_custom and instructions it is your account's while you are logged in.
    """
    paths = find_paths()
    values = config.as_settings(config.load(paths.config_file).config)
    if key not in values:
        raise _unknown(key)
    if key in FIELDS:
        # imported here alone: an HTTP client is most of what a command takes to start
        from lembasd.cli import account_settings, presets

        local = {name: values[name] for name in FIELDS}
        values = asyncio.run(account_settings.effective(paths, local))
        if key == "personality":
            values[key] = presets.known(values[key])
    click.echo(shown(values[key]))
    return EXIT_DONE


@config_group.command("set")
@click.argument("key")
@click.argument("value")
@persons_only
def set_value(key: str, value: str) -> int:
    """Set KEY to VALUE, written as in config.yaml; null takes the default.

    Of personality, personality_custom and instructions your account's is set while you are logged in.
    """
    said = asyncio.run(change(find_paths(), key, value))
    if said:
        click.echo(said)
    if key == "personality":
        from lembasd.cli import presets

        presets.known(_read(key, value))  # it is set all the same: an instance may know more
    return EXIT_DONE


async def change(paths: Paths, key: str, value: str) -> str:
    """Set it, where it counts; what the person is told beside. Raises UsageError, ConfigError, what the API does."""
    if key not in config.as_settings(config.Config()):
        raise _unknown(key)
    read = _read(key, value)
    if key in FIELDS:
        from lembasd.cli import account_settings

        server = await account_settings.change(paths, key, read)
        if server is not None:
            return f"set for your account at {server}; config.yaml stays as it is"
    config.set_value(paths.config_file, key, read)
    return ""


def _unknown(key: str) -> UsageError:
    return UsageError(f"{key} is not a setting; see `lembas config list`", EXIT_USAGE)


def _read(key: str, value: str) -> Any:
    """What a person wrote, as YAML reads it; of a text whatever YAML would make something else of. Raises UsageError."""
    try:
        read = YAML(typ="safe", pure=True).load(value)
    except (YAMLError, ValueError) as error:
        if config.is_text(key):
            return value
        raise UsageError(
            f"{value!r} is no value; write it as in config.yaml", EXIT_USAGE
        ) from error
    if not config.is_text(key) or isinstance(read, str):
        return read
    return None if value.strip() in ("null", "~", "") else value


def shown(value: Any) -> str:
    """A value as it is written on a command line."""
    if isinstance(value, list):
        return ", ".join(str(one) for one in value) or "[]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)
