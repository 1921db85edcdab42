"""`lembas models`: the models of the instance that a session can run on."""

from typing import Any, Final

import click
import msgspec

from lembasd.cli import logged_in, running
from lembasd.device.paths import find_paths
from lembasd.engine.native.core import model_list
from lembasd.engine.native.core.levels import DEFAULT, ModelInfo, offered
from lembasd.link.core import model_kinds
from lembasd.link.core.faults import plain
from lembasd.link.core.money import amount
from lembasd.protocol.errors import EXIT_DONE

_KILO: Final = 1000


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def models(as_json: bool) -> int:
    """The instance's models for chats.

    The one of a new session is marked.
    """
    login = logged_in.required(find_paths())

    async def work() -> int:
        async with logged_in.api(login) as api:
            listed = await api.models()
            chosen = login.config.model or (await api.about()).default_model
        found = for_chat(listed)
        chosen = model_kinds.served(chosen, listed, login.credentials.connection)
        if as_json:
            running.say_json({"default": chosen, "models": msgspec.to_builtins(found)})
        else:
            _print(found, chosen)
        if chosen is not None and all(chosen != one.id for one in found):
            where = "of config.yaml " if login.config.model else ""
            running.say_error(
                f"the default model {where}({plain(chosen)}) is not among them; "
                "choose one with `lembas config set model NAME`"
            )
        return EXIT_DONE

    return running.run_async(work)


def for_chat(listed: Any) -> list[ModelInfo]:
    """The models for chats of an instance's list."""
    return [model_list.read(entry) for entry in model_kinds.for_chat(listed)]


def levels(one: ModelInfo) -> list[str]:
    """The efforts that it takes."""
    return offered(one)


def _print(found: list[ModelInfo], chosen: str | None) -> None:
    if not found:
        click.echo("this instance has no model for chats; add one there")
    wide = max((len(plain(one.id)) for one in found), default=0)
    for one in found:
        mark = "*" if one.id == chosen else " "
        click.echo(f"{mark} {plain(one.id):{wide}}  {'; '.join(facts(one))}".rstrip())


def facts(one: ModelInfo) -> list[str]:
    """What is known of a model, for a person."""
    facts = [plain(one.name)] if one.name and one.name != one.id else []
    if one.context is not None:
        facts.append(f"{one.context // _KILO or 1}k tokens")
    levels = offered(one)
    if levels != [DEFAULT]:
        facts.append(f"effort {', '.join(plain(level) for level in levels)}")
    if one.vision:
        facts.append("sees images")
    if one.tools is False:
        facts.append("takes no tools")
    if one.price is not None:
        asked, given = (
            amount(one.price.currency, value) for value in (one.price.input, one.price.output)
        )
        facts.append(f"{asked} in, {given} out a million tokens")
    return facts
