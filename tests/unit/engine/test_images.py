"""Images in a conversation."""

from typing import Any

from lembasd.engine.native.core import images
from lembasd.engine.native.core.context import Conversation
from lembasd.store.records import (
    AnyRecord,
    Assistant,
    Call,
    Compacted,
    Image,
    Note,
    ToolResult,
    TurnAccepted,
    TurnStarted,
)

PNG = Image("image/png", "one")
GIF = Image("image/gif", "two")


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def test_each_image_comes_after_its_results_id_and_too_many_are_only_told_of() -> None:
    assert images.parts([("#0001", PNG), ("#0002", GIF)], 1) == [
        text("The image of #0001:"),
        image("image:image/png,one"),
        text(f"#0002: {images.TOO_MANY}"),
    ]


def test_the_images_of_messages_are_named_once_and_filled_in() -> None:
    foreign = image("https://example.org/a.png")
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "plain"},
        {"role": "user", "content": images.parts([("#0001", PNG), ("#0002", PNG)], 9)},
        {"role": "user", "content": [image("image:image/gif,two"), foreign]},
    ]
    assert images.named(messages) == {("image/png", "one"), ("image/gif", "two")}
    assert images.filled(messages, {("image/png", "one"): "data:x"}) == [
        {"role": "user", "content": "plain"},
        {
            "role": "user",
            "content": [
                text("The image of #0001:"),
                image("data:x"),
                text("The image of #0002:"),
                image("data:x"),
            ],
        },
        {"role": "user", "content": [text(images.GONE), foreign]},
    ]
    assert images.without(messages[0]) == messages[0]
    assert images.without(messages[2]) == {
        "role": "user",
        "content": f"{images.NOT_TAKEN}\n{images.NOT_TAKEN}",
    }


def call(number: int) -> Call:
    return Call(id=f"c{number}", server_id=f"s{number}", name="read", arguments="{}", args={})


def result(number: int, *shown: Image) -> ToolResult:
    return ToolResult(
        call_id=f"c{number}", result_id=f"#000{number}", output="ok", images=list(shown)
    )


BEGUN: list[AnyRecord] = [
    TurnAccepted(turn_id="t", text="look"),
    TurnStarted(turn_id="t"),
    Assistant(turn_id="t", message_id="m", model="x", calls=[call(1), call(2)]),
]


def test_the_images_of_a_step_are_shown_when_all_its_results_are_there() -> None:
    conversation = Conversation([*BEGUN, result(1, PNG)])
    assert [one["role"] for one in conversation.messages()[2:]] == ["assistant", "tool"]
    conversation.apply(result(2))
    assert [one["role"] for one in conversation.messages()[2:]] == [
        "assistant",
        "tool",
        "tool",
        "user",
    ]


def test_a_word_of_the_harness_goes_with_the_images_that_are_not_sent_yet() -> None:
    conversation = Conversation([*BEGUN, result(1, PNG), result(2), Note(text="the last one")])
    assert conversation.messages()[-1]["content"] == [
        text("The image of #0001:"),
        image("image:image/png,one"),
        text("the last one"),
    ]


def test_after_a_compaction_as_many_images_may_be_shown_again() -> None:
    many = [PNG] * images.MAX_IMAGES
    records: list[AnyRecord] = [*BEGUN, result(1, *many), result(2, GIF), Compacted(summary="so")]
    conversation = Conversation([*records, *BEGUN, result(1, GIF), result(2)])
    assert images.named(conversation.messages()) == {("image/gif", "two")}
