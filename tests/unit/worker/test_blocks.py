"""The blocks of a prompt, as a client writes them."""

import base64
from typing import Any

import msgspec
import pytest

from lembasd.protocol.errors import INVALID_PARAMS, RequestRefused
from lembasd.worker.core.blocks import MAX_UPLOADS, Upload, file_name, name_of
from lembasd.worker.core.requests import Prompt, read_prompt

PNG = b"\x89PNG\r\n\x1a\n"
MB = 1_000_000


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def asked(*blocks: Any) -> bytes:
    return msgspec.json.encode({"sessionId": "s", "prompt": blocks})


def image(**fields: Any) -> dict[str, Any]:
    return {"type": "image", "data": encoded(PNG), "mimeType": "image/png", **fields}


def resource(**fields: Any) -> dict[str, Any]:
    return {"type": "resource", "resource": fields}


@pytest.mark.parametrize(
    ("block", "upload"),
    [
        (
            '{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"}',
            Upload("image.png", "image/png", PNG, "image"),
        ),
        (
            '{"type":"image","data":"iVBORw0KGgo=","mimeType":"IMAGE/JPEG; q=1","uri":"file:///a/b%20c.jpg"}',
            Upload("b c.jpg", "image/jpeg", PNG, "image"),
        ),
        (
            '{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/webp","uri":null}',
            Upload("image.webp", "image/webp", PNG, "image"),
        ),
        (
            '{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/gif","uri":"data:x"}',
            Upload("image.gif", "image/gif", PNG, "image"),
        ),
        (
            '{"type":"resource","resource":{"uri":"file:///p/a.md","mimeType":"text/markdown","text":"é"}}',
            Upload("a.md", "text/markdown", "é".encode(), "text"),
        ),
        (
            '{"type":"resource","resource":{"text":""}}',
            Upload("file.txt", "text/plain", b"", "text"),
        ),
        (
            '{"type":"resource","resource":{"uri":"x/y.zip?v=1#z","blob":"UEsDBA=="}}',
            Upload("y.zip", "application/octet-stream", b"PK\3\4", "blob"),
        ),
        (
            '{"type":"resource","resource":{"uri":"..","mimeType":"ü","blob":""}}',
            Upload("file", "application/octet-stream", b"", "blob"),
        ),
    ],
)
@pytest.mark.spec("session/prompt: resource with a blob")
def test_each_kind_of_file_is_read(block: str, upload: Upload) -> None:
    params = f'{{"sessionId":"s","prompt":[{{"type":"text","text":"see"}},{block}]}}'
    assert read_prompt(params.encode()) == Prompt("see", None, [upload])


def test_a_prompt_may_be_files_alone() -> None:
    assert read_prompt(asked(image())).text == ""


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ({"type": "audio", "data": ""}, "of type 'audio' is not taken here; send text"),
        (image(mimeType="image/svg+xml"), "an image of type 'image/svg.xml' is not taken here"),
        (image(mimeType=None), "an image of type '' is not taken here"),
        (image(data=""), "an image block needs data"),
        (image(data=None), "an image block needs data"),
        (image(data="!" * 8), "the data of an image block is not base64"),
        (image(data="éé=="), "the data of an image block is not base64"),
        (image(data="iVBORw0KGgo"), "the data of an image block is not base64"),
        (resource(uri="a"), "a resource block holds either text or a blob"),
        (resource(uri="a", text="", blob=""), "a resource block holds either text or a blob"),
        ({"type": "resource"}, "a resource block holds either text or a blob"),
        (resource(blob="*"), "the blob of a resource block is not base64"),
        (resource(text=5), "cannot be read"),
        ({"type": "resource_link", "uri": ""}, "a resource_link needs a uri"),
    ],
)
def test_a_block_that_cannot_be_taken_is_refused_with_a_sentence(
    block: dict[str, Any], says: str
) -> None:
    with pytest.raises(RequestRefused, match=says) as refused:
        read_prompt(asked(block))
    assert refused.value.code == INVALID_PARAMS


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": "é" * (5 * MB) + "x"},
        {"type": "resource_link", "uri": "x" * (10 * MB + 1)},
        image(data=encoded(bytes(10 * MB + 1))),
        resource(text="x" * (10 * MB + 1)),
        resource(blob=encoded(bytes(10 * MB + 1))),
        # garbage is measured, and never decoded
        image(data="!" * (14 * MB)),
    ],
    ids=["text", "link", "image", "resource text", "blob", "garbage"],
)
def test_a_block_over_ten_megabytes_is_refused(block: dict[str, Any]) -> None:
    with pytest.raises(RequestRefused, match="a prompt block holds at most 10 MB"):
        read_prompt(asked(block))


def test_what_is_decoded_counts_and_the_bound_itself_is_taken() -> None:
    whole = resource(blob=encoded(bytes(10 * MB)))
    prompt = read_prompt(asked(whole, whole, resource(blob=encoded(bytes(5 * MB)))))
    assert [len(one.content) for one in prompt.uploads] == [10 * MB, 10 * MB, 5 * MB]
    with pytest.raises(RequestRefused, match="a prompt holds at most 25 MB"):
        read_prompt(asked(whole, whole, resource(blob=encoded(bytes(5 * MB + 1)))))


def test_too_many_files_are_refused() -> None:
    assert len(read_prompt(asked(*[image()] * MAX_UPLOADS)).uploads) == MAX_UPLOADS
    with pytest.raises(RequestRefused, match="a prompt brings at most 100 files"):
        read_prompt(asked(*[image()] * (MAX_UPLOADS + 1)))


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        (None, ""),
        ("file:///", ""),
        ("file:///a/..", ""),
        ("file:///a/%2e%2e%2fetc%2fpasswd", "passwd"),
        ("file:///a%0Ab\u202etxt", "a_b_txt"),
        ("zed:///x/\N{ROCKET}.png", "\N{ROCKET}.png"),
        ("x" * 3000 + ".png", "x" * 196 + ".png"),
    ],
)
def test_a_name_is_one_line_of_the_uris_end(uri: str | None, name: str) -> None:
    assert name_of(uri) == name


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("a b\N{ROCKET}.png", "a_b_.png"),
        ("../x", ".._x"),
        ("x" * 100 + ".png", "x" * 76 + ".png"),
    ],
)
def test_a_files_name_is_plain(name: str, file: str) -> None:
    assert file_name(name) == file
