"""`lembas -p`: one prompt, its answer on standard output."""

import sys
from pathlib import Path
from typing import Final

import click

from lembasd.cli import running, session_ids
from lembasd.cli.persons import persons_only
from lembasd.cli.session_completion import complete
from lembasd.device.paths import find_paths
from lembasd.protocol.acp import MODES
from lembasd.protocol.errors import EXIT_USAGE, UsageError

_EXAMPLES: Final = """\b
Examples:
  lembas -p "what does this project do?"
  git diff | lembas -p "review this" --mode plan
  lembas -p --resume 7de0 "and now the tests" --output-format json
"""


@click.command("lembas", epilog=_EXAMPLES)
@click.option(
    "-p",
    "--print",
    is_flag=True,
    required=True,
    expose_value=False,
    help="Print the answer, and leave.",
)
@click.argument("prompt", nargs=-1)
@click.option(
    "--output-format",
    "output",
    type=click.Choice(["text", "json", "stream-json"]),
    default="text",
    show_default=True,
    help="The answer alone; one JSON object; or each event as a line, and the object.",
)
@click.option("--mode", type=click.Choice(MODES), help="What may be done without asking.")
@click.option("--model", help="The model, as the instance names it.")
@click.option("--effort", help="How much the model is to think.")
@click.option("-c", "--continue", "goes_on", is_flag=True, help="Go on with the last session here.")
@click.option(
    "--resume",
    metavar="ID",
    shell_complete=complete,
    help="Go on with a session: its id, or the start of it.",
)
@click.option("--max-steps", type=click.IntRange(1), help="Stop the turn after so many steps.")
@persons_only
def print_answer(
    prompt: tuple[str, ...],
    output: str,
    mode: str | None,
    model: str | None,
    effort: str | None,
    goes_on: bool,
    resume: str | None,
    max_steps: int | None,
) -> int:
    """One prompt, its answer on standard output. Without a PROMPT it is read from standard input.

    Nobody is there to approve anything: what the mode and the rules do not allow is denied, and told on standard error.
    Ctrl-C cancels the turn; a second one leaves it running.
    """
    from lembasd.cli.printing import Printing, Wanted, to_stdout

    paths = find_paths()
    session = ""
    if resume is not None:
        session = session_ids.resolve(paths, resume)
    elif goes_on:
        session = session_ids.last_in(paths, Path.cwd()) or ""
        if not session:
            raise UsageError(
                "there is no session of this directory yet; leave out `-c`", EXIT_USAGE
            )
    wanted = Wanted(
        text=_text(prompt),
        cwd=Path.cwd(),
        session=session,
        output=output,
        mode=mode,
        model=model,
        effort=effort,
        max_steps=max_steps,
    )
    return running.run_async(lambda: Printing(paths, wanted, to_stdout).run())


def _text(prompt: tuple[str, ...]) -> str:
    text = " ".join(prompt)
    if not text and not sys.stdin.isatty():
        text = sys.stdin.read()
    if not text.strip():
        raise UsageError(
            'there is no prompt; write one after `-p`, as in `lembas -p "…"`', EXIT_USAGE
        )
    return text
