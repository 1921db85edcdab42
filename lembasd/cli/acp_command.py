"""`lembas acp` and `lembas serve --stdio`: an agent for editors that speak ACP."""

import click

from lembasd.cli.persons import persons_only
from lembasd.device.paths import find_paths
from lembasd.protocol.errors import EXIT_USAGE, UsageError

_EXAMPLES = """\b
Example, for Zed's settings.json:
  "agent_servers": {"LLeMbas": {"command": "lembas", "args": ["acp"]}}
"""


@click.command("acp", epilog=_EXAMPLES)
@persons_only
def acp() -> int:
    """Speak ACP on standard input and output, for an editor. Starts the service where none runs."""
    from lembasd.cli.stdio_bridge import serve as bridge

    return bridge(find_paths())


@click.command("serve", epilog=_EXAMPLES)
@click.option("--stdio", is_flag=True, help="On standard input and output; there is no other way.")
@persons_only
def serve(stdio: bool) -> int:
    """The same as `lembas acp`."""
    if not stdio:
        raise UsageError("say where, as in `lembas serve --stdio`", EXIT_USAGE)
    from lembasd.cli.stdio_bridge import serve as bridge

    return bridge(find_paths())
