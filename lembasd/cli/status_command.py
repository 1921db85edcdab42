"""`lembasd status`."""

from typing import Any

import click

from lembasd.cli import hub_status, running
from lembasd.device.lock import all_gone, hub_pid, member_pids
from lembasd.device.paths import find_paths
from lembasd.protocol.errors import EXIT_DONE, EXIT_NOT_RUNNING


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def status(as_json: bool) -> int:
    """What runs: hub, link, workers, terminals, clients. Exits 3 when no hub runs; never starts one."""
    paths = find_paths()
    if hub_pid(paths) is None:
        left = not all_gone(paths)
        pids = member_pids(paths) if left else []
        if as_json:
            running.say_json({"running": False, "processes_left": left, "pids": pids})
        elif left:
            who = f" (pids {', '.join(map(str, pids))})" if pids else ""
            click.echo(
                f"no hub runs, but workers do{who}; start it with `lembasd run`, or `lembasd stop`"
            )
        else:
            click.echo("lembasd is not running; start it with `lembasd run`")
        return EXIT_NOT_RUNNING

    async def ask() -> int:
        value = await hub_status.ask(paths)
        if as_json:
            running.say_json({"running": True, **value})
        else:
            _print(value)
        return EXIT_DONE

    return running.run_async(ask)


def _print(value: dict[str, Any]) -> None:
    hub, link = value["hub"], value["link"]
    click.echo(f"hub        pid {hub['pid']}, version {hub['version']}, {hub['socket']}")
    state = f"{link['state']}, {link['server']}" if link.get("server") else link["state"]
    click.echo(f"link       {state}" + (f": {link['reason']}" if link.get("reason") else ""))
    for problem in filter(None, [value.get("config_problem")]):
        click.echo(f"config     {problem}")
    for alarm in value.get("alarms", []):
        click.echo(f"alarm      {alarm['text']}")
    for one in value["zygotes"]:
        what = "spare" if one["spare"] else "zygote"
        click.echo(
            f"{what:10} {one['kind']}, pid {one['pid']}{_version(one)}"
            + ("" if one["ready"] else ", loads")
            + (", ends with its last process" if one.get("earlier") else "")
        )
    for worker in value["workers"]:
        turn = f", turn {worker['turn_id']}" if worker.get("turn_id") else ""
        click.echo(
            f"session    {worker['session_id']}  pid {worker['pid']}{_version(worker)}, {worker['state']}{turn}"
            f"  {worker.get('root', '')}"
        )
    for terminal in value["terminals"]:
        said = ", unresponsive" if terminal.get("state") == "unresponsive" else ""
        click.echo(
            f"terminal   {terminal['terminal_id']}  pid {terminal['pid']}{_version(terminal)}{said}"
        )
    for one in value.get("strangers", []):
        low, high = one["protocol"]
        click.echo(
            f"left out   {one['channel'] or one['role']}  pid {one['pid']}{_version(one)}, "
            f"speaks protocol {low} to {high}"
        )
    for one in value["clients"]:
        pid = f", pid {one['pid']}" if one.get("pid") else ""
        click.echo(f"client     {one['kind']}{pid}")


def _version(process: dict[str, Any]) -> str:
    """Which version it runs, once that is known."""
    return f", version {process['version']}" if process.get("version") else ""
