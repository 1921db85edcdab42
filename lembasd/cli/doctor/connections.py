"""The hub, and the instance behind it."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from email.utils import parsedate_to_datetime
from typing import Any, Final

from lembasd import __version__
from lembasd.cli import hub_status, logged_in
from lembasd.cli.doctor.finding import Finding, fail, ok, warn
from lembasd.device.lock import all_gone, hub_pid, member_pids
from lembasd.device.paths import Paths
from lembasd.link import discovery
from lembasd.link.api import InstanceApi
from lembasd.protocol.errors import LembasError

#: tokens and schedules go by the clock; more than this apart from the instance's is worth a word
CLOCK_S: Final = 60.0


async def ask_hub(paths: Paths) -> tuple[dict[str, Any] | None, list[Finding]]:
    """What the running hub says (None without one), and what that comes to."""
    if hub_pid(paths) is None:
        if all_gone(paths):
            text = "lembasd is not running; start it with `lembasd run`"
        else:
            pids = ", ".join(map(str, member_pids(paths)))
            text = f"no hub runs, but processes of it do ({pids}); start it, or run `lembasd stop`"
        return None, [warn("hub", text)]
    try:
        status = await hub_status.ask(paths)
    except (LembasError, OSError) as error:
        return None, [fail("hub", str(error))]
    return status, list(_of_hub(status))


def _of_hub(status: dict[str, Any]) -> Iterator[Finding]:
    hub, link = status["hub"], status["link"]
    said = f"pid {hub['pid']}, version {hub['version']}, for {_duration(hub['uptime_s'])}"
    if hub["version"] != __version__:
        yield warn("hub", f"{said}, but {__version__} is installed; run `lembasd reload`")
    else:
        yield ok("hub", f"{said}, {len(status['workers'])} sessions open")
    old = {one["version"] for one in status["workers"]} - {hub["version"], None}
    if old:
        yield ok("workers", f"some are of version {', '.join(sorted(old))} until they end")
    loading = [one["kind"] for one in status["zygotes"] if not one["ready"]]
    kinds = {one["kind"] for one in status["zygotes"]}
    if kinds != {"worker", "pty"}:
        yield fail(
            "helpers", "what starts sessions does not run; `lembasd logs --level error` says why"
        )
    elif loading:
        yield ok("helpers", "still loading")
    else:
        yield ok("helpers", "ready")
    if status["config_problem"]:
        yield fail("settings", f"the hub uses the last good ones: {status['config_problem']}")
    for alarm in status.get("alarms", []):
        yield fail("alarm", alarm["text"])
    match link["state"]:
        case "refused":
            yield fail("link", link["reason"])
        case "waiting":
            yield warn("link", f"{link['reason']}; it is dialled again")
        case "off":
            yield ok("link", "off: nobody is logged in, or remote work is not wanted")
        case state:
            yield ok("link", f"{state}, {link['server']}")


def _duration(seconds: float) -> str:
    minutes, hours = int(seconds // 60), int(seconds // 3600)
    return f"{hours // 24} days" if hours >= 48 else f"{hours} h" if hours else f"{minutes} min"


async def ask_instance(paths: Paths) -> AsyncIterator[Finding]:
    """Whether the instance can be reached, takes the login, and has the same time. Nothing for nobody logged in."""
    try:
        login = logged_in.find(paths)
    except (LembasError, OSError):
        return  # said where the login is looked at
    if login is None:
        return
    try:
        server = discovery.base_url(login.credentials.server)
        context = await asyncio.to_thread(discovery.tls_context, server)
        async with discovery.client(context) as http:
            document = await discovery.discover(http, server)
            yield ok("instance", f"{server} runs {document.name} {document.version}")
            answer = await discovery.fetch(http, "GET", server + discovery.WELL_KNOWN)
            for one in _clock(answer.headers.get("date", "")):
                yield one
            about = await InstanceApi(http, server, login.credentials.token).about()
    except (LembasError, OSError) as error:
        yield fail("instance", str(error))
        return
    lacks = {"models", "link"} - set((about.scope or "").split())
    if lacks:
        yield warn(
            "token", f"it may not use {', '.join(sorted(lacks))}; log in again with `lembas login`"
        )
    else:
        yield ok("token", f"accepted, for {about.scope}")


def _clock(date: str) -> Iterator[Finding]:
    try:
        apart = time.time() - parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, OverflowError):
        return  # it does not say the time
    if abs(apart) > CLOCK_S:
        which = "ahead of" if apart > 0 else "behind"
        yield warn(
            "clock", f"{abs(apart):.0f} s {which} the instance's; turn time synchronisation on"
        )
    else:
        yield ok("clock", "as the instance's")
