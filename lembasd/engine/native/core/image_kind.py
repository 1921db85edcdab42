"""What image a file is, told from its first bytes: those kinds that models take, and their size in pixels."""

from typing import Final

from msgspec import Struct

_PNG: Final = b"\x89PNG\r\n\x1a\n"
#: markers of a JPEG that hold the size
_JPEG_SIZES: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})


class ImageKind(Struct, frozen=True):
    """`width` and `height` in pixels; 0 where the image is damaged and does not say."""

    mime: str
    width: int
    height: int

    @property
    def name(self) -> str:
        return self.mime.removeprefix("image/").upper()


def image_kind(data: bytes) -> ImageKind | None:
    """None for what is none of PNG, JPEG, GIF and WebP."""
    if data.startswith(_PNG):
        is_whole = data[12:16] == b"IHDR" and b"IEND" in data[-64:]
        return ImageKind("image/png", *(_big(data, 16, 4) if is_whole else (0, 0)))
    if data.startswith((b"GIF87a", b"GIF89a")):
        return ImageKind("image/gif", _little(data, 6, 2), _little(data, 8, 2))
    if data.startswith(b"\xff\xd8\xff"):
        return ImageKind("image/jpeg", *_jpeg_size(data))
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        is_whole = len(data) >= _little(data, 4, 4) + 8
        return ImageKind("image/webp", *(_webp_size(data) if is_whole else (0, 0)))
    return None


def _big(data: bytes, at: int, size: int) -> tuple[int, int]:
    parts = data[at : at + size], data[at + size : at + 2 * size]
    return int.from_bytes(parts[0], "big"), int.from_bytes(parts[1], "big")


def _little(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _jpeg_size(data: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        if data[at + 1] in _JPEG_SIZES:
            height, width = _big(data, at + 5, 2)
            return width, height
        if data[at + 1] == 0xFF:
            at += 1  # a filler
            continue
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return 0, 0


def _webp_size(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8X":
            return _little(data, 24, 3) + 1, _little(data, 27, 3) + 1
        case b"VP8L":
            bits = _little(data, 21, 4)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            return _little(data, 26, 2) & 0x3FFF, _little(data, 28, 2) & 0x3FFF
        case _:
            return 0, 0
