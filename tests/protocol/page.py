"""What of the link is held by which test. `python -m tests.protocol.page` writes docs/protocol-coverage.md anew.

`lines.json` names each method, field, event, error and capability of the link, by section. "" beside a name: a test holds
it, and says so with `@pytest.mark.spec(name)`. Any other text says why the line is missing, and then no test may name it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

ROOT: Final = Path(__file__).parents[2]
LINES: Final = Path(__file__).with_name("lines.json")
PAGE: Final = ROOT / "docs" / "protocol-coverage.md"
_HEAD: Final = """# Which test holds which line of the link

Written by `python -m tests.protocol.page` from `tests/protocol/lines.json` and the marks on the tests; do not edit it.
"""

Lines = dict[str, dict[str, str]]
#: by line, the tests that name it
Marks = dict[str, list[str]]


def lines() -> Lines:
    """By section: each line's name, and why it is missing ("" when a test holds it)."""
    return msgspec.json.decode(LINES.read_bytes(), type=Lines)


def marks() -> Marks:
    """Every `pytest.mark.spec` below tests/, read from the text, so that no test need be imported."""
    found: Marks = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for name in _named(node):
                    test = f"{path.relative_to(ROOT / 'tests').as_posix()}::{node.name}"
                    found.setdefault(name, []).append(test)
    return found


def _named(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.spec":
            yield from (ast.literal_eval(name) for name in decorator.args)


def problems(listed: Lines, marked: Marks) -> list[str]:
    """What does not fit: one sentence each."""
    missing = {name: reason for section in listed.values() for name, reason in section.items()}
    said = [
        f"{name!r} is no line of lines.json; {marked[name][0]} names it"
        for name in sorted(marked.keys() - missing.keys())
    ]
    for name, reason in missing.items():
        if reason and name in marked:
            said.append(f"{name!r} has a test and is said to be missing ({reason}); take that away")
        if not reason and name not in marked:
            said.append(f"{name!r} has no test; mark one, or say in lines.json why it is missing")
    return said


def page(listed: Lines, marked: Marks) -> str:
    """The text of docs/protocol-coverage.md."""
    held = sum(not reason for section in listed.values() for reason in section.values())
    parts = [_HEAD, f"{held} of {sum(map(len, listed.values()))} lines are there.\n"]
    for section, named in listed.items():
        parts.append(f"## {section}\n\n| line | held by |\n| --- | --- |")
        for name, reason in named.items():
            tests = "<br>".join(f"`{test}`" for test in marked.get(name, []))
            parts.append(f"| `{name}` | {tests or reason} |")
        parts.append("")
    return "\n".join(parts)


def main() -> None:
    """Write the page anew."""
    PAGE.write_text(page(lines(), marks()))


if __name__ == "__main__":
    main()
