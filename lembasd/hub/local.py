"""The hub's own methods for clients on this machine: `_hub/status`, `_hub/stop`, `_hub/reload` (the router does `_hub/attach`)."""

import time
from collections.abc import Callable

from lembasd.hub.lifecycle import Lifecycle
from lembasd.hub.runner import Hub
from lembasd.hub.status import hub_status


class LocalDesk:
    """Answers from what the hub's parts say of themselves at that moment."""

    def __init__(
        self,
        hub: Hub,
        lifecycle: Lifecycle,
        *,
        socket: str,
        portable: bool,
        link: Callable[[], object],
        zygotes: Callable[[], object],
        problem: Callable[[], str | None],
        strangers: Callable[[], object],
        reload: Callable[[int, bytes], None],
        reloads: int = 0,
    ) -> None:
        self._hub = hub
        self._lifecycle = lifecycle
        self._socket = socket
        self._portable = portable
        self._link = link
        self._zygotes = zygotes
        self._problem = problem
        self._strangers = strangers
        self._reload = reload
        self._reloads = reloads
        self._since = time.monotonic()

    def status(self) -> object:
        return hub_status(
            self._hub,
            uptime_s=time.monotonic() - self._since,
            socket=self._socket,
            portable=self._portable,
            link=self._link(),
            zygotes=self._zygotes(),
            problem=self._problem(),
            strangers=self._strangers(),
            reloads=self._reloads,
        )

    def stop(self) -> None:
        self._lifecycle.stop()

    def reload(self, client: int, message_id: bytes) -> None:
        self._reload(client, message_id)
