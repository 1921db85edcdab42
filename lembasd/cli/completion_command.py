"""`lembas completion`: what a shell reads so that it completes our command lines."""

import click
from click.shell_completion import get_completion_class

from lembasd.cli import running
from lembasd.protocol.errors import EXIT_DONE, EXIT_FAILED, UsageError

_EXAMPLES = """\b
Examples:
  eval "$(lembas completion bash)"                                 in ~/.bashrc
  eval "$(lembas completion zsh)"                                  in ~/.zshrc
  lembas completion fish > ~/.config/fish/completions/lembas.fish
"""


@click.command("completion", epilog=_EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option(
    "--for",
    "name",
    type=click.Choice(["lembas", "lembasd"]),
    default="lembas",
    show_default=True,
    help="The command that is completed.",
)
def completion(shell: str, name: str) -> int:
    """Print what has SHELL complete commands, options and the ids of sessions."""
    made = get_completion_class(shell)
    if made is None:
        raise UsageError(f"{shell} is not known here; update click", EXIT_FAILED)
    variable = f"_{name.upper()}_COMPLETE"
    click.echo(made(running.LazyGroup(name), {}, name, variable).source())
    return EXIT_DONE
