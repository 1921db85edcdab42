"""`lembas usage`: what this month took at the instance."""

import click

from lembasd.cli import logged_in, running
from lembasd.device.paths import find_paths
from lembasd.link.core.faults import plain
from lembasd.link.core.money import amounts
from lembasd.protocol.errors import EXIT_DONE
from lembasd.protocol.http_api import Usage


@click.command()
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object; null where nothing is counted."
)
def usage(as_json: bool) -> int:
    """This month's tokens and cost, each currency by itself."""
    login = logged_in.required(find_paths())

    async def work() -> int:
        async with logged_in.api(login) as api:
            told = await api.usage()
        if as_json:
            running.say_json(told)
        elif told is None:
            click.echo("this instance does not count use")
        else:
            click.echo("\n".join(lines(told)))
        return EXIT_DONE

    return running.run_async(work)


def lines(told: Usage) -> list[str]:
    """What a person is told of it."""
    month = told.month
    since = f" since {plain(month.since[:10])}" if isinstance(month.since, str) else ""
    said = [
        f"this month   {_tokens(month.tokens_in, month.tokens_out)}{since}",
        f"this device  {_tokens(told.device.tokens_in, told.device.tokens_out)}",
    ]
    if month.cost_by_currency:
        said.append(f"cost         {amounts(month.cost_by_currency)}")
    return said


def _tokens(read: int, written: int) -> str:
    return f"{read:,} tokens in, {written:,} out"
