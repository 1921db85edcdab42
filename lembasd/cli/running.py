"""How every command runs and ends: one sentence for what went wrong, and the exit codes of docs/operators.md."""

import asyncio
import importlib
import io
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from lembasd import __version__
from lembasd.protocol.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    LembasError,
    UsageError,
    says,
)

R = TypeVar("R")


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used, so that a short command starts fast.

    `lazy` maps a command's name to "module:attribute".
    """

    def __init__(self, *args: Any, lazy: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy: Final = dict(lazy or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        target = self._lazy.get(cmd_name)
        if target is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = target.partition(":")
        try:
            command = getattr(importlib.import_module(module), attribute)
        except ImportError as error:
            if ctx.resilient_parsing or _asks_for_help():
                return None  # the other commands can still be listed
            raise UsageError(
                f"`{cmd_name}` cannot be loaded ({error}); install lembasd again"
            ) from error
        return command if isinstance(command, click.Command) else None


def _asks_for_help() -> bool:
    return len(sys.argv) < 2 or sys.argv[1] in ("--help", "-h")


def main(group: click.Command, name: str) -> int:
    """Run a command line; the process' exit code. No traceback for what was to be expected."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # a terminal that cannot show a € is shown a ? for it
        sys.stdout.reconfigure(errors="replace")
    try:
        value = group.main(prog_name=name, standalone_mode=False)
    except click.exceptions.Abort:
        return EXIT_INTERRUPTED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.exceptions.NoArgsIsHelpError as shown:
        shown.show()
        return EXIT_USAGE
    except click.ClickException as error:
        say_error(_with_help(error))
        return EXIT_USAGE
    except LembasError as error:
        say_error(str(error))
        return error.exit_code
    except BrokenPipeError:
        # whoever read has enough; what Python still holds for stdout must not fail at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except OSError as error:
        say_error(sentence(error))
        return EXIT_FAILED
    return value if isinstance(value, int) else 0


def _with_help(error: click.ClickException) -> str:
    """What is wrong with a command line, and where it is said how it goes."""
    said, ctx = error.format_message(), getattr(error, "ctx", None)
    return said if ctx is None else f"{said.removesuffix('.')}; see `{ctx.command_path} --help`"


def sentence(error: LembasError | OSError) -> str:
    """What an error says to a person."""
    if isinstance(error, LembasError):
        return str(error)
    return says(error)


def say_error(sentence: str) -> None:
    """One line to stderr."""
    click.echo(sentence, err=True)


def say_json(value: Any) -> None:
    """One JSON value, readable."""
    click.echo(msgspec.json.format(msgspec.json.encode(value)).decode())


def run_async(main: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run a coroutine function to its exit code."""
    return asyncio.run(main())


def version_option(name: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """`--version` of the command `name`."""
    return click.version_option(__version__, prog_name=name, message="%(prog)s %(version)s")


def directory(text: str) -> Path:
    """A directory that a person named, resolved. Raises UsageError; an empty name (an unset variable) is none."""
    path = Path(text).expanduser()
    if not text or not path.is_dir():
        raise UsageError(f"{text!r} is not a directory; make it, or name another")
    return path.resolve()
