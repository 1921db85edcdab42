"""`lembas`: what a person does."""

import sys

import click

from lembasd.cli import running
from lembasd.cli.session_completion import complete
from lembasd.device import dumps
from lembasd.protocol.errors import EXIT_DONE

_LAZY = {
    "attach": "lembasd.cli.chat_command:attach",
    "completion": "lembasd.cli.completion_command:completion",
    "acp": "lembasd.cli.acp_command:acp",
    "serve": "lembasd.cli.acp_command:serve",
    "login": "lembasd.cli.login_command:login",
    "logout": "lembasd.cli.login_command:logout",
    "whoami": "lembasd.cli.login_command:whoami",
    "models": "lembasd.cli.models_command:models",
    "usage": "lembasd.cli.usage_command:usage",
    "trust": "lembasd.cli.trust_command:trust_group",
    "remote": "lembasd.cli.remote_command:remote",
    "service": "lembasd.cli.remote_command:service_switches",
    "sessions": "lembasd.cli.sessions_command:sessions",
    "term": "lembasd.cli.term_command:term",
    "config": "lembasd.cli.config_command:config_group",
    "instance": "lembasd.cli.instance_command:instance",
    "demo": "lembasd.cli.demo_command:demo",
}


_EXAMPLES = """\b
Examples:
  lembas                                      a chat with an agent in this directory
  lembas -c                                   go on with the last one of this directory
  lembas login --server https://lembas.example.org
  lembas -p "what does this project do?"      one prompt, its answer (`lembas -p --help`)
  lembas sessions list                        what there is
  lembas remote add ~/work                    let the instance work there
  eval "$(lembas completion bash)"            completion, for zsh and fish too
"""


@click.group(cls=running.LazyGroup, lazy=_LAZY, invoke_without_command=True, epilog=_EXAMPLES)
@click.option(
    "-c",
    "--continue",
    "goes_on",
    is_flag=True,
    help="Go on with the last session of this directory.",
)
@click.option(
    "--resume",
    metavar="ID",
    shell_complete=complete,
    help="Go on with a session: its id, or the beginning of it.",
)
@running.version_option("lembas")
@click.pass_context
def person(ctx: click.Context, goes_on: bool, resume: str | None) -> int:
    """Your side of lembasd. Without a command: chat with an agent in this directory."""
    if ctx.invoked_subcommand is not None:
        return EXIT_DONE
    # imported here alone: the other commands need none of it
    from lembasd.cli import chat_command

    if resume is not None:
        return chat_command.resume(resume)
    return chat_command.go_on() if goes_on else chat_command.chat()


def _prints(arguments: list[str]) -> bool:
    """Whether it is `lembas -p`: it names no command, and has the option."""
    names_command = not arguments or not arguments[0].startswith("-")
    return not names_command and not {"-p", "--print"}.isdisjoint(arguments)


def main() -> int:
    """The console script; the exit code."""
    # some commands have the login's token in their hands
    dumps.forbid_cores()
    if _prints(sys.argv[1:]):
        # imported here alone: the other commands need none of it
        from lembasd.cli.print_command import print_answer

        return running.main(print_answer, "lembas")
    return running.main(person, "lembas")


if __name__ == "__main__":
    sys.exit(main())
