"""Asking the instance over HTTP, with the login's token (link.md, The HTTP API the CLI uses).

Each method raises LoginEnded for a token that the instance does not accept (any more), NotAllowed with the instance's
own reason, and Unreachable when it is away, in trouble, or answers with something else than was asked for.
"""

from typing import Any, Final

import httpx
import msgspec

from lembasd.link.core import model_kinds, personalization, refusal_words
from lembasd.link.discovery import Unreachable, fetch, retry_after
from lembasd.protocol.errors import EXIT_REFUSED, LembasError
from lembasd.protocol.http_api import InstanceInfo, Personalization, Usage
from lembasd.protocol.limits import MIB

#: a long list of models, with what their server says of each
MAX_LIST_BYTES: Final = 4 * MIB


class LoginEnded(LembasError):
    """The instance does not accept the token."""

    exit_code = EXIT_REFUSED


class NotAllowed(LembasError):
    """The instance refuses this, whoever asks, or does not take the value."""

    exit_code = EXIT_REFUSED


class NotThere(LembasError):
    """The instance has no such part: it is an older one, or a smaller one."""


class InstanceApi:
    """One instance's API, for one token."""

    def __init__(self, http: httpx.AsyncClient, server: str, token: str) -> None:
        self._http = http
        self.server = server
        self._headers = {"Authorization": f"Bearer {token}"}

    async def about(self) -> InstanceInfo:
        """The instance itself, and what this token may do. Raises NotThere for an older server too."""
        about: InstanceInfo = await self._read("/api/v1/instance", InstanceInfo)
        return about

    async def models(self) -> Any:
        """The list of models as it stands; `core.model_kinds` reads it. Raises NotThere."""
        listed = await self._read("/v1/models", Any, most_bytes=MAX_LIST_BYTES)
        if not model_kinds.is_list(listed):
            raise Unreachable(f"{self.server} lists no models; is it a LLeMbas server?")
        return listed

    async def usage(self) -> Usage | None:
        """What this month took; None from an instance that does not count."""
        try:
            answer: Usage = await self._read("/v1/usage", Usage)
        except NotThere:
            return None
        return answer

    async def personalization(self) -> Personalization | None:
        """The account's; None from an instance that has none."""
        try:
            answer: Personalization = await self._read("/v1/me/personalization", Personalization)
        except NotThere:
            return None
        return answer

    async def personalize(self, name: str, value: str | None) -> None:
        """Set one field of the account's (None: nothing there any more); the others stay as they are. Raises NotThere."""
        body = personalization.change(name, value)
        await self._ask("PUT", "/v1/me/personalization", json=body)

    async def _read(self, path: str, kind: Any, **options: Any) -> Any:
        answer = await self._ask("GET", path, **options)
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except (msgspec.MsgspecError, RecursionError):
            raise Unreachable(
                f"{self.server}{path} answers with something else than was asked for; "
                "is it a LLeMbas server?"
            ) from None

    async def _ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        url = f"{self.server}{path}"
        answer = await fetch(self._http, method, url, headers=self._headers, **options)
        status = answer.status_code
        if 200 <= status < 300:
            return answer
        said = refusal_words.detail(answer.content)
        match status:
            case 401:
                raise LoginEnded(
                    f"{self.server} does not accept this login any more; "
                    "log in again with `lembas login`"
                )
            case 403:
                raise NotAllowed(f"{self.server} refuses this: {said or 'not allowed'}")
            case 404 | 405 | 501:
                raise NotThere(f"{self.server} has no {path}; update it to LLeMbas 2.0")
            case 400 | 409 | 413 | 422:
                raise NotAllowed(
                    f"{self.server} does not take this: {said or 'give another value'}"
                )
        wish = retry_after(answer.headers)
        when = f"in {wish:.0f} s" if wish else "later"
        why = f" ({said})" if said else ""
        raise Unreachable(f"{url} answers {status}{why}; try again {when}", wish)
