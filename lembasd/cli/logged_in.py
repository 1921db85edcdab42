"""The login as the commands use it: the instance's API, with the token of the one login."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from lembasd.device import config, credentials
from lembasd.device.config import Config
from lembasd.device.credentials import Credentials, same_origin
from lembasd.device.paths import Paths
from lembasd.link import discovery
from lembasd.link.api import InstanceApi
from lembasd.protocol.errors import UsageError


@dataclass(frozen=True)
class Login:
    """Who is logged in where, and the configuration as it is."""

    credentials: Credentials
    config: Config


def find(paths: Paths) -> Login | None:
    """The login, None when nobody is logged in.

    Raises UsageError when config.yaml names another server: a token is for the one that gave it. ConfigError.
    """
    stored = credentials.load(paths.credentials_file)
    if stored is None:
        return None
    read = config.load(paths.config_file).config
    if read.server is not None and not same_origin(stored.server, read.server):
        raise UsageError(
            f"config.yaml names {read.server}, the login is for {stored.server}; "
            "log in there with `lembas login`, or correct `server`"
        )
    return Login(stored, read)


def required(paths: Paths) -> Login:
    """The login. Raises UsageError when nobody is logged in; as `find`."""
    login = find(paths)
    if login is None:
        raise UsageError("nobody is logged in; run `lembas login --server URL`")
    return login


@asynccontextmanager
async def api(login: Login) -> AsyncIterator[InstanceApi]:
    """The instance's API for this login. Raises BadServer for an address that cannot be used."""
    server = discovery.base_url(login.credentials.server)
    context = await asyncio.to_thread(discovery.tls_context, server)
    async with discovery.client(context) as http:
        yield InstanceApi(http, server, login.credentials.token)
