"""trust.json: the projects a person has trusted. Below a trusted directory everything is trusted."""

from pathlib import Path

import msgspec

from lembasd.device import private_file
from lembasd.protocol.errors import ConfigError


def load(path: Path) -> list[str]:
    """The trusted directories, absolute and resolved. Raises ConfigError."""
    raw = private_file.read(path)
    if raw is None:
        return []
    try:
        return msgspec.json.decode(raw, type=list[str])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ConfigError(
            str(path), "cannot be read; remove it and trust your projects again"
        ) from error


def add(path: Path, directory: Path) -> bool:
    """Trust `directory` (resolved); whether it was new. Raises ConfigError, OSError."""
    trusted, name = load(path), str(directory.resolve())
    if name in trusted:
        return False
    private_file.write(path, msgspec.json.format(msgspec.json.encode(sorted([*trusted, name]))))
    return True


def remove(path: Path, directory: Path) -> bool:
    """Trust `directory` no more; whether it was trusted. Raises ConfigError, OSError."""
    trusted = load(path)
    names = {str(directory), str(directory.resolve())}
    kept = [one for one in trusted if one not in names]
    if len(kept) == len(trusted):
        return False
    private_file.write(path, msgspec.json.format(msgspec.json.encode(kept)))
    return True
