"""The blocks of a prompt: what is typed, and the files that come with it, within their bounds."""

import binascii
from collections.abc import Sequence
from typing import Final, NoReturn
from urllib.parse import unquote

from msgspec import Struct

from lembasd.protocol.acp import ContentBlock, EmbeddedResource
from lembasd.protocol.errors import INVALID_PARAMS, RequestRefused
from lembasd.protocol.limits import MAX_BLOCK_BYTES, MAX_PROMPT_BYTES, MB
from lembasd.store.records import AttachmentKind

#: files that one prompt brings; more is refused, for each is a file of its own on the disk
MAX_UPLOADS: Final = 100
#: characters of a file's name as it is shown; of a longer one the end stays
MAX_NAME_CHARS: Final = 200
#: characters of a uri that a name is looked for in: more is no name
_URI_CHARS: Final = 2000
#: the types of image that are taken (link.md, session/prompt), and what one without a name is called
IMAGES: Final = {
    "image/png": "image.png",
    "image/jpeg": "image.jpg",
    "image/webp": "image.webp",
    "image/gif": "image.gif",
}
_TEXT: Final = "text/plain"
_BINARY: Final = "application/octet-stream"


class Upload(Struct, frozen=True):
    """A file that came with a prompt, not stored yet."""

    name: str
    mime: str
    content: bytes
    kind: AttachmentKind


def read(blocks: Sequence[ContentBlock]) -> tuple[str, list[Upload]]:
    """The text of a prompt, and its files. Raises RequestRefused (-32602)."""
    sizes = [_size(block) for block in blocks]
    if sum(sizes) > MAX_PROMPT_BYTES:
        _refuse(f"a prompt holds at most {MAX_PROMPT_BYTES // MB} MB; send less of it at once")
    texts: list[str] = []
    uploads: list[Upload] = []
    for block in blocks:
        match block.type:
            case "text":
                texts.append(block.text or "")
            case "resource_link":
                texts.append(f"(see {block.uri})")
            case "image":
                uploads.append(_image(block))
            case _:
                uploads.append(_resource(block.resource or EmbeddedResource()))
    if len(uploads) > MAX_UPLOADS:
        _refuse(f"a prompt brings at most {MAX_UPLOADS} files; send less of them at once")
    return "\n\n".join(texts), uploads


def _refuse(sentence: str) -> NoReturn:
    raise RequestRefused(INVALID_PARAMS, sentence)


def _size(block: ContentBlock) -> int:
    """The bytes that a block holds, decoded, found out before anything is decoded."""
    match block.type:
        case "text":
            size = _utf8(block.text or "")
        case "resource_link" if block.uri:
            size = _utf8(block.uri)
        case "resource_link":
            _refuse("a resource_link needs a uri; name what it links to")
        case "image":
            size = _base64(block.data or "")
        case "resource":
            held = block.resource or EmbeddedResource()
            if (held.text is None) == (held.blob is None):
                _refuse("a resource block holds either text or a blob; send one of them")
            size = _utf8(held.text or "") + _base64(held.blob or "")
        case _:
            _refuse(
                f"a prompt block of type {block.type[:40]!r} is not taken here; "
                "send text, resource_link, image or resource"
            )
    if size > MAX_BLOCK_BYTES:
        _refuse(f"a prompt block holds at most {MAX_BLOCK_BYTES // MB} MB; send it as a file")
    return size


def _utf8(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def _base64(data: str) -> int:
    return len(data) * 3 // 4 - data[-2:].count("=")


def _decoded(data: str, what: str) -> bytes:
    try:
        return binascii.a2b_base64(data, strict_mode=True)
    except ValueError:  # binascii.Error, and characters that are none of ASCII
        _refuse(f"{what} is not base64; encode it again")


def _image(block: ContentBlock) -> Upload:
    mime = _mime(block.mimeType, "")
    if mime not in IMAGES:
        _refuse(
            f"an image of type {mime[:40]!r} is not taken here; send PNG, JPEG, WebP or GIF, "
            "or send it as a resource"
        )
    if not block.data:
        _refuse("an image block needs data; send the image as base64")
    content = _decoded(block.data, "the data of an image block")
    return Upload(name_of(block.uri) or IMAGES[mime], mime, content, "image")


def _resource(resource: EmbeddedResource) -> Upload:
    name = name_of(resource.uri)
    if resource.blob is None:
        text = (resource.text or "").encode(errors="replace")
        return Upload(name or "file.txt", _mime(resource.mimeType, _TEXT), text, "text")
    content = _decoded(resource.blob, "the blob of a resource block")
    return Upload(name or "file", _mime(resource.mimeType, _BINARY), content, "blob")


def _mime(said: str | None, default: str) -> str:
    mime = (said or "").partition(";")[0].strip().lower()
    return mime[:100] if mime.isprintable() and mime.isascii() and mime else default


def name_of(uri: str | None) -> str:
    """What a file is called by its uri: the last part of its path, on one line; "" when that says nothing."""
    if not uri or uri.startswith("data:"):
        return ""
    path = uri[-_URI_CHARS:].partition("?")[0].partition("#")[0]
    path = (path.partition("://")[2] or path).rstrip("/")
    last = unquote(path.rpartition("/")[2]).rpartition("/")[2]
    name = "".join(char if char.isprintable() else "_" for char in last).strip()
    return "" if name in ("", ".", "..") else name[-MAX_NAME_CHARS:]


def file_name(name: str) -> str:
    """The name as one of a file: letters, digits and `._-`; it keeps its end, which says what the file is."""
    plain = "".join(
        char if (char.isascii() and char.isalnum()) or char in "._-" else "_" for char in name
    )
    return plain[-80:]
