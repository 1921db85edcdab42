"""`lembasd logs`."""

import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import click
import msgspec

from lembasd.cli.log_reading import Line, Wanted, lines, read_since
from lembasd.device.log_file import files
from lembasd.device.logging import LEVELS, readable
from lembasd.device.paths import find_paths
from lembasd.protocol.errors import EXIT_DONE, UsageError

#: how often a log that is followed is looked at
LOOK_S: Final = 0.2
#: lines that are shown of what was there before, where one follows and says nothing else
FIRST_LINES: Final = 20
_COLOURS: Final = {"debug": "bright_black", "warning": "yellow", "error": "red"}
_SAID_BEFORE: Final = ("timestamp", "level", "event", "component")


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option("--level", type=click.Choice(list(LEVELS)), default="debug", help="Of this level up.")
@click.option("--since", metavar="WHEN", help="10m, 2h, 3d ago, or 2026-01-31T12:00.")
@click.option(
    "--session", metavar="ID", default="", help="A session's or terminal's id, or its start."
)
@click.option("-n", "--lines", "last", type=click.IntRange(0), help="The last so many lines.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, as it is written.")
def logs(
    follow: bool, level: str, since: str | None, session: str, last: int | None, as_json: bool
) -> int:
    """The log, with the files that were turned over; needs no hub."""
    directory = find_paths().log
    after = read_since(since, datetime.now(UTC)) if since else ""
    if not files(directory) and not follow:
        raise UsageError(f"there is no log in {directory} yet; start lembasd with `lembasd run`")
    if follow and last is None and not since:
        last = FIRST_LINES
    wanted = Wanted(level=level, since=after, session=session)
    show = _show_json if as_json else _show
    found = filter(wanted.takes, lines(directory))
    if not follow:
        for line in found if last is None else deque(found, last):
            show(line)
        return EXIT_DONE
    following = _Following(show, last)
    for line in filter(wanted.takes, lines(directory, following.wait)):
        following.take(line)
    return EXIT_DONE


class _Following:
    """Of what was there before, shows the last lines; of what comes, all."""

    def __init__(self, show: Callable[[Line], None], last: int | None) -> None:
        self._show = show
        self._before = deque[Line](maxlen=last)
        self._live = False

    def take(self, line: Line) -> None:
        if self._live:
            self._show(line)
        else:
            self._before.append(line)

    def wait(self) -> None:
        """Everything that is there has been taken."""
        while self._before:
            self._show(self._before.popleft())
        self._live = True
        time.sleep(LOOK_S)


def _show_json(line: Line) -> None:
    if line.fields is not None:
        click.echo(line.raw)


def _show(line: Line) -> None:
    fields = line.fields
    if fields is None:
        click.echo(readable(line.raw.decode(errors="backslashreplace")))
        return
    level, event = str(fields.get("level", "")), str(fields.get("event", ""))
    head = f"{_local(str(fields.get('timestamp', '')))} {level:7} {fields.get('component', ''):6} "
    said = " ".join(
        f"{key}={_value(value)}" for key, value in fields.items() if key not in _SAID_BEFORE
    )
    colour = _COLOURS.get(level)
    name = click.style(event, fg=colour, bold=colour is not None)
    click.echo(f"{head}{name}  {readable(said)}".rstrip())


def _local(timestamp: str) -> str:
    """A timestamp as this machine's clocks show it; what is none, as it stands."""
    try:
        return f"{datetime.fromisoformat(timestamp).astimezone():%Y-%m-%d %H:%M:%S}"
    except ValueError:
        return readable(timestamp)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value.replace("\n", "\n    ")
    return msgspec.json.encode(value).decode()
