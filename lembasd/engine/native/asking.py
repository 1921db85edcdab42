"""Asking the model for the next reply of a turn: in its window, with the login that counts, shown as it comes."""

import base64
import secrets
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from lembasd.engine.api import Host
from lembasd.engine.native import listing
from lembasd.engine.native.compactor import Compactor
from lembasd.engine.native.core import images, levels, model_list, server_facts
from lembasd.engine.native.core.capacity import leaves_tools_out
from lembasd.engine.native.core.context import Conversation
from lembasd.engine.native.core.levels import ModelInfo
from lembasd.engine.native.core.reply import (
    CallDelta,
    Delta,
    Progress,
    ReasoningDelta,
    Reply,
    ReplyAssembler,
    TextDelta,
    Usage,
)
from lembasd.engine.native.model_client import ModelClient, ModelFailed, TokenRefused, WindowFull
from lembasd.engine.native.offered import Offered
from lembasd.protocol import events
from lembasd.protocol.control import Account
from lembasd.store.records import AccountPersonalization, AnyRecord, Assistant, Call, Learned

_NO_MODEL: Final = "this session has no model; set `model` in config.yaml and open a new session"
_NO_LOGIN: Final = "this device is not logged in to an instance; run `lembas login`"
_NO_TOOLS: Final = "takes no tools, which an agent needs; choose another model"
#: facts that the server did not say: they may be due to one bad answer, and hold for the session alone
_NOT_REFUSED: Final = frozenset({"no_stream", "thinks"})
_LEFT_OUT: Final = (
    "the model's server leaves the tools out of what the model reads; "
    "give it a chat template with tools (llama-server: --jinja), or choose another model"
)


class _Kept(Struct, frozen=True):
    """The session's model and effort, and what is known of the model's server."""

    model: str
    effort: str
    facts: frozenset[str]


class Asking:
    """The model's side of one session. `record` keeps a record and has the conversation take it in."""

    def __init__(
        self,
        host: Host,
        conversation: Conversation,
        offered: Offered,
        *,
        model: str,
        effort: str,
        record: Callable[[AnyRecord], None],
    ) -> None:
        self._host = host
        self._conversation = conversation
        self._offered = offered
        self.model = model
        self._effort = effort
        #: the session's, while a command has others for its prompt
        self._kept: _Kept | None = None
        self._record = record
        self._client = ModelClient(
            facts=conversation.facts,
            on_delta=self._delta,
            on_wait=self._wait,
            on_retract=self._retract,
            on_fact=self._learnt,
        )
        self._compactor = Compactor(
            conversation, ask=self._ask_apart, record=record, emit=host.emit
        )
        #: nothing of the reply under way is shown: it is a summary
        self._is_apart = False
        self._looked_up = False
        self._asked_account = False
        #: the model was changed, so that its prefix is new whatever was asked before
        self._is_other = False
        self._info: ModelInfo | None = None
        self._message_id = ""
        #: facts that were learnt since the last reply
        self._news: list[str] = []
        #: images of the conversation as data URLs, by type and name
        self._urls: dict[tuple[str, str], str] = {}
        self._told_of_tools = False

    @property
    def efforts(self) -> list[str] | None:
        """The model's levels, None while they are not known."""
        return None if self._info is None else levels.offered(self._info)

    def set_effort(self, effort: str) -> None:
        """Ask with this effort from the next request on."""
        if self._kept is not None:
            self._kept = replace(self._kept, effort=effort)
        else:
            self._effort = effort

    def lend(self, model: str, effort: str) -> None:
        """Ask another model, or with another effort, until it is given back; "": the session's."""
        self._kept = _Kept(self.model, self._effort, self._client.facts)
        self._effort = effort or self._effort
        if model and model != self.model:
            self.model, self._client.facts = model, frozenset()
            self._info, self._looked_up = None, False
        self._tell_model()

    def give_back(self) -> None:
        """Ask the session's model with its effort again."""
        kept, self._kept = self._kept, None
        if kept is None:
            return
        if kept.model != self.model:
            # what its server says of it is asked once more: its window is another one
            self.model, self._client.facts = kept.model, kept.facts
            self._info, self._looked_up = None, False
        self._effort = kept.effort
        self._tell_model()

    def _tell_model(self) -> None:
        account = self._host.settings.account
        connection = account.connection if account is not None else None
        # a device has one server, and every model is its
        self._host.emit(events.ModelChanged(self.model, self._effort, connection, instance=True))

    def rewound(self) -> None:
        """The conversation is a shorter one."""
        self._compactor.begin()

    def set_model(self, model: str) -> None:
        """Ask this model from the next request on; what is known of the other one is not known of it."""
        self.model = model
        self._client.facts = frozenset()
        self._info, self._looked_up = None, False
        self._is_other, self._told_of_tools = True, False
        self._compactor.begin()

    async def next_reply(self) -> Reply:
        """The model's answer to the conversation, recorded and told.

        Raises ModelFailed, and OSError when it cannot be recorded. A cancelled one is kept as far as it got.
        """
        self._message_id = f"msg_{secrets.token_hex(8)}"
        try:
            reply = await self._reply_with_room()
        finally:
            await self._remember()
        if reply.reread:
            self._show_again(reply)
        self._measure(reply.usage)
        return reply

    def _measure(self, usage: Usage) -> None:
        """Take in what the server counted, and tell the person when it has not read what it was sent."""
        said = len(msgspec.json.encode(self._conversation.messages()))
        if leaves_tools_out(said, self._offered.size, usage.input):
            if not self._told_of_tools:
                self._told_of_tools = True
                self._host.emit(events.Notice(level="warning", text=_LEFT_OUT))
            return
        self._compactor.counted(usage)

    async def look_up_personalization(self) -> None:
        """Before the session is first told of it: how the account wants to be answered. Raises OSError."""
        account = self._host.settings.account
        if self._asked_account or account is None or self._conversation.personalization is not None:
            return
        self._asked_account = True
        said = await self._client.personalization(account)
        if said is not None and said.in_place is not None:
            # kept, so that it stays what it is while the session lasts
            self._record(AccountPersonalization(personalization=said.in_place))

    async def compact(self) -> str:
        """Have the conversation summed up between turns; the summary. Raises ModelFailed."""
        await self._look_up_model()
        return await self._compactor.compact("")

    async def aclose(self) -> None:
        """Close the connections to the server."""
        await self._client.aclose()

    # ── recording ───────────────────────────────────────────────────────────────────────────────

    def keep(self, turn_id: str, reply: Reply, calls: list[Call]) -> None:
        """Record the whole reply with its calls under their present names, and tell what it took."""
        self._record_reply(turn_id, reply, calls)
        usage = reply.usage
        self._tell_usage(usage, context=usage.input + usage.output)

    def keep_partial(self, turn_id: str) -> None:
        """The text so far of a reply that was cancelled stays in the history."""
        partial = self._client.partial
        if partial is None or self._is_apart:
            return
        reply = partial.reply()
        if reply.text or reply.reasoning:
            self._record_reply(turn_id, reply, [], partial=True)

    def _record_reply(
        self, turn_id: str, reply: Reply, calls: list[Call], *, partial: bool = False
    ) -> None:
        usage = reply.usage
        self._record(
            Assistant(
                turn_id=turn_id,
                message_id=self._message_id,
                model=self.model,
                text=reply.text,
                reasoning=reply.reasoning,
                reasoning_key=reply.reasoning_key,
                calls=calls,
                partial=partial,
                input_tokens=usage.input,
                output_tokens=usage.output,
                cached_tokens=usage.cached,
            )
        )

    def _tell_usage(self, usage: Usage, *, context: int | UnsetType) -> None:
        if not usage.input and not usage.output:
            return
        cost = levels.cost(usage, None if self._info is None else self._info.price)
        self._host.emit(
            events.Usage(
                input=usage.input,
                output=usage.output,
                cached=usage.cached,
                reasoning=usage.reasoning or UNSET,
                context=context,
                window=self._compactor.window or UNSET,
                cost=UNSET if cost is None else events.Cost(*cost),
            )
        )

    # ── asking ──────────────────────────────────────────────────────────────────────────────────

    async def _reply_with_room(self) -> Reply:
        """A reply, after the conversation was summed up where the model has no room for it."""
        await self._look_up_model()
        if self._compactor.is_due:
            await self._compactor.compact(self._conversation.task)
        try:
            return await self._reply(self._conversation.messages)
        except WindowFull as full:
            self._compactor.learn(full.window or 0)
            await self._compactor.compact(self._conversation.task)
            return await self._reply(self._conversation.messages)

    async def _ask_apart(self, messages: list[dict[str, Any]]) -> Reply:
        self._is_apart = True
        try:
            reply = await self._reply(lambda: messages)
        finally:
            self._is_apart = False
        self._tell_usage(reply.usage, context=UNSET)
        return reply

    async def _remember(self) -> None:
        """Keep for other sessions what the server has just refused."""
        refused = [fact for fact in self._news if fact not in _NOT_REFUSED]
        account, self._news = self._host.settings.account, []
        if refused and account is not None:
            await self._host.remember(account.base_url, self.model, refused)

    async def _look_up_model(self) -> None:
        """Before the first request: fix the tools, and ask what the server says of the model: window, levels, what it can."""
        await self._offered.fix()
        account = self._host.settings.account
        if self._looked_up or account is None or not self.model:
            return
        self._looked_up = True
        if self._is_other or not self._conversation.was_asked:
            self._is_other = False
            # from the first request on, so that the session's prefix stays still
            for fact in await self._host.server_facts(account.base_url, self.model):
                self._client.know(fact)
                self._record(Learned(fact=fact))
        listed = await listing.kept(self._host, account)
        if listed is None:
            listed = await listing.asked(self._host, account, self._client)
        info = model_list.find(listed, self.model)
        if info is None:
            return
        self._info = info
        self._compactor.learn(info.context or 0)
        self._compactor.leave_room_for(info.max_output or 0)
        if info.owned_by == "llamacpp":
            self._client.know("tells_progress")
        if info.vision is False:
            self._client.know("no_images")

    async def _reply(self, messages: Callable[[], list[dict[str, Any]]]) -> Reply:
        if not self.model:
            raise ModelFailed(_NO_MODEL)
        if self._info is not None and self._info.tools is False:
            raise ModelFailed(f"{self.model} {_NO_TOOLS}")
        account = self._host.settings.account
        if account is None:
            raise ModelFailed(_NO_LOGIN)
        try:
            return await self._once(account, messages)
        except TokenRefused as refused:
            newer = await self._host.newer_account(account)
            if newer is None:
                raise
            if newer.base_url != account.base_url:
                raise ModelFailed(
                    "this device is logged in to another instance now; send it again"
                ) from refused
            return await self._once(newer, messages)

    async def _once(self, account: Account, messages: Callable[[], list[dict[str, Any]]]) -> Reply:
        await self._load_images(messages())
        used, names = self._conversation.used_server_ids, self._offered.names
        return await self._client.ask(
            account,
            lambda: self._body(self._with_images(messages())),
            lambda thinks: ReplyAssembler(_new_call_id, used, names, thinks=thinks),
        )

    async def _load_images(self, messages: list[dict[str, Any]]) -> None:
        """Have the content of every image in the messages at hand, and of no other."""
        wanted = images.named(messages) if self._sees else set()
        self._urls = {key: url for key, url in self._urls.items() if key in wanted}
        for mime, name in sorted(wanted - set(self._urls)):
            content = await self._host.image(name)
            if content is not None:
                text = base64.b64encode(content).decode()
                self._urls[mime, name] = f"data:{mime};base64,{text}"

    @property
    def _sees(self) -> bool:
        return "no_images" not in self._client.facts

    def _with_images(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return images.filled(messages, self._urls) if self._sees else messages

    def _body(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """The request as a server takes it of which nothing is known."""
        return {
            "model": self.model,
            "messages": messages,
            "tools": self._offered.functions,
            "stream": True,
            "stream_options": {"include_usage": True},
            **levels.parameters(self._effort, self._info),
        }

    # ── what the client tells ───────────────────────────────────────────────────────────────────

    def _learnt(self, fact: str) -> None:
        if self._kept is None or self._kept.model == self.model:
            self._news.append(fact)
            self._record(Learned(fact=fact))
        if fact in server_facts.SAID:
            self._host.emit(events.Flash(text=server_facts.SAID[fact]))

    def _delta(self, delta: Delta) -> None:
        if self._is_apart:
            return
        match delta:
            case TextDelta(text):
                self._host.emit(events.Text(text=text, messageId=self._message_id))
            case ReasoningDelta(text):
                self._host.emit(events.Reasoning(text=text, messageId=self._message_id))
            case CallDelta(call_id, name, arguments):
                self._host.emit(
                    events.ToolCallDelta(toolCallId=call_id, name=name, arguments=arguments)
                )
            case Progress(read, total):
                self._host.emit(events.Progress(read=read, total=total or UNSET))

    def _wait(self, text: str) -> None:
        self._host.emit(events.Notice(level="warning", text=text))

    def _retract(self) -> None:
        if self._is_apart:
            return
        self._host.emit(events.Retract(messageId=self._message_id))
        self._message_id = f"msg_{secrets.token_hex(8)}"

    def _show_again(self, reply: Reply) -> None:
        """What was shown of the reply was not what it is: calls, or reasoning, had come as text."""
        self._retract()
        if reply.reasoning:
            self._delta(ReasoningDelta(reply.reasoning))
        if reply.text:
            self._delta(TextDelta(reply.text))


def _new_call_id() -> str:
    return f"call_{secrets.token_hex(8)}"
