"""A reply put together from pieces is the reply that was cut into them."""

import itertools
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from lembasd.engine.native.core.reply import (
    CallDelta,
    Delta,
    ReasoningDelta,
    Reply,
    ReplyAssembler,
    StreamError,
    TextDelta,
)
from lembasd.store.records import Call

ARGS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.text(max_size=6), st.text(max_size=12) | st.integers(-999, 999) | st.booleans(), max_size=3
)
CALLS = st.lists(st.tuples(st.sampled_from(["read", "bash", "edit"]), ARGS), max_size=4)


def cut(data: st.DataObject, text: str) -> list[str]:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=3).map(sorted))
    return [text[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def chunk(delta: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"choices": [{"index": 0, "delta": delta}]})


@given(st.text(max_size=20), st.text(max_size=20), CALLS, st.data())
def test_pieces_of_calls_may_come_interleaved(
    text: str, reasoning: str, calls: list[tuple[str, dict[str, Any]]], data: st.DataObject
) -> None:
    # each queue is one stream of pieces in order; whose piece comes next is drawn
    queues: list[list[bytes]] = [
        [chunk({"content": part}) for part in cut(data, text)],
        [chunk({"reasoning_content": part}) for part in cut(data, reasoning)],
    ]
    texts = [msgspec.json.encode(args).decode() for _, args in calls]
    numbers = itertools.count(1)
    assembler = ReplyAssembler(lambda: f"call_{next(numbers):016x}", set())
    deltas: list[Delta] = []

    def feed(raw: bytes) -> None:
        news = assembler.feed(raw)
        assert not isinstance(news, StreamError)
        deltas.extend(news)

    for index, (name, _) in enumerate(calls):
        head = {"index": index, "id": f"s{index}", "function": {"name": name, "arguments": ""}}
        feed(chunk({"tool_calls": [head]}))
        queues.append(
            [
                chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
                for part in cut(data, texts[index])
            ]
        )
    while any(queues):
        full = [number for number, queue in enumerate(queues) if queue]
        feed(queues[data.draw(st.sampled_from(full))].pop(0))

    deltas += assembler.end()
    assert assembler.reply() == Reply(
        text=text,
        reasoning=reasoning,
        calls=[
            Call(
                id=f"call_{index + 1:016x}",
                server_id=f"s{index}",
                name=name,
                arguments=texts[index],
                args=args,
            )
            for index, (name, args) in enumerate(calls)
        ],
    )
    # what was told as it came is what the reply is
    assert "".join(one.text for one in deltas if isinstance(one, TextDelta)) == text
    assert "".join(one.text for one in deltas if isinstance(one, ReasoningDelta)) == reasoning
    told = [
        "".join(
            one.arguments
            for one in deltas
            if isinstance(one, CallDelta) and one.call_id == f"call_{index + 1:016x}"
        )
        for index in range(len(calls))
    ]
    assert told == texts


@given(st.lists(st.none() | st.sampled_from(["a", "b", "same"]), min_size=1, max_size=5))
def test_every_call_has_a_server_id_of_its_own_that_was_never_used(ids: list[str | None]) -> None:
    used = {"a", "older"}
    numbers = itertools.count(1)
    assembler = ReplyAssembler(lambda: f"call_{next(numbers):09d}", set(used))
    for index, server_id in enumerate(ids):
        assembler.feed(
            chunk({"tool_calls": [{"index": index, "id": server_id, "function": {"name": "read"}}]})
        )
    given_ids = [call.server_id for call in assembler.reply().calls]
    assert len(given_ids) == len(ids)
    assert len(set(given_ids)) == len(given_ids)
    assert not used & set(given_ids)
