"""The requests that a worker answers for its open session."""

import secrets
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec

from lembasd.device.paths import Paths
from lembasd.engine.core import cards
from lembasd.protocol.control import AttachAsked
from lembasd.protocol.errors import INTERNAL_ERROR, METHOD_NOT_FOUND, RequestRefused
from lembasd.protocol.jsonrpc import Message
from lembasd.store.apart import run_apart
from lembasd.worker import reading, replies
from lembasd.worker.core import inputs, requests
from lembasd.worker.core.inputs import Waiter
from lembasd.worker.open_session import OpenSession

_TURN_RANDOM_BYTES: Final = 9


class SessionRequests:
    """Reads what a client asks and hands it to the session; what cannot be taken is refused here."""

    def __init__(
        self,
        paths: Paths,
        session: OpenSession,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._paths = paths
        self._session = session
        self._spawn = spawn

    def take(self, waiter: Waiter, message: Message) -> None:
        """Take one message of a client: a request, session/cancel, or the reply to a card."""
        if message.is_reply:
            error = message.error_code
            result = b"" if error else message.result
            self._session.replied(cards.Replied(waiter.client, message.reply_id, result, error))
        elif message.method == "session/cancel":
            if self._session.has(waiter):
                self._session.feed(inputs.CancelAsked())
            if message.is_request:
                self._session.say(replies.result(self._session.id, waiter, {}))
        elif message.is_request:
            try:
                self._request(waiter, message)
            except RequestRefused as refused:
                self._session.say(replies.refusal(self._session.id, waiter, refused))

    def _request(self, waiter: Waiter, message: Message) -> None:
        match message.method:
            case "session/prompt":
                prompt = requests.read_prompt(message.params)
                turn_id = prompt.turn_id or f"turn_{secrets.token_hex(_TURN_RANDOM_BYTES)}"
                asked = inputs.PromptAsked(
                    waiter, turn_id, prompt.text, time.time(), prompt.context, prompt.uploads
                )
                self._session.feed(asked)
            case "session/set_mode":
                mode = requests.read_set_mode(message.params)
                self._at_once(inputs.ModeAsked(waiter, mode))
            case "_lembas/session/title":
                title = requests.read_title(message.params)
                self._at_once(inputs.TitleAsked(waiter, title))
            case "_lembas/session/delete":
                self._delete(inputs.DeleteAsked(waiter))
            case "_hub/share":
                shared = requests.read_share(message.params)
                self._session.feed(inputs.ShareAsked(waiter, shared))
            case "_hub/attach":
                asked_to = msgspec.json.decode(message.params, type=AttachAsked)
                self._spawn(self._session.attach(waiter, asked_to))
            case "_lembas/session/status":
                self._session.say_status(waiter)
            case "_lembas/session/history":
                self._spawn(self._history(waiter))
            case "_lembas/steer":
                steer = inputs.SteerAsked(waiter, *requests.read_steer(message.params))
                self._spawn(self._session.admit(steer))
            case _:
                self._session.feed(_between_turns(waiter, message))

    def _delete(self, asked: inputs.DeleteAsked) -> None:
        if self._session.has(asked.waiter):
            self._session.feed(asked)
        else:
            self._spawn(self._session.delete(asked))

    def _at_once(self, asked: inputs.ModeAsked | inputs.TitleAsked) -> None:
        """What must not be overtaken by the prompt behind it, and runs nothing in the session's directory."""
        if not (self._session.has(asked.waiter) and self._session.take(asked)):
            self._spawn(self._session.admit(asked))

    async def _history(self, waiter: Waiter) -> None:
        session = self._session
        try:
            payload = await run_apart(
                lambda: reading.history_answer(self._paths, session.id, waiter.id)
            )
        except RequestRefused as refused:
            session.say(replies.refusal(session.id, waiter, refused))
        except TimeoutError as error:
            why = RequestRefused(INTERNAL_ERROR, str(error), {"retryable": True})
            session.say(replies.refusal(session.id, waiter, why))
        else:
            session.say(replies.answer(session.id, waiter, payload))


def _between_turns(waiter: Waiter, message: Message) -> inputs.BetweenTurns:
    """What is done between turns, in the order in which it is asked. Raises RequestRefused."""
    match message.method:
        case "_lembas/session/compact":
            return inputs.CompactAsked(waiter)
        case "_lembas/configure":
            return inputs.ConfigureAsked(waiter, *requests.read_configure(message.params))
        case "_lembas/session/rewind":
            return inputs.RewindAsked(waiter, requests.read_rewind(message.params))
        case method:
            raise RequestRefused(METHOD_NOT_FOUND, f"{method} is not a method of this device")
