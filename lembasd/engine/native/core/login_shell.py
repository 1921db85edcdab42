"""How a login shell is asked for its environment, and how its answer is read."""

import shlex
from collections.abc import Mapping
from typing import Final

#: variables that are one shell's own state, or say where it stands: nothing that a person has set
_OF_ONE_SHELL: Final = frozenset(
    {"PWD", "OLDPWD", "SHLVL", "_", "SHELLOPTS", "BASHOPTS", "COLUMNS", "LINES"}
)
#: what each shell reads when it starts, below the home directory and elsewhere; a pattern stands for what it finds
_READ: Final = {
    "bash": (".bash_profile", ".bash_login", ".profile", ".bashrc", ".bash_aliases"),
    "zsh": (".zshenv", ".zprofile", ".zshrc", ".zlogin"),
    "fish": (
        ".config/fish/config.fish",
        ".config/fish/fish_variables",
        ".config/fish/conf.d/*.fish",
    ),
    "other": (".profile", ".shrc", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login"),
}
_READ_BY_ALL: Final = (".pam_environment", ".config/environment.d/*.conf", ".nvm/alias/default")
_SYSTEM: Final = (
    "/etc/environment",
    "/etc/profile",
    "/etc/profile.d/*",
    "/etc/bash.bashrc",
    "/etc/bashrc",
    "/etc/zshenv",
    "/etc/zprofile",
    "/etc/zshrc",
    "/etc/zsh/*",
    "/etc/fish/config.fish",
    "/etc/fish/conf.d/*.fish",
)
#: shells that take no command as a login shell; what matters they read each time
_NO_LOGIN_COMMANDS: Final = ("csh", "tcsh")
#: run by the login shell in its own place: mark, environment with NULs between, mark. No backslash or single quote is
#: in it, for fish and csh read those in words of their own
_SAY: Final = (
    "import os,sys;m=sys.argv[1].encode();"
    'd=bytes(1).join(k+b"="+v for k,v in os.environb.items());'
    "sys.stdout.buffer.write(m+d+m)"
)


def startup_files(kind: str) -> tuple[list[str], list[str]]:
    """What a shell of this kind reads: patterns below the home directory, and absolute ones."""
    return [*_READ[kind], *_READ_BY_ALL], list(_SYSTEM)


def arguments(shell: str, python: str, mark: str, *, interactive: bool, bashrc: bool) -> list[str]:
    """The arguments of the shell of this name. `bashrc`: its profile does not read .bashrc, so this does.

    PATHs are often set in files that an interactive shell alone reads (nvm writes to .bashrc and .zshrc).
    """
    say = f"exec {shlex.quote(python)} -I -S -c {shlex.quote(_SAY)} {mark}"
    if shell == "bash" and interactive and bashrc:
        say = f". ~/.bashrc; {say}"
    login = [] if shell in _NO_LOGIN_COMMANDS else ["-l"]
    return [*login, *(["-i"] if interactive else []), "-c", say]


def read_answer(said: bytes, mark: bytes) -> bytes | None:
    """The environment in what the shell has said so far; None while it is not there whole."""
    parts = said.split(mark)
    return parts[1] if len(parts) >= 3 else None


def variables(answer: bytes) -> dict[str, str]:
    """The variables of an answer. What cannot be a variable is left out."""
    found: dict[str, str] = {}
    for entry in answer.split(b"\0"):
        name, equals, value = entry.decode("utf-8", "surrogateescape").partition("=")
        if equals and name and name not in _OF_ONE_SHELL:
            found[name] = value
    return found


def without_dead_agent(
    taken: Mapping[str, str], service: Mapping[str, str], *, alive: bool
) -> dict[str, str]:
    """The environment, with the service's own ssh agent where the one of the shell is gone (`alive` is false)."""
    if alive:
        return dict(taken)
    kept = {
        name: value
        for name, value in taken.items()
        if name not in ("SSH_AUTH_SOCK", "SSH_AGENT_PID")
    }
    if "SSH_AUTH_SOCK" in service:
        kept["SSH_AUTH_SOCK"] = service["SSH_AUTH_SOCK"]
    return kept
