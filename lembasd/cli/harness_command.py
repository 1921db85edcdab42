"""`lembasd harness`: the harness' data, checked and run against this implementation."""

from pathlib import Path
from typing import Any

import click
import msgspec

from lembasd.cli import running
from lembasd.protocol.errors import EXIT_DONE, EXIT_FAILED


@click.group("harness")
def harness() -> None:
    """The harness: tools, texts, modes and numbers, and the cases that hold them."""


@harness.command("check")
def check() -> int:
    """Validate the data and run every conformance case."""
    from lembasd.engine.native import conformance
    from lembasd.harness import validation

    problems = list(validation.problems())
    areas = conformance.load()
    problems += [
        f"{failure.area}: {failure.case}: expected {_shown(failure.expected)}, "
        f"answered {_shown(failure.answered)}"
        for failure in conformance.check(areas)
    ]
    for problem in problems:
        running.say_error(problem)
    cases = sum(len(area.cases) for area in areas)
    if problems:
        return EXIT_FAILED
    click.echo(f"harness {validation.VERSION}: {cases} cases in {len(areas)} areas hold")
    return EXIT_DONE


@harness.command("record")
@click.option("--all", "every", is_flag=True, help="Every case whose answer has changed too.")
@click.option(
    "--write",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="The folder of the cases (lembasd/harness/conformance in a checkout) to write them to.",
)
def record(every: bool, write: Path | None) -> int:
    """Propose what new cases are to expect, for review."""
    from lembasd.engine.native import conformance

    for area in conformance.load():
        changed = False
        for case in area.cases:
            answer = conformance.answered(conformance.RULES[area.area], case)
            if answer == case.expect or (case.expect is not None and not every):
                continue
            click.echo(f"{area.area}: {case.name}: {_shown(case.expect)} -> {_shown(answer)}")
            case.expect, changed = answer, True
        if changed and write is not None:
            text = msgspec.json.format(msgspec.json.encode(area), indent=1)
            (write / f"{area.area}.json").write_bytes(text + b"\n")
    return EXIT_DONE


def _shown(value: Any) -> str:
    return msgspec.json.encode(value).decode()
