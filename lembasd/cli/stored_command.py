"""`lembas sessions show|export|search|share`: what is in the stored sessions. But for `share` no hub is needed."""

import sys
import time
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from lembasd.cli import running, session_ids, starting
from lembasd.cli.core import exported
from lembasd.cli.persons import persons_only
from lembasd.cli.session_completion import complete
from lembasd.device.paths import Paths, find_paths
from lembasd.ipc.client import HubClient
from lembasd.ipc.connect import NoHub
from lembasd.protocol.errors import EXIT_DONE, EXIT_FAILED, UsageError, says
from lembasd.store import catalogue
from lembasd.store.core.fold import SessionView, fold
from lembasd.store.journal import NoSession, read

_TITLE_CHARS: Final = 60
_SEARCHES: Final = """\b
Examples:
  lembas sessions search flaky test
  lembas sessions search --json parser | jq -r '.sessions[].session_id'
"""
_EXPORTS: Final = """\b
Examples:
  lembas sessions export 7de0 -o session.md
  lembas sessions export 7de0 --format json | jq '.turns | length'
"""


def _view(paths: Paths, text: str) -> tuple[str, SessionView]:
    """The session that is meant, and what its journal says. Raises UsageError."""
    session_id = session_ids.resolve(paths, text)
    try:
        return session_id, fold(read(paths, session_id).records)
    except NoSession:
        raise UsageError(f"there is no session {session_id}; see `lembas sessions list`") from None
    except OSError as error:
        raise UsageError(f"the session cannot be read: {says(error)}") from error


@click.command("show")
@click.argument("session", metavar="ID", shell_complete=complete)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def show(session: str, as_json: bool) -> int:
    """What was said in a session, without what tools gave. As much of the ID as names no other will do."""
    session_id, view = _view(find_paths(), session)
    if as_json:
        running.say_json(exported.as_value(session_id, view))
    else:
        click.echo(_plain(exported.as_markdown(session_id, view, outputs=False)), nl=False)
    return EXIT_DONE


@click.command("export", epilog=_EXPORTS)
@click.argument("session", metavar="ID", shell_complete=complete)
@click.option(
    "--format",
    "output",
    type=click.Choice(["markdown", "json"]),
    default="markdown",
    show_default=True,
)
@click.option(
    "-o", "--output", "file", type=click.Path(dir_okay=False), help="A file, not there yet."
)
def export(session: str, output: str, file: str | None) -> int:
    """A session as Markdown or JSON, to standard output or a file."""
    session_id, view = _view(find_paths(), session)
    if output == "json":
        value = exported.as_value(session_id, view)
        text = msgspec.json.format(msgspec.json.encode(value)).decode() + "\n"
    else:
        text = exported.as_markdown(session_id, view)
    if file is None:
        click.echo(_plain(text) if sys.stdout.isatty() else text, nl=False)
        return EXIT_DONE
    try:
        with Path(file).open("x", encoding="utf-8", errors="surrogatepass") as out:
            out.write(text)
    except FileExistsError:
        raise UsageError(f"{file} is there already; name another file") from None
    return EXIT_DONE


@click.command("search", epilog=_SEARCHES)
@click.argument("words", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def search(words: tuple[str, ...], as_json: bool) -> int:
    """The sessions in which all these words were said in one message, the best match first."""
    found = catalogue.search(find_paths(), " ".join(words))
    if as_json:
        rows = [{**msgspec.to_builtins(one), "excerpt": _bare(one.excerpt)} for one in found]
        running.say_json({"sessions": rows})
        return EXIT_DONE
    for one in found:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.changed))
        title = " ".join(_plain(one.title).split()) or "(no title)"
        click.echo(f"{one.session_id}  {when}  {title[:_TITLE_CHARS]}  {_plain(one.root)}")
        click.echo(f"    {_marked(one.excerpt)}")
    if not found:
        running.say_error("these words were said in no session")
    return EXIT_DONE if found else EXIT_FAILED


@click.command("share")
@click.argument("session", metavar="ID", shell_complete=complete)
@click.option("--off", is_flag=True, help="Show it to the instance no more.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@persons_only
def share(session: str, off: bool, as_json: bool) -> int:
    """Show a session to the instance, which may go on with it inside the limits of `lembas remote`."""
    paths = find_paths()
    session_id = session_ids.resolve(paths, session)

    async def work() -> int:
        client = HubClient()
        try:
            await starting.connected(paths, client)
            await client.request("initialize", {})
            asked = {"sessionId": session_id, "shared": not off}
            answer: dict[str, Any] = msgspec.json.decode(await client.request("_hub/share", asked))
        except (NoHub, TimeoutError) as error:
            raise UsageError(f"the hub did not answer ({error}); try again") from error
        finally:
            client.close()
        if as_json:
            running.say_json({"session_id": session_id, **answer})
        else:
            how = "is shown to the instance" if answer["shared"] else "is shown no more"
            click.echo(f"{session_id} {how}")
        return EXIT_DONE

    return running.run_async(work)


def _marked(excerpt: str) -> str:
    """An excerpt as one line, what was found in bold."""
    begin, end = catalogue.MARKS
    line = " ".join(excerpt.split())
    parts = [_plain(one) for one in line.replace(end, begin).split(begin)]
    return "".join(click.style(one, bold=True) if n % 2 else one for n, one in enumerate(parts))


def _bare(excerpt: str) -> str:
    return excerpt.translate(dict.fromkeys(map(ord, catalogue.MARKS)))


def _plain(text: str) -> str:
    """A text of somebody's with its lines, and nothing in it that a terminal would obey."""
    return "".join(one if one.isprintable() or one in "\n\t" else " " for one in text)
