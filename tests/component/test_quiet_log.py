"""The log has no line for each frame."""

from pathlib import Path

import structlog

from tests.support.hub_process import running_hub


async def test_messages_that_pass_through_the_hub_leave_no_line(short_tmp: Path) -> None:
    async with running_hub(short_tmp) as running:
        client = await running.client()
        worker = await running.session(client)
        await running.attach(client, worker)
        with structlog.testing.capture_logs() as logged:
            for number in range(200):
                worker.say(f"delta {number}")
            worker.say("the last", delta=False)
            for _ in range(201):
                await client.next("session/update")
            for _ in range(50):
                asked = client.hub.start("_lembas/session/status", {"sessionId": worker.channel})
                worker.answer(await worker.next_method("_lembas/session/status"), {})
                await asked
        assert logged == []
