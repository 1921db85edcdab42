"""Images in a conversation: a part that names the image, until the request is made and its content put in.

An image that a tool shows follows the results of its step as a user's message: many servers take none in a result.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lembasd.store.records import Image

#: images that a conversation shows; of more the model is told, and sees them again after a compaction
MAX_IMAGES: Final = 20
#: what an image counts for in the window, as bytes of text: some 1,500 tokens
IMAGE_BYTES: Final = 4_000
TOO_MANY: Final = "[not shown: too many images in this conversation]"
GONE: Final = "[the image is not there any more]"
NOT_TAKEN: Final = "[not shown: this model takes no images]"
_SCHEME: Final = "image:"


def parts(shown: Sequence[tuple[str, Image]], room: int) -> list[dict[str, Any]]:
    """The content that shows the images of results, each with its result's id; `room`: how many may be shown."""
    content: list[dict[str, Any]] = []
    for index, (result_id, image) in enumerate(shown):
        said = f"The image of {result_id}:" if index < room else f"{result_id}: {TOO_MANY}"
        content.append({"type": "text", "text": said})
        if index < room:
            url = {"url": f"{_SCHEME}{image.mime},{image.name}"}
            content.append({"type": "image_url", "image_url": url})
    return content


def named(messages: Sequence[dict[str, Any]]) -> set[tuple[str, str]]:
    """Type and name of every image in the messages."""
    return {found for one in messages for part in _parts(one) if (found := _image(part))}


def filled(
    messages: Sequence[dict[str, Any]], urls: Mapping[tuple[str, str], str]
) -> list[dict[str, Any]]:
    """The messages with each image's content as a data URL; one that is not in `urls` is gone."""

    def put(part: dict[str, Any]) -> dict[str, Any]:
        found = _image(part)
        if found is None:
            return part
        if found not in urls:
            return {"type": "text", "text": GONE}
        return {"type": "image_url", "image_url": {"url": urls[found]}}

    return [
        {**one, "content": [put(part) for part in _parts(one)]} if _parts(one) else one
        for one in messages
    ]


def without(message: dict[str, Any]) -> dict[str, Any]:
    """The message for a model that takes no images: its texts."""
    if not _parts(message):
        return message
    texts = [part["text"] if part["type"] == "text" else NOT_TAKEN for part in _parts(message)]
    return {**message, "content": "\n".join(texts)}


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _image(part: dict[str, Any]) -> tuple[str, str] | None:
    if part["type"] != "image_url":
        return None
    url = str(part["image_url"]["url"])
    if not url.startswith(_SCHEME):
        return None
    mime, _, name = url.removeprefix(_SCHEME).partition(",")
    return mime, name
