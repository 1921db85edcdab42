"""Keeping a conversation within the model's window: measuring it, and having the model sum it up."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from lembasd.engine.native.core import compaction, images
from lembasd.engine.native.core.capacity import Capacity
from lembasd.engine.native.core.context import Conversation, wire_call
from lembasd.engine.native.core.reply import Reply, Usage
from lembasd.engine.native.model_client import ModelFailed, WindowFull
from lembasd.harness.loader import LOOP
from lembasd.protocol import events
from lembasd.protocol.events import AnyEvent
from lembasd.store.records import AnyRecord, Compacted, Learned

_AGAIN = 2


class Compactor:
    """`ask` asks the model with these messages and shows nothing of its reply; `record` keeps and applies a record."""

    def __init__(
        self,
        conversation: Conversation,
        *,
        ask: Callable[[list[dict[str, Any]]], Awaitable[Reply]],
        record: Callable[[AnyRecord], None],
        emit: Callable[[AnyEvent], None],
    ) -> None:
        self._conversation = conversation
        self._ask = ask
        self._record = record
        self._emit = emit
        self.begin()
        #: what the requests for the summary took
        self._used: list[Usage] = []

    def begin(self) -> None:
        """Measure anew: the conversation, or the model it is had with, is another one."""
        texts = LOOP.compaction
        self._capacity = Capacity(
            self._conversation.window, share=texts.share, reserve=texts.reserve
        )
        #: the last one saved next to nothing: by size alone there is no other
        self._stalled = False
        self._warned = False

    @property
    def window(self) -> int:
        """The model's window in tokens, 0 when nobody said."""
        return self._capacity.window

    def learn(self, window: int) -> None:
        """Keep the window's length."""
        if window > 0 and window != self._capacity.window:
            self._capacity.window = window
            self._record(Learned(window=window))

    def leave_room_for(self, output_tokens: int) -> None:
        """Keep as many tokens of the window free as one reply may have; 0: nobody said."""
        self._capacity.leave_room_for(output_tokens)

    def counted(self, usage: Usage) -> None:
        """Take in what the server counted for the request whose reply has just come, before that is recorded."""
        if not usage.input:
            return
        if self._capacity.counted(self._bytes(), usage.input) or self._warned:
            return
        self._warned = True
        self.learn(usage.input)
        text = (
            f"the model's server has read {usage.input} tokens only, and left the beginning out; "
            "give the model a larger context there"
        )
        self._emit(events.Notice(level="warning", text=text))

    @property
    def is_due(self) -> bool:
        """Whether the next request would fill the window too far."""
        return bool(self.window) and not self._stalled and self._capacity.is_full(self._bytes())

    def _bytes(self) -> int:
        messages = self._conversation.messages()
        shown = len(images.named(messages)) * images.IMAGE_BYTES
        return len(msgspec.json.encode(messages)) + shown

    async def compact(self, task: str) -> str:
        """Have the conversation summed up; the summary. `task`: the prompt of the turn that runs.

        Raises ModelFailed; WindowFull when it is too long even for that.
        """
        before = self._bytes()
        self._used = []
        summary = await self._summary()
        self._record(
            Compacted(
                summary=summary,
                task=task,
                reads=self._conversation.shown.table(),
                input_tokens=sum(one.input for one in self._used),
                output_tokens=sum(one.output for one in self._used),
                cached_tokens=sum(one.cached for one in self._used),
            )
        )
        self._emit(events.Compacted(summary=summary))
        self._stalled = self._bytes() > before * (1 - LOOP.compaction.least_saved)
        return summary

    async def _summary(self) -> str:
        messages = self._conversation.messages()
        for rung in range(compaction.LADDER):
            try:
                return await self._said(compaction.asked(messages, rung, LOOP.compaction))
            except WindowFull:
                continue
        raise WindowFull(
            "the conversation is too long for the model, even to be summed up; open a new session",
            None,
        )

    async def _said(self, messages: list[dict[str, Any]]) -> str:
        for _ in range(_AGAIN):
            reply = await self._ask(messages)
            self._used.append(reply.usage)
            if reply.text.strip():
                return reply.text
            if reply.calls:
                calls = [wire_call(call) for call in reply.calls]
                messages = [
                    *messages,
                    {"role": "assistant", "content": "", "tool_calls": calls},
                    *(
                        {
                            "role": "tool",
                            "tool_call_id": call["id"],
                            "content": LOOP.compaction.no_tools,
                        }
                        for call in calls
                    ),
                ]
        raise ModelFailed("the model did not sum the conversation up; send it again")
