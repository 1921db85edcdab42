"""`lembas`: what a person does."""

import sys

import click

from lembasd.cli import running
from lembasd.device import dumps

_LAZY = {
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
  lembas login --server https://lembas.example.org
  lembas -p "what does this project do?"      one prompt, its answer (`lembas -p --help`)
  lembas sessions list                        what there is
  lembas remote add ~/work                    let the instance work there
  eval "$(lembas completion bash)"            completion, for zsh and fish too
"""


@click.group(cls=running.LazyGroup, lazy=_LAZY, epilog=_EXAMPLES)
@running.version_option("lembas")
def person() -> None:
    """Your side of lembasd: log in, say what the instance may do here, try it."""


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
