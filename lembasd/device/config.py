"""config.yaml: what it may hold, reading it with lines, and changing one key without losing comments.

The file and its keys are a promise (docs/operators.md). An unknown key is a warning, a value of the wrong type a
ConfigError with its line and what was expected.
"""

import os
import stat
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, get_args

import msgspec
from msgspec import Struct
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import MarkedYAMLError

from lembasd.device import private_file
from lembasd.protocol import amounts
from lembasd.protocol.acp import MODES, read_mode
from lembasd.protocol.control import Mode, Remote, Share
from lembasd.protocol.errors import BadValue, ConfigError
from lembasd.protocol.limits import KIB, MIB
from lembasd.protocol.mcp import McpServer, read_server, read_servers
from lembasd.protocol.permission import MAX_RULES, Rule, read_rule
from lembasd.protocol.retention import Retention

#: a config file is a page of text; a larger one is a mistake, and would hold the hub up while it is read
MAX_CONFIG_BYTES: Final = 64 * KIB
#: blocks in blocks; no setting is deeper than three
MAX_DEPTH: Final = 20
#: a year; what is longer, or endless, is a mistake
MAX_SECONDS: Final = 365 * 86_400
#: what a worker has resident before it does anything, with room to work in
MIN_WORKER_MEMORY_BYTES: Final = 96 * MIB
#: more is a mistake: each takes megabytes
MAX_WORKERS: Final = 10_000
LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("auto", "console", "json")


class LogConfig(Struct, frozen=True):
    level: str = "info"
    format: str = "auto"


class HubConfig(Struct, frozen=True):
    worker_idle_s: float = 900.0
    worker_memory_bytes: int | None = None
    max_workers: int = 256
    log: LogConfig = LogConfig()


class Config(Struct, frozen=True):
    """config.yaml with its defaults filled in."""

    server: str | None = None
    connection: str | None = None
    model: str | None = None
    effort: str = "default"
    mode: Mode = "manual"
    remote: Remote = Remote()
    hub: HubConfig = HubConfig()
    retention: Retention = Retention()
    permission: list[Rule] = []
    mcp: list[McpServer] = []
    web_hosts: list[str] = []
    #: of sessions while no account has its own (link.md, The HTTP API)
    personality: str | None = None
    personality_custom: str | None = None
    instructions: str | None = None
    embedding: str | None = None
    #: which sessions of this machine the instance is shown
    share: Share = "ask"


@dataclass
class Loaded:
    """A config and one sentence for each key that is not known."""

    config: Config
    warnings: list[str] = field(default_factory=list)


class _Wrong(Exception):
    """A value of the wrong type; the text is what was expected, of the key `below` where that is wrong."""

    def __init__(self, expected: str, below: object = None) -> None:
        super().__init__(expected)
        self.below = below


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Wrong("a text")
    return str(value)  # a quoted one is of a kind of its own, which no encoder takes


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Wrong("true or false")
    return value


def _seconds(value: Any) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 < value <= MAX_SECONDS
    ):
        raise _Wrong("a number of seconds above 0")
    return float(value)


def _memory(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < MIN_WORKER_MEMORY_BYTES:
        raise _Wrong(f"a number of bytes from {MIN_WORKER_MEMORY_BYTES} on")
    return int(value)


def _workers(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MAX_WORKERS:
        raise _Wrong(f"a number from 1 to {MAX_WORKERS}")
    return int(value)


def _age(value: Any) -> float | None:
    try:
        return amounts.read_age(_text(value))
    except (ValueError, _Wrong):
        raise _Wrong("an age, as 30d, 12h or never") from None


def _size(value: Any) -> int:
    try:
        return amounts.read_size(_text(value))
    except (ValueError, _Wrong):
        raise _Wrong("a size, as 10GB or 500MB") from None


def _mode(value: Any) -> Mode:
    mode = read_mode(value) if isinstance(value, str) else None
    if mode is None:
        raise _Wrong(f"one of {', '.join(MODES)}")
    return mode


def _one_of(choices: tuple[str, ...]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in choices:
            raise _Wrong(f"one of {', '.join(choices)}")
        return str(value)

    return read


def _directories(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise _Wrong("a list of directories")
    for one in value:
        if not one.startswith(("/", "~")):
            raise _Wrong(f"absolute or ~ paths, not {one!r}")
    return [str(one) for one in value]


def _rules(value: Any) -> list[Rule]:
    if not isinstance(value, list):
        raise _Wrong("a list of rules")
    if len(value) > MAX_RULES:
        raise _Wrong(f"a list of at most {MAX_RULES} rules")
    rules: list[Rule] = []
    for number, one in enumerate(value, 1):
        try:
            rules.append(read_rule(one))
        except ValueError as error:
            raise _Wrong(f"a list of rules; rule {number} must be {error}") from None
    return rules


def _hosts(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise _Wrong("a list of host names")
    return [one.lower() for one in value]


def _servers(value: Any) -> list[McpServer]:
    if not isinstance(value, Mapping):
        raise _Wrong("a block of servers")
    for name, entry in value.items():
        try:
            read_server(name, entry)
        except ValueError as error:
            raise _Wrong(str(error), name) from None
    try:
        return read_servers(value)
    except ValueError as error:
        raise _Wrong(str(error)) from None


#: key → reader; a mapping is a block. None is "not set" everywhere.
_Schema = Mapping[str, "Callable[[Any], Any] | _Schema"]
_LOG: Final[_Schema] = {"level": _one_of(LEVELS), "format": _one_of(FORMATS)}
_SCHEMA: Final[_Schema] = {
    "server": _text,
    "connection": _text,
    "model": _text,
    "effort": _text,
    "mode": _mode,
    "remote": {
        "enabled": _flag,
        "roots": _directories,
        "max_mode": _mode,
        "require_trust": _flag,
        "terminal": _flag,
        "terminal_integration": _flag,
        "approval_timeout": _seconds,
        "scheduled": _flag,
    },
    "hub": {
        "worker_idle": _seconds,
        "worker_memory": _memory,
        "max_workers": _workers,
        "log": _LOG,
    },
    "retention": {
        "sessions": _age,
        "attachments": _age,
        "undo": _age,
        "damaged": _age,
        "logs": _age,
        "size": _size,
    },
    "permission": _rules,
    "mcp": _servers,
    "web": {"allow_hosts": _hosts},
    "personality": _text,
    "personality_custom": _text,
    "instructions": _text,
    "embedding": _text,
    "share": _one_of(get_args(Share)),
}
#: of a project's file
_PROJECT_SCHEMA: Final[_Schema] = {"permission": _rules}
#: keys that belong to parts which are not in this version: known, kept, and not read
_LATER: Final = frozenset(
    {
        "subagents",
        "library",
        "agents",
    }
)


def _yaml() -> YAML:
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.max_depth = MAX_DEPTH
    return yaml


def _parse(path: Path) -> CommentedMap:
    try:
        # nonblocking: a pipe in the file's place must not stop the hub
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)  # Python opens no directory, not even to close it
            raise ConfigError(str(path), "cannot be read: it is no file; put one in its place")
        with os.fdopen(handle, "rb") as file:
            raw = file.read(MAX_CONFIG_BYTES + 1)
    except FileNotFoundError:
        return CommentedMap()
    except OSError as error:
        raise ConfigError(
            str(path), f"cannot be read ({error.strerror}); check its rights"
        ) from error
    if len(raw) > MAX_CONFIG_BYTES:
        raise ConfigError(str(path), "is over 64 KiB; keep settings only in it")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about style
            tree = _yaml().load(raw.decode())
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), "is not UTF-8; save it as UTF-8") from error
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise ConfigError(
            str(path), f"is not YAML: {error.problem}; correct this line", line
        ) from error
    except RecursionError as error:
        raise ConfigError(str(path), "is nested too deeply; correct it") from error
    except Exception as error:  # YAMLError, and what the library's own faults raise on some texts
        problem = next(iter(str(error).splitlines()), type(error).__name__)
        raise ConfigError(str(path), f"is not YAML: {problem}; correct it") from error
    if tree is None:
        return CommentedMap()
    if not isinstance(tree, CommentedMap):
        raise ConfigError(str(path), "holds no settings; write `key: value` lines", 1)
    return tree


def _line(block: CommentedMap, key: object) -> int:
    """The line of a key; of one that was merged in (`<<`), that of its block."""
    at = block.lc.key(key)
    return int((at[0] if at is not None else block.lc.line) + 1)


def _read(
    path: Path, tree: CommentedMap, schema: _Schema, prefix: str, unknown: list[str]
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        line = _line(tree, key)
        reader = schema.get(key)
        if reader is None:
            if name not in _LATER:
                unknown.append(f"{path}, line {line}: {name} is not a setting; remove it")
        elif value is None:
            continue
        elif isinstance(reader, Mapping):
            if not isinstance(value, CommentedMap):
                raise ConfigError(str(path), f"{name} must be a block of settings", line)
            values[key] = _read(path, value, reader, f"{name}.", unknown)
        else:
            try:
                values[key] = reader(value)
            except _Wrong as wrong:
                if wrong.below is not None:
                    name, line = f"{name}.{wrong.below}", _line(value, wrong.below)
                raise ConfigError(str(path), f"{name} must be {wrong}", line) from None
    return values


def load(path: Path) -> Loaded:
    """Read config.yaml; a file that is not there is all defaults.

    Raises ConfigError with file, line and what was expected.
    """
    unknown: list[str] = []
    values = _read(path, _parse(path), _SCHEMA, "", unknown)
    remote, hub = values.pop("remote", {}), values.pop("hub", {})
    web_hosts = values.pop("web", {}).get("allow_hosts", [])
    if "approval_timeout" in remote:
        remote["approval_timeout_s"] = remote.pop("approval_timeout")
    if "worker_idle" in hub:
        hub["worker_idle_s"] = hub.pop("worker_idle")
    if "worker_memory" in hub:
        hub["worker_memory_bytes"] = hub.pop("worker_memory")
    kept = values.pop("retention", {})
    retention = {"max_bytes" if key == "size" else f"{key}_s": kept[key] for key in kept}
    if "log" in hub:
        hub["log"] = LogConfig(**hub["log"])
    config = Config(
        **values,
        remote=Remote(**remote),
        hub=HubConfig(**hub),
        retention=Retention(**retention),
        web_hosts=web_hosts,
    )
    return Loaded(config, unknown)


def project_rules(path: Path) -> list[Rule]:
    """The rules of a project's file; one that is not there has none. Raises ConfigError.

    Other keys in it are other parts' business.
    """
    rules: list[Rule] = _read(path, _parse(path), _PROJECT_SCHEMA, "", []).get("permission", [])
    return rules


def as_settings(config: Config) -> dict[str, Any]:
    """Every setting by its name in the file (dots name blocks), with its value."""
    remote, hub = config.remote, config.hub
    return {
        "server": config.server,
        "connection": config.connection,
        "model": config.model,
        "effort": config.effort,
        "mode": config.mode,
        "remote.enabled": remote.enabled,
        "remote.roots": remote.roots,
        "remote.max_mode": remote.max_mode,
        "remote.require_trust": remote.require_trust,
        "remote.terminal": remote.terminal,
        "remote.terminal_integration": remote.terminal_integration,
        "remote.approval_timeout": remote.approval_timeout_s,
        "remote.scheduled": remote.scheduled,
        "hub.worker_idle": hub.worker_idle_s,
        "hub.worker_memory": hub.worker_memory_bytes,
        "hub.max_workers": hub.max_workers,
        "hub.log.level": hub.log.level,
        "hub.log.format": hub.log.format,
        "retention.sessions": amounts.say_age(config.retention.sessions_s),
        "retention.attachments": amounts.say_age(config.retention.attachments_s),
        "retention.undo": amounts.say_age(config.retention.undo_s),
        "retention.damaged": amounts.say_age(config.retention.damaged_s),
        "retention.logs": amounts.say_age(config.retention.logs_s),
        "retention.size": amounts.write_size(config.retention.max_bytes),
        "permission": [msgspec.to_builtins(one) for one in config.permission],
        "web.allow_hosts": config.web_hosts,
        "personality": config.personality,
        "personality_custom": config.personality_custom,
        "instructions": config.instructions,
        "embedding": config.embedding,
        "share": config.share,
        # by their names alone: the rest may be secret
        "mcp": [server.name for server in config.mcp],
    }


def is_text(key: str) -> bool:
    """Whether the setting `key` is a text, whatever it looks like in YAML."""
    return _SCHEMA.get(key) is _text


def set_value(path: Path, key: str, value: Any) -> None:
    """Set one key. As `set_values`."""
    set_values(path, {key: value})


def set_values(path: Path, values: Mapping[str, Any]) -> None:
    """Set each key (dots name blocks) to its value, None removing it; comments and order stay.

    The new text is read before it takes the old one's place, so that a change can never break the file.
    Raises BadValue for a value that cannot be, ConfigError for a file that is broken already and stays so, OSError.
    """
    tree = _parse(path)
    for key, value in values.items():
        _set(path, tree, key, value)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = path.resolve()  # a link into somebody's dotfiles stays a link
    with private_file.naming(path):
        handle, name = tempfile.mkstemp(prefix=".config-", suffix=".yaml", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                _yaml().dump(tree, file)
                file.flush()
                os.fsync(file.fileno())
            load(Path(name))
            Path(name).replace(target)
        except ConfigError as error:
            Path(name).unlink(missing_ok=True)
            load(path)  # one that was broken before says where itself
            raise BadValue(str(path), error.problem) from None
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _set(path: Path, tree: CommentedMap, key: str, value: Any) -> None:
    *blocks, last = key.split(".")
    block = tree
    for name in blocks:
        inner = block.get(name)
        if inner is None:
            inner = block[name] = CommentedMap()
        if not isinstance(inner, CommentedMap):
            raise ConfigError(str(path), f"{name} must be a block of settings")
        block = inner
    if value is None:
        block.pop(last, None)
    else:
        block[last] = value
