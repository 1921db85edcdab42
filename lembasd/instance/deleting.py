"""Telling devices which of their sessions are deleted here. What waits is on disk: a device may be away for longer than we run."""

from pathlib import Path

from lembasd.instance.core.deletions import Deletion, Deletions, decode
from lembasd.instance.events import Events
from lembasd.instance.link import NOT_LINKED, DeviceLink
from lembasd.instance.state_file import StateFile, read
from lembasd.protocol.errors import RequestRefused


class Deleting(StateFile):
    """The deletions that wait, and their delivery."""

    def __init__(self, file: Path | None, events: Events) -> None:
        """Raises ConfigError for a file that cannot be used."""
        self._waiting = read(file, decode, Deletions())
        self._events = events
        super().__init__(file, self._waiting.encode)

    def waits(self, session_id: str) -> bool:
        """Whether the session is to be deleted: nothing makes it a chat again."""
        return self._waiting.waits(session_id)

    async def add(self, session_id: str, device: str) -> Deletion:
        """Have a session deleted. It is on disk when this returns, unless the disk is full."""
        deletion = self._waiting.add(session_id, device)
        self.changed()
        await self.saved()
        return deletion

    def said(self, session_id: str) -> None:
        """The device says by itself that the session is deleted."""
        self._waiting.done(session_id)
        self.changed()

    async def deliver_all(self, link: DeviceLink) -> None:
        """Ask a device that has linked for each deletion that waits for it. Raises RequestRefused as `deliver`."""
        for deletion in self._waiting.of(link.device_id):
            await self.deliver(link, deletion)

    async def deliver(self, link: DeviceLink, deletion: Deletion) -> None:
        """Ask for one; a refused one is asked for again when the device links next.

        Raises RequestRefused when no answer comes: it waits as well, and counts as no refusal.
        """
        params = {"sessionId": deletion.session_id}
        try:
            await link.request("_lembas/session/delete", params)
        except RequestRefused as error:
            if error.code == NOT_LINKED:
                raise
            if self._waiting.refused(deletion):
                # the session stays there, and here nothing is known of it any more
                refused = {**params, "message": error.message}
                self._events.add("instance/delete_refused", refused)
        else:
            self._waiting.done(deletion.session_id)
        self.changed()
