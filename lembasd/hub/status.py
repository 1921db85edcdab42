"""The value of `lembasd status --json`."""

import os
from typing import Any, Final

import msgspec

from lembasd import __version__
from lembasd.device import environment
from lembasd.hub.budgets import open_descriptors
from lembasd.hub.core.table import Channel, State
from lembasd.hub.runner import Hub

#: of a process that is connected and does not answer
_UNRESPONSIVE: Final = "unresponsive"


def hub_status(
    hub: Hub,
    *,
    uptime_s: float,
    socket: str,
    portable: bool,
    link: object,
    zygotes: object,
    problem: str | None,
    strangers: object,
    reloads: int,
) -> dict[str, Any]:
    """Everything there is to see of a running hub. `link`, `zygotes` and `strangers` come from those who keep them."""
    descriptors = open_descriptors()
    channels = hub.router.table.channels.values()
    return {
        "hub": {
            "pid": os.getpid(),
            "version": __version__,
            "uptime_s": round(uptime_s, 3),
            "socket": socket,
            "portable": portable,
            # how often a newer version has taken over in this process
            "reloads": reloads,
            "stopping": bool(hub.router.table.stopping),
            "fds": descriptors.used,
            "max_fds": descriptors.most,
            "environment": environment.shown(os.environ),
        },
        "counts": msgspec.to_builtins(hub.counts),
        "config_problem": problem,
        "alarms": msgspec.to_builtins(hub.alarms.raised),
        "link": link,
        "zygotes": zygotes,
        "workers": [_worker(hub, channel) for channel in channels if channel.role == "worker"],
        "utility": [
            {"pid": channel.pid, "state": _state(channel), "version": _version(hub, channel)}
            for channel in channels
            if channel.role == "utility"
        ],
        "terminals": [_terminal(hub, channel) for channel in channels if channel.role == "pty"],
        "strangers": strangers,
        "clients": [_client(hub, number) for number in sorted(hub.ports)],
    }


def _version(hub: Hub, channel: Channel) -> str | None:
    """Which version the channel's process runs; None while it is not connected."""
    process = hub.processes.get(channel.id)
    return process.build if process is not None else None


def _state(channel: Channel) -> str:
    return _UNRESPONSIVE if channel.unresponsive else channel.state.value


def _worker(hub: Hub, channel: Channel) -> dict[str, Any]:
    said = channel.session
    state = channel.state.value
    if channel.state is State.LIVE:
        state = "working" if said.busy else "idle"
    return {
        "session_id": channel.id,
        "pid": channel.pid,
        "state": _UNRESPONSIVE if channel.unresponsive else state,
        "version": _version(hub, channel),
        "turn_id": said.turn_id,
        "queued": [turn.turn_id for turn in said.queued],
        "cards": hub.router.table.approvals.cards(channel.id),
        "title": said.title,
        "root": said.root,
        "mode": said.mode,
        "model": said.model,
        "pss_bytes": said.pss_bytes,
        "fds": said.fds,
        "holds": said.holds,
    }


def _terminal(hub: Hub, channel: Channel) -> dict[str, Any]:
    said = channel.terminal
    return {
        "terminal_id": channel.id,
        "pid": channel.pid,
        "state": _state(channel),
        "version": _version(hub, channel),
        "shell_pid": said.shell_pid,
        "cwd": said.cwd,
        "cols": said.cols,
        "rows": said.rows,
        "shell": said.shell,
        "link": channel.link,
        "viewers": len(hub.router.audience(channel.id).everyone),
    }


def _client(hub: Hub, number: int) -> dict[str, Any]:
    local = number in hub.client_pids
    port = hub.ports[number]
    return {
        "client_id": number,
        "kind": "local" if local else "link",
        "pid": hub.client_pids.get(number),
        "queued_bytes": port.queue.queued_bytes,
        "lagging": port.queue.lagging,
    }
