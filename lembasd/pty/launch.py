"""How a person's login shell is started: as it is, or so that it marks its prompts (OSC 133, OSC 7; docs/terminals.md)."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from lembasd.device.person import LoginShell

#: what a shell is given to read; files of the package, never written to
SCRIPTS: Final = Path(__file__).parent / "shells"
#: where zsh keeps the person's own ZDOTDIR until `zdotdir/.zshenv` puts it back
_THEIRS: Final = "__LEMBAS_ZDOTDIR"


class Launch(Struct, frozen=True):
    """What to execute: argv with argv[0], the environment, and whether the shell marks its prompts."""

    words: list[str]
    variables: dict[str, str]
    integrated: bool


def launch(
    shell: LoginShell, variables: Mapping[str, str], *, integrate: bool, scripts: Path = SCRIPTS
) -> Launch:
    """The way to start `shell` with `variables`; without marks where there are none for it, or its script is gone."""
    plain = Launch([shell.argv0], dict(variables), integrated=False)
    if not integrate:
        return plain
    match shell.kind:
        case "bash":
            script = scripts / "integration.bash"
            words = ["bash", "--rcfile", str(script), "-i"]
            marked = Launch(words, plain.variables, integrated=True)
        case "zsh":
            script = scripts / "zdotdir" / ".zshenv"
            theirs = {_THEIRS: variables["ZDOTDIR"]} if "ZDOTDIR" in variables else {}
            folder = {"ZDOTDIR": str(script.parent)}
            marked = Launch(plain.words, {**plain.variables, **theirs, **folder}, integrated=True)
        case "fish":
            script = scripts / "integration.fish"
            words = [*plain.words, "--init-command", f"source {_fish_quoted(str(script))}"]
            marked = Launch(words, plain.variables, integrated=True)
        case _:
            return plain
    # without it zsh would not read the person's own files either
    return marked if os.access(script, os.R_OK) else plain


def _fish_quoted(text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{quoted}'"
