"""What the account has at this instance: its use of the month, and its personalization. A device's token opens both."""

import time
from pathlib import Path
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from lembasd.instance.core import account, use
from lembasd.instance.core.account import Account, NotTaken
from lembasd.instance.core.meter import Taken
from lembasd.instance.core.use import Use
from lembasd.instance.guard import Keys, TooLong, read_body
from lembasd.instance.state_file import StateFile, read
from lembasd.protocol.limits import KIB

#: a personalization's texts, escaped
MAX_BODY_BYTES: Final = 512 * KIB
#: what a token must have been given to read and change the personalization
_SCOPE: Final = "link"


def _month() -> str:
    """The month it is now, in UTC."""
    return time.strftime("%Y-%m", time.gmtime())


class AccountApi:
    """Keeps both in their files, or in memory alone without them."""

    def __init__(self, keys: Keys, use_file: Path | None, account_file: Path | None) -> None:
        """Raises ConfigError for a file that cannot be used."""
        self._keys = keys
        self._use = read(use_file, use.decode, Use())
        self._use_file = StateFile(use_file, self._use.encode)
        self._account = read(account_file, account.decode, Account())
        self._account_file = StateFile(account_file, self._encode_account)

    def _encode_account(self) -> bytes:
        return self._account.encode()  # the one of then: each change makes another

    def routes(self) -> list[Route]:
        return [
            Route("/v1/usage", self._usage, methods=["GET"]),
            Route("/v1/me/personalization", self._personalization, methods=["GET"]),
            Route("/v1/me/personalization", self._personalize, methods=["PUT"]),
        ]

    def took(self, device: str, taken: Taken) -> None:
        """A device's model answered."""
        self._use.add(_month(), device, taken)
        self._use_file.changed()

    async def saved(self) -> None:
        """Wait until both are on disk."""
        await self._use_file.saved()
        await self._account_file.saved()

    async def _usage(self, request: Request) -> Response:
        device = self._keys.allowed(request, "models")
        if isinstance(device, Response):
            return device
        return JSONResponse(self._use.shown(_month(), device.id))

    async def _personalization(self, request: Request) -> Response:
        refused = self._refused(request)
        return JSONResponse(self._account.shown()) if refused is None else refused

    def _refused(self, request: Request) -> Response | None:
        """Why the personalization is not this token's to have; None: it is."""
        device = self._keys.device(request)
        if device is not None and not device.may(_SCOPE):
            return _not_taken(403, f"this token has no scope `{_SCOPE}`; log in again")
        allowed = self._keys.allowed(request, _SCOPE)
        return allowed if isinstance(allowed, Response) else None

    async def _personalize(self, request: Request) -> Response:
        refused = self._refused(request)
        if refused is not None:
            return refused
        try:
            fields = msgspec.json.decode(
                await read_body(request, MAX_BODY_BYTES), type=dict[str, Any]
            )
            changed = self._account.changed(fields)
        except TooLong:
            return _not_taken(413, "this is too long; shorten it")
        except msgspec.MsgspecError:
            return _not_taken(422, "send an object with the fields to change")
        except NotTaken as why:
            return _not_taken(422, str(why))
        before, self._account = self._account, changed
        self._account_file.changed()
        await self._account_file.saved()
        problem = self._account_file.problem
        if problem is not None:
            self._account = before
            return _not_taken(507, f"this cannot be stored ({problem.strerror}); make room")
        return JSONResponse(changed.shown())


def _not_taken(status: int, detail: str) -> Response:
    return JSONResponse({"detail": detail}, status)
