"""Whose processes these are: the user of this process, and their login shell."""

import os
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

#: what a person without a usable shell in passwd gets
FALLBACK_SHELL: Final = "/bin/sh"
#: the shells that the protocol has a name for
_NAMED: Final = frozenset({"bash", "zsh", "fish"})


class LoginShell(Struct, frozen=True):
    """`kind`: bash, zsh, fish or other."""

    path: str
    kind: str

    @property
    def argv0(self) -> str:
        """The name that makes it a login shell."""
        return f"-{Path(self.path).name}"


class Person(Struct, frozen=True):
    """What passwd says of this process' user."""

    name: str
    home: str
    shell: LoginShell


def find_person(variables: Mapping[str, str]) -> Person:
    """The user, from passwd; a HOME of their own in `variables` stands, SHELL there is not reliable in a service."""
    home = variables.get("HOME", "")
    own = home if Path(home).is_absolute() and Path(home).is_dir() else ""
    try:
        entry = pwd.getpwuid(os.getuid())
    except KeyError:  # a user without an entry, as in some containers
        return Person(str(os.getuid()), own or "/", login_shell(""))
    return Person(entry.pw_name, own or entry.pw_dir, login_shell(entry.pw_shell))


def login_shell(path: str) -> LoginShell:
    """The shell at `path`, or the fallback when it cannot be run."""
    usable = os.access(path, os.X_OK) and Path(path).is_file()
    chosen = path if usable else FALLBACK_SHELL
    name = Path(chosen).name
    return LoginShell(chosen, name if name in _NAMED else "other")
