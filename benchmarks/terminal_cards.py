"""How soon a card of a session comes while a terminal on the same link floods a slow reader."""

import asyncio
import base64
import json
import time
from typing import Final

from benchmarks.measure import Figure, median
from tests.support.bare_client import BareClient
from tests.support.linked_hub import LinkedHub, linked_hub
from tests.support.scripted_model import Reply

CARDS: Final = 15
#: what the reader of the flood takes
SLOW_BYTES_S: Final = 3_000_000
FLOOD_S: Final = 1.0
_FLOW: Final = json.dumps(
    {
        "protocolVersion": 1,
        "clientCapabilities": {"_meta": {"lembas": {"protocol": 3, "terminal_flow": True}}},
    }
)


async def _cards(hub: LinkedHub) -> list[float]:
    """Milliseconds from the model's last word to the card, a turn each."""
    waits = []
    session = await hub.new(mode="manual")
    for number in range(CARDS):
        hold = asyncio.Event()
        call = ("bash", {"command": f"touch f{number}"})
        hub.model.script(Reply(text="so", hold=hold, calls=[call]), Reply("done"))
        turn = hub.prompt(session, f"t{time.monotonic_ns()}")
        await hub.client.event(session, "step")
        begun = time.perf_counter()
        hold.set()
        card = await hub.client.card(session)
        waits.append((time.perf_counter() - begun) * 1e3)
        hub.client.allow(card)
        await hub.client.result(turn)
    return waits


async def _read_slowly(client: BareClient, terminal: str) -> None:
    """Take the flood's output at the slow reader's pace, and say so."""
    while True:
        message = await client.said('"_lembas/terminal/output"', terminal)
        size = len(base64.b64decode(message.params["data"]))
        await asyncio.sleep(size / SLOW_BYTES_S)
        offset = message.params["_meta"]["lembas"]["offset"] + size
        client.notify("_lembas/terminal/ack", {"terminalId": terminal, "offset": offset})


async def measure() -> list[Figure]:
    """Cards without a flood and during one, on one link."""
    async with linked_hub() as hub:
        client = await hub.again(_FLOW)
        calm = await _cards(hub)
        opened = await client.value("_lembas/terminal/open", {"cwd": str(hub.project)})
        terminal = opened["terminalId"]
        reading = asyncio.create_task(_read_slowly(client, terminal))
        data = base64.b64encode(b"yes\n").decode()
        client.notify("_lembas/terminal/input", {"terminalId": terminal, "data": data})
        await asyncio.sleep(FLOOD_S)
        flooded = await _cards(hub)
        reading.cancel()
        await asyncio.wait([reading])
        client.notify("_lembas/terminal/close", {"terminalId": terminal})
        await client.said("_lembas/terminal/exit", terminal)
        basis = f"{median(flooded):.1f} ms; without a flood {median(calm):.1f}; {CARDS} cards each"
        added = max(0.0, median(flooded) - median(calm))
        return [
            Figure(
                "flood on the link: a card later", added, "ms", 50, 10, higher=False, basis=basis
            )
        ]
