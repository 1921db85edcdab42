"""What the person has said and the model has not been given yet."""

from typing import Any

from msgspec import Struct

from lembasd.tui.core.plain import clean_line


class Attachment(Struct, frozen=True):
    """A file for the next prompt, as base64. `size` in bytes."""

    name: str
    mime: str
    data: str
    size: int

    @property
    def block(self) -> dict[str, Any]:
        if self.mime.startswith("image/"):
            return {"type": "image", "data": self.data, "mimeType": self.mime, "uri": self.name}
        resource = {"uri": self.name, "mimeType": self.mime, "blob": self.data}
        return {"type": "resource", "resource": resource}


class Message(Struct):
    """`steers`: for the turn that runs. `asked`: it was sent, and its answer has not come. `given`: a steer that was taken."""

    turn_id: str
    text: str
    attachments: tuple[Attachment, ...] = ()
    steers: bool = False
    asked: bool = False
    given: bool = False
    #: its turn was seen to begin: it is in the transcript
    begun: bool = False

    @property
    def blocks(self) -> list[dict[str, Any]]:
        text = [{"type": "text", "text": self.text}] if self.text.strip() else []
        return [*text, *(one.block for one in self.attachments)]

    @property
    def label(self) -> str:
        """One line for it."""
        files = "".join(f" [{clean_line(one.name)}]" for one in self.attachments)
        return clean_line(self.text) + files


class Waiting:
    """In the order in which it was said."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def add(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def shown(self) -> list[Message]:
        """What is not in the transcript yet."""
        return [one for one in self.messages if not one.begun]

    @property
    def to_ask(self) -> list[Message]:
        """What is not on its way."""
        return [one for one in self.messages if not one.asked and not one.given]

    def find(self, turn_id: str) -> Message | None:
        return next((one for one in self.messages if one.turn_id == turn_id), None)

    def drop(self, turn_id: str) -> Message | None:
        """Take it away; what it was."""
        found = self.find(turn_id)
        if found is not None:
            self.messages.remove(found)
        return found

    def begun(self, turn_id: str) -> None:
        found = self.find(turn_id)
        if found is not None:
            found.begun = True

    def steered(self, texts: list[str], ids: list[str]) -> None:
        """The model was given these."""
        self.messages = [
            one
            for one in self.messages
            if not one.steers or (one.turn_id not in ids and one.text not in texts)
        ]

    def turn_ended(self) -> None:
        """What was for that turn comes back with its answer, if it was not taken."""
        self.messages = [one for one in self.messages if not one.steers]

    def hub_lost(self) -> None:
        """What has no answer is asked again, with its id: a turn runs once."""
        for one in self.messages:
            one.asked = False
