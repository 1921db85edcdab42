"""How the service's environment differs from that of the person's login shell, and what of it matters."""

from collections.abc import Mapping
from typing import Final

#: read by the service's own connections, not by what it starts
_OF_TLS: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
#: decide which files are meant: another value is another installation
_OF_PLACES: Final = ("LEMBAS_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
#: entries of PATH that are named; more are counted
MAX_NAMED: Final = 4


def differences(service: Mapping[str, str], shell: Mapping[str, str]) -> list[str]:
    """What the login shell has otherwise than the service, for a person to read; neither is wrong by itself."""
    said = []
    names = [name for name in shell if name in service or name in (*_OF_TLS, "LANG", "LC_ALL")]
    for name in sorted({"PATH", *names}):
        here, there = service.get(name), shell.get(name)
        if here == there:
            continue
        if name == "PATH":
            said += _more_of_path(here or "", there or "")
        else:
            said.append(f"{name} is {there or 'not set'} (service: {here or 'not set'})")
    return said


def _more_of_path(service: str, shell: str) -> list[str]:
    known = set(service.split(":"))
    more = [one for one in dict.fromkeys(shell.split(":")) if one and one not in known]
    if not more:
        return ["PATH has fewer directories or another order"]
    rest = f" and {len(more) - MAX_NAMED} more" if len(more) > MAX_NAMED else ""
    return [f"PATH has {', '.join(more[:MAX_NAMED])}{rest} as well"]


def faults(service: Mapping[str, str], shell: Mapping[str, str]) -> list[str]:
    """What of the difference does harm, a sentence each that says what to do."""
    said = [
        f"{name} is {shell[name]} in your login shell alone, so the service does not trust what it names; "
        "give it to the service (`systemctl --user edit lembasd`, Environment=)"
        for name in _OF_TLS
        if shell.get(name) and service.get(name) != shell[name]
    ]
    said += [
        f"{name} is {shell.get(name) or 'not set'} in your login shell and {service.get(name) or 'not set'} "
        "in the service, so commands you type mean another installation; set it the same for both"
        for name in _OF_PLACES
        if (service.get(name) or None) != (shell.get(name) or None)
    ]
    locale = shell.get("LC_ALL") or shell.get("LC_CTYPE") or shell.get("LANG") or ""
    if "utf" not in locale.lower():
        said.append(
            f"the locale of your login shell is {locale or 'not set'}, so programs may spoil names and texts that "
            "are not ASCII; set LANG to a UTF-8 one (C.UTF-8) in a startup file"
        )
    return said
