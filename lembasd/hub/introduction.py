"""What the device says of itself: `_lembas/hello` and the answer to `initialize` (link.md)."""

import platform
import socket
from typing import Any, Final

from lembasd import __version__
from lembasd.harness import VERSION as HARNESS_VERSION
from lembasd.protocol.acp import ACP_VERSION
from lembasd.protocol.control import Extensions, Remote, Settings
from lembasd.protocol.lembas import (
    CAPABILITIES,
    LINK_CAPABILITY,
    LINK_PROTOCOL,
    REPLAY,
    SHELL_CAPABILITY,
    TERMINAL_CAPABILITY,
    TERMINAL_FLOW,
    TERMINAL_FRAMES,
    TERMINAL_RESUME,
    HelloDevice,
    HelloLimits,
    LinkHello,
)

NO_EXTENSIONS: Final = Extensions()


def capabilities(remote: Remote, *, local: bool, extensions: Extensions) -> list[str]:
    """What this build does for the client; terminals on the link only while the person allows them.

    Our extensions are listed for a client that asked for them, for no other knows what they are.
    """
    listed = list(CAPABILITIES)
    if not local:
        listed.append(LINK_CAPABILITY)
    if local or remote.terminal:
        listed += [TERMINAL_CAPABILITY, SHELL_CAPABILITY]
        listed += [TERMINAL_FLOW] if extensions.terminal_flow else []
        listed += [TERMINAL_RESUME] if extensions.terminal_resume else []
        listed += [TERMINAL_FRAMES] if extensions.terminal_frames else []
    listed += [REPLAY] if extensions.replay else []
    return listed


def _roots(remote: Remote) -> list[str]:
    return list(remote.roots) if remote.enabled else []


def _scheduled(remote: Remote) -> bool:
    # whatever the person set: a build without the capability accepts none
    return remote.enabled and remote.scheduled and "scheduled" in CAPABILITIES


def link_hello(settings: Settings) -> LinkHello:
    """The params of `_lembas/hello`."""
    remote = settings.remote
    return LinkHello(
        protocol=LINK_PROTOCOL,
        version=__version__,
        harness_spec=HARNESS_VERSION,
        device=HelloDevice(host=socket.gethostname(), platform=platform.system().lower()),
        limits=HelloLimits(
            roots=_roots(remote),
            max_mode=remote.max_mode,
            require_trust=remote.require_trust,
            scheduled=_scheduled(remote),
        ),
    )


def initialize_result(
    settings: Settings, *, local: bool, extensions: Extensions = NO_EXTENSIONS
) -> dict[str, Any]:
    """The answer to `initialize`. A client on this machine has no limits, so they are null there."""
    remote = settings.remote
    limits = {
        "roots": _roots(remote),
        "max_mode": remote.max_mode,
        "scheduled": _scheduled(remote),
    }
    return {
        "protocolVersion": ACP_VERSION,
        "agentCapabilities": {
            "loadSession": False,
            "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
            # only a person on this machine may name what is started or asked here
            "mcpCapabilities": {"http": local, "sse": local},
        },
        "authMethods": [],
        "agentInfo": {"name": "LLeMbas CLI", "version": __version__},
        "_meta": {
            "lembas": {
                "protocol": LINK_PROTOCOL,
                "harness_spec": HARNESS_VERSION,
                "limits": None if local else limits,
                "connection": settings.account.connection if settings.account else None,
                "capabilities": capabilities(remote, local=local, extensions=extensions),
            }
        },
    }
