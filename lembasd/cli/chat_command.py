"""`lembas` without a command, and `lembas attach`: a chat in this terminal.

What the first picture on the screen does not need is imported when it is used: a person waits for that picture.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click

from lembasd.cli.session_completion import complete
from lembasd.device.paths import Paths, find_paths
from lembasd.ipc.client import HubClient
from lembasd.protocol.errors import ConfigError, UsageError
from lembasd.tui.ports import Defaults, Model, Setting


@click.command()
@click.argument("session", metavar="ID", shell_complete=complete)
def attach(session: str) -> int:
    """A further terminal on a session: its id, or as much of it as names no other."""
    return resume(session)


def chat() -> int:
    """A new chat in this directory."""
    return _run(find_paths(), "")


def go_on() -> int:
    """The last session of this directory; without one a new chat."""
    from lembasd.cli import session_ids

    paths = find_paths()
    return _run(paths, session_ids.last_in(paths, Path.cwd()) or "")


def resume(session: str) -> int:
    """The session that `session` is or begins. Raises UsageError."""
    from lembasd.cli import session_ids

    paths = find_paths()
    return _run(paths, session_ids.resolve(paths, session))


def _run(paths: Paths, session: str) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("lembas needs a terminal; `lembas --help` says what else there is")
    from lembasd.tui.run import run

    return run(paths, CommandPorts(paths), os.getcwd(), session)  # noqa: PTH109 - links are kept


class CommandPorts:
    """What the commands do, for the terminal program."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    async def connect(self, client: HubClient, say: Callable[[str], None]) -> None:
        from lembasd.cli import starting
        from lembasd.cli.persons import refuse_agents

        refuse_agents()
        await starting.connected(self._paths, client, say)

    async def usage(self) -> str:
        from lembasd.cli import logged_in, usage_command

        async with logged_in.api(logged_in.required(self._paths)) as api:
            told = await api.usage()
        if told is None:
            return "this instance does not count use"
        return "\n".join(usage_command.lines(told))

    async def month(self) -> str:
        from lembasd.cli import logged_in
        from lembasd.link.core.money import amounts

        login = logged_in.find(self._paths)
        if login is None:
            return ""
        async with logged_in.api(login) as api:
            told = await api.usage()
        return "" if told is None else amounts(told.month.cost_by_currency)

    async def models(self) -> list[Model]:
        from lembasd.cli import logged_in, models_command

        async with logged_in.api(logged_in.required(self._paths)) as api:
            listed = await api.models()
        return [
            Model(one.id, "; ".join(models_command.facts(one)), tuple(models_command.levels(one)))
            for one in models_command.for_chat(listed)
        ]

    async def settings(self) -> list[Setting]:
        from lembasd.cli import account_settings, config_command
        from lembasd.device import config
        from lembasd.link.core.personalization import FIELDS

        values = config.as_settings(config.load(self._paths.config_file).config)
        account = await account_settings.effective(
            self._paths, {name: values[name] for name in FIELDS}
        )
        whose = "account" if await account_settings.is_accounts(self._paths) else "this device"
        mine = [Setting(key, config_command.shown(account[key]), whose) for key in FIELDS]
        return mine + [
            Setting(key, config_command.shown(value), "this device")
            for key, value in values.items()
            if key not in FIELDS
        ]

    async def change(self, key: str, value: str) -> str:
        from lembasd.cli import config_command

        return await config_command.change(self._paths, key, value) or f"{key} is set"

    def defaults(self) -> Defaults:
        from lembasd.device import config

        try:
            read = config.load(self._paths.config_file).config
        except ConfigError:
            return Defaults("", "", "")
        return Defaults(read.model or "", read.mode, read.effort)

    def command(self, arguments: tuple[str, ...]) -> int:
        return subprocess.call(
            [sys.executable, "-m", "lembasd.cli.person", *arguments], cwd=Path.cwd()
        )
