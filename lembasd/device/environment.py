"""The environment of what we start for a person or a tool: theirs, without anything of the service's."""

from collections.abc import Mapping
from typing import Final

#: marks a tool's processes, so that a sweep finds what lost its worker: "<session>:<epoch>"
MARKER: Final = "LEMBASD_SESSION"
_OURS: Final = ("LEMBAS_", "LEMBASD_", "LISTEN_", "WATCHDOG_")
#: the person's own: without it our commands there would mean another installation
_KEPT: Final = "LEMBAS_HOME"
_SERVICE: Final = frozenset(
    {
        "NOTIFY_SOCKET",
        "INVOCATION_ID",
        "JOURNAL_STREAM",
        "SYSTEMD_EXEC_PID",
        "MEMORY_PRESSURE_WATCH",
        "MEMORY_PRESSURE_WRITE",
        "CREDENTIALS_DIRECTORY",
        "MANAGERPID",
        "XPC_SERVICE_NAME",
        "XPC_FLAGS",
        # of this program's own start, wrong for any other
        "PYTHONSAFEPATH",
        "VIRTUAL_ENV_PROMPT",
    }
)
#: of the shell and the terminal that the service was started from, wrong in another; a login has none of them
_OTHER_TERMINALS: Final = frozenset(
    {
        "OLDPWD",
        "SHLVL",
        "_",
        "PS1",
        "PROMPT_COMMAND",
        "SHELLOPTS",
        "BASHOPTS",
        "COLUMNS",
        "LINES",
        "COLORFGBG",
        "INSIDE_EMACS",
        "LC_TERMINAL",
        "LC_TERMINAL_VERSION",
        "SSH_CLIENT",
        "SSH_CONNECTION",
        "SSH_TTY",
        "STARSHIP_SHELL",
        "STARSHIP_SESSION_KEY",
        "STY",
        "TERM_PROGRAM",
        "TERM_PROGRAM_VERSION",
        "TERM_SESSION_ID",
        "TMUX",
        "TMUX_PANE",
        "VIRTUAL_ENV",
        "VTE_VERSION",
        "WINDOW",
        "WINDOWID",
    }
)
_OTHER_PROGRAMS: Final = (
    "ALACRITTY_",
    "GHOSTTY_",
    "ITERM_",
    "KITTY_",
    "KONSOLE_",
    "VSCODE_",
    "WEZTERM_",
    "ZELLIJ",
)

#: what is no secret and decides how programs behave: shown in the hub's status and compared by `lembasd doctor`
SHOWN: Final = (
    "PATH",
    "HOME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    "SSH_AUTH_SOCK",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "LEMBAS_HOME",
)


def shown(environment: Mapping[str, str]) -> dict[str, str]:
    """What of an environment may be shown: other variables may hold secrets."""
    return {name: environment[name] for name in SHOWN if name in environment}


def persons(environment: Mapping[str, str]) -> dict[str, str]:
    """What of an environment is the person's own."""
    return {
        name: value
        for name, value in environment.items()
        if name == _KEPT or (name not in _SERVICE and not name.startswith(_OURS))
    }


def for_tools(environment: Mapping[str, str], session_id: str, epoch: int) -> dict[str, str]:
    """What a tool of this session is started with: no terminal to ask on, and the marker."""
    return {
        **persons(environment),
        MARKER: f"{session_id}:{epoch}",
        "TERM": "dumb",
        "GIT_TERMINAL_PROMPT": "0",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
    }


def for_shell(environment: Mapping[str, str]) -> dict[str, str]:
    """What a login shell in a terminal is started with: nothing of the terminal that the service came from."""
    variables = {
        name: value
        for name, value in persons(environment).items()
        if name not in _OTHER_TERMINALS and not name.startswith(_OTHER_PROGRAMS)
    }
    if "PATH" in variables and (active := environment.get("VIRTUAL_ENV")):
        # a virtual environment is of the shell that has activated it
        places = variables["PATH"].split(":")
        variables["PATH"] = ":".join(one for one in places if one != f"{active}/bin")
    return {**variables, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
