"""`lembasd`: the service."""

import sys

import click

from lembasd.cli import running
from lembasd.device import dumps


@click.group(
    cls=running.LazyGroup,
    lazy={
        "reload": "lembasd.cli.reload_command:reload",
        "status": "lembasd.cli.status_command:status",
        "doctor": "lembasd.cli.doctor_command:doctor",
        "install": "lembasd.cli.install_command:install",
        "uninstall": "lembasd.cli.install_command:uninstall",
        "metrics": "lembasd.cli.metrics_command:metrics",
        "top": "lembasd.cli.top_command:top",
        "logs": "lembasd.cli.logs_command:logs",
        "harness": "lembasd.cli.harness_command:harness",
    },
)
@running.version_option("lembasd")
def service() -> None:
    """The lembasd service: run it, look at it, update it, stop it."""


@service.command("run")
@click.option("--check", is_flag=True, help="Check imports, configuration and versions, then exit.")
@click.option("--json", "as_json", is_flag=True, help="With --check: one JSON object.")
def run(check: bool, as_json: bool) -> int:
    """Run the hub in the foreground (what a service manager starts)."""
    from lembasd.hub import main as hub

    if check:
        from lembasd.cli.checking import check_install

        return check_install(as_json=as_json)
    if as_json:
        raise click.UsageError("--json goes with --check")
    from lembasd.cli.service_managers.api import refuse_beside
    from lembasd.device.paths import find_paths

    refuse_beside(find_paths())
    return hub.main(portable=hub.is_portable())


@service.command("stop")
def stop() -> int:
    """Stop everything: running turns are cancelled, workers and terminals end."""
    from lembasd.cli.persons import refuse_agents
    from lembasd.cli.stopping import stop_all

    refuse_agents()
    return running.run_async(stop_all)


def main() -> int:
    """The console script; the exit code."""
    # some commands have the login's token in their hands
    dumps.forbid_cores()
    return running.main(service, "lembasd")


if __name__ == "__main__":
    sys.exit(main())
