"""The device's settings as they are now: config, login and trust, read again when a file has changed."""

import os

from lembasd.device import credentials, logging, trust
from lembasd.device.config import Config, load
from lembasd.device.credentials import Credentials, same_origin
from lembasd.device.damaged import PASSING
from lembasd.device.paths import Paths
from lembasd.protocol.context import Personalization
from lembasd.protocol.control import Settings
from lembasd.protocol.errors import CannotReadNow, ConfigError

_Stamp = tuple[int, int, int, int] | None


class SettingsSource:
    """Reads the three files when their stat changed. A broken file keeps its last good values; `problem` says why.

    `current()` costs three stats: it may be called for each request.
    """

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._stamps: tuple[_Stamp, _Stamp, _Stamp] | None = None
        #: a file could not be read, though nothing is known against it: it is tried at each look
        self._unread = False
        self._problems: dict[str, str] = {}
        self._settings = Settings()
        self.config = Config()
        self.credentials: Credentials | None = None
        self._trusted: list[str] = []
        #: keys that are not known, as of the last reading
        self.warnings: list[str] = []
        #: grows each time the login was written, the same login too
        self.logins = 0

    @property
    def problem(self) -> str | None:
        """Why a file's last good values are in use, or None."""
        return "; ".join(self._problems.values()) or None

    def current(self) -> Settings:
        """The settings now. Never raises: a broken file is `problem`."""
        stamps = (
            _stamp(str(self._paths.config_file)),
            _stamp(str(self._paths.credentials_file)),
            _stamp(str(self._paths.trust_file)),
        )
        if stamps != self._stamps or self._unread:
            before, self._stamps = self._stamps, stamps
            if before is not None and before[1] != stamps[1]:
                self.logins += 1
            self._read()
        return self._settings

    def _read(self) -> None:
        self._problems.clear()
        self._unread = False
        try:
            loaded = load(self._paths.config_file)
        except ConfigError as error:
            self._note("config", error)
        else:
            self.config, self.warnings = loaded.config, loaded.warnings
        try:
            self.credentials = credentials.load(self._paths.credentials_file)
        except CannotReadNow as error:
            # the login is what it was: for one failure to read it nobody is logged out
            self._note("credentials", error)
        except ConfigError as error:
            # a login that others can read is not used, not even from memory
            self.credentials = None
            self._note("credentials", error)
        if self.credentials is not None:
            logging.hide(self.credentials.token)
        self._bind_token()
        try:
            self._trusted = trust.load(self._paths.trust_file)
        except ConfigError as error:
            self._note("trust", error)
        config, login = self.config, self.credentials
        self._settings = Settings(
            remote=config.remote,
            trusted=self._trusted,
            account=login.account() if login is not None else None,
            worker_idle_s=config.hub.worker_idle_s,
            worker_memory_bytes=config.hub.worker_memory_bytes,
            max_workers=config.hub.max_workers,
            model=config.model,
            mode=config.mode,
            effort=config.effort,
            permission=config.permission,
            mcp=config.mcp,
            web_hosts=config.web_hosts,
            share=config.share,
            personalization=Personalization(
                config.personality, config.personality_custom, config.instructions
            ),
        )

    def _note(self, what: str, error: ConfigError) -> None:
        self._problems[what] = str(error)
        # a file that only the machine was short for will not change, and is to be read again all the same
        self._unread = self._unread or _is_passing(error)

    def _bind_token(self) -> None:
        """A token is for the server that gave it: with another one in config.yaml it is not used at all."""
        login, server = self.credentials, self.config.server
        if login is None or server is None or same_origin(login.server, server):
            return
        self.credentials = None
        self._problems["login"] = (
            f"config.yaml names {server}, the login is for {login.server}; "
            "log in there with `lembas login`, or correct `server`"
        )


def _is_passing(error: ConfigError) -> bool:
    """Whether it is no fault of the file's: the machine was short of something."""
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in PASSING


def _stamp(path: str) -> _Stamp:
    try:
        about = os.stat(path)  # noqa: PTH116 - thrice a request: no Path object for it
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size, about.st_ino, about.st_mode
