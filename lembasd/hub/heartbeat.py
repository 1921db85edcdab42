"""The heartbeat between the hub and its processes: pings, and what is said of those that do not answer."""

import asyncio
from typing import assert_never

from lembasd.device import milestones
from lembasd.hub.core import heartbeat, inputs
from lembasd.hub.core.heartbeat import BEAT_S, Beat, Heard, Heartbeat
from lembasd.hub.processes import ConnectedProcess
from lembasd.hub.runner import Hub
from lembasd.protocol import envelope as kinds
from lembasd.protocol.envelope import Envelope


class Pulse:
    """Of one hub."""

    def __init__(self, hub: Hub, beat_s: float = BEAT_S) -> None:
        self._hub = hub
        self._beat_s = beat_s
        self._machine = Heartbeat(beat_s)
        self._loop = asyncio.get_running_loop()
        hub.on_answer = self._answers

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            processes = self._hub.processes
            heard = {channel: one.heard for channel, one in processes.items()}
            for one in processes.values():
                one.heard = False
            self._handle(Beat(heard))
            await asyncio.sleep(self._beat_s)

    def _answers(self, process: ConnectedProcess) -> None:
        self._handle(Heard(process.channel))

    def _handle(self, what: heartbeat.Input) -> None:
        for effect in self._machine.handle(what, self._loop.time()):
            process = self._hub.processes.get(effect.channel)
            if process is not None:
                self._perform(effect, process)

    def _perform(self, effect: heartbeat.Effect, process: ConnectedProcess) -> None:
        log, channel = self._hub.log, effect.channel
        match effect:
            case heartbeat.Ask():
                process.peer.send_control(Envelope(kind=kinds.PING))
                return
            case heartbeat.Unresponsive():
                process.unresponsive = True
                log.warning("process_unresponsive", channel=channel, process_pid=process.pid)
                milestones.reached("hub.process_unresponsive", channel=channel)
            case heartbeat.Responsive(silent_s=silent_s):
                process.unresponsive = False
                silent_ms = round(silent_s * 1000)
                log.info(
                    "process_responsive",
                    channel=channel,
                    process_pid=process.pid,
                    duration_ms=silent_ms,
                )
                milestones.reached("hub.process_responsive", channel=channel)
            case _:
                assert_never(effect)
        self._hub.feed(inputs.Answering(channel, answers=not process.unresponsive))
