"""The files that a service manager reads, made from the templates in `systemd/` and `launchd/`."""

from collections.abc import Mapping
from xml.sax.saxutils import escape

#: stand in the templates for what differs between installations
EXEC = "@EXEC@"
ENVIRONMENT = "@ENVIRONMENT@"
SOCKET = "@SOCKET@"
LOG = "@LOG@"


class CannotBeWritten(ValueError):
    """A path or value that no such file can hold."""


def systemd_service(template: str, program: str, environment: Mapping[str, str]) -> str:
    """The service unit. Raises CannotBeWritten."""
    lines = "".join(
        f"Environment={_quoted(f'{name}={value}')}\n" for name, value in sorted(environment.items())
    )
    # of the program's own name alone a $ is no variable, but a % is one
    exec_start = _quoted(program)
    return template.replace(EXEC, exec_start).replace(ENVIRONMENT, lines)


def systemd_socket(template: str, path: str, runtime: str | None) -> str:
    """The socket unit for `path`; below `runtime` ($XDG_RUNTIME_DIR) it is told as systemd says it. Raises CannotBeWritten."""
    _check(path)
    if runtime is not None and path.startswith(f"{runtime}/"):
        return template.replace(SOCKET, f"%t{_percent(path[len(runtime) :])}")
    return template.replace(SOCKET, _percent(path))


def launchd_agent(template: str, program: str, log: str, environment: Mapping[str, str]) -> str:
    """The property list. Raises CannotBeWritten."""
    for text in (program, log, *environment.values()):
        _check(text)
    pairs = "".join(
        f"\n    <key>{escape(name)}</key>\n    <string>{escape(value)}</string>"
        for name, value in sorted(environment.items())
    )
    block = f"{pairs}\n  " if pairs else ""
    filled = template.replace(EXEC, escape(program)).replace(LOG, escape(log))
    return filled.replace(ENVIRONMENT, block)


def _check(text: str) -> None:
    if not text.isprintable():
        raise CannotBeWritten(f"{text!r} has characters that no service file can hold")


def _percent(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(text: str) -> str:
    """One word of a unit file, with nothing in it expanded (systemd.syntax, systemd.service)."""
    _check(text)
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_percent(plain)}"'
