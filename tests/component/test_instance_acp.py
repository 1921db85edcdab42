"""What the pocket instance sends of ACP's is valid by its official schema."""

import asyncio

import httpx
import msgspec

from lembasd.instance.main import Instance, InstanceOptions
from tests.support.acp import Judge
from tests.support.linked_device import Feed, LinkedDevice, log_in

SESSION = "/api/local/sessions/ses_a"
MODES = {"currentModeId": "edit", "availableModes": []}
CARD = {
    "sessionId": "ses_a",
    "toolCall": {"toolCallId": "c1", "title": "ls", "kind": "execute", "status": "pending"},
    "options": [{"optionId": "once", "name": "Once", "kind": "allow_once"}],
}


class JudgedDevice(LinkedDevice):
    """Every message of its link is judged."""

    judge: Judge

    async def receive(self) -> dict[str, object]:
        message = await super().receive()
        self.judge("client", msgspec.json.encode(message))
        return message


async def test_a_session_a_prompt_a_card_and_a_cancel_are_valid() -> None:
    judge = Judge()
    async with Instance(InstanceOptions(approve=True)) as instance:
        headers = {"Authorization": f"Bearer {instance.secret}"}
        device = JudgedDevice(instance, await log_in(instance))
        device.judge = judge
        async with (
            httpx.AsyncClient(base_url=instance.base_url, headers=headers) as person,
            person.stream("GET", "/api/local/events") as events,
            device,
        ):
            asking = asyncio.create_task(
                person.post("/api/local/sessions", json={"cwd": "/w", "mode": "edit"})
            )
            made = {"sessionId": "ses_a", "modes": MODES, "_meta": {"lembas": {}}}
            await device.answer(await device.expect("session/new"), made)
            await asking
            await person.post(f"{SESSION}/prompt", json={"text": "go", "turn_id": "t1"})
            await device.expect("session/prompt")
            judge(
                "agent",
                b'{"jsonrpc":"2.0","id":"card","method":"session/request_permission",'
                b'"params":%s}' % msgspec.json.encode(CARD),
            )
            await device.send(id="card", method="session/request_permission", params=CARD)
            await Feed(events).event("session/request_permission")
            await person.post("/api/local/cards/c1", json={"option": "once"})
            await device.receive()
            await person.post(f"{SESSION}/cancel")
            await device.expect("session/cancel")
            asking = asyncio.create_task(person.post(f"{SESSION}/mode", json={"mode": "plan"}))
            await device.answer(await device.expect("session/set_mode"), {})
            await asking
    assert judge.faults == []
    assert judge.seen == {
        "initialize",
        "session/new",
        "session/prompt",
        "session/cancel",
        "session/set_mode",
        "session/request_permission",
        "answer of session/request_permission",
    }
