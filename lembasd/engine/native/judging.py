"""Whether a call may run: looks up where its paths lead, has the cores decide, asks the person where they must.

Holds what a person granted for the session.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from lembasd.device import process_tree
from lembasd.device.limits import is_trusted
from lembasd.device.project_rules import ProjectRules
from lembasd.engine.api import CardRequest, Decision, Host
from lembasd.engine.native.core import call_titles, command_paths, consent, line, permission
from lembasd.engine.native.core.arity import Grant
from lembasd.engine.native.core.consent import NO_CONSENT, Consent
from lembasd.engine.native.core.ground import Ground, ground, protected_paths
from lembasd.engine.native.core.named_paths import named_paths
from lembasd.engine.native.core.patch import BadPatch
from lembasd.engine.native.core.paths import lexical
from lembasd.engine.native.core.permission import CallFacts, PathFacts, Place, Verdict
from lembasd.engine.native.core.place import absolute
from lembasd.engine.native.core.rules import Rulebook
from lembasd.engine.native.core.shell.expand import read
from lembasd.harness.loader import TOOLS
from lembasd.harness.permissions import DEFAULTS, HARDLINE
from lembasd.harness.tool import Tool
from lembasd.protocol.control import Mode
from lembasd.protocol.events import Notice
from lembasd.store.records import Call

_KINDS: Final = {
    "shell": "execute",
    "edit": "edit",
    "read": "read",
    "search": "search",
    "web": "fetch",
}


#: the defaults, made ready once: most sessions have no other rules, and share these pages of a zygote's
_DEFAULT_BOOK: Final = Rulebook(DEFAULTS.rules)
#: arguments of our own tools that name files
_NAMES_FILES: Final = frozenset({"path", "patch"})


class Denied(Struct, frozen=True):
    """A call that may not run. `by` is the event's word."""

    reason: str
    by: str


class Unfit(Struct, frozen=True):
    """A call whose path leads nowhere (a loop of links, a person who is not there): an error, not a denial."""

    reason: str


class Judging:
    """Judges the calls of one session. `tool` has each by its name, `title` says what a call is asked about as."""

    def __init__(
        self,
        host: Host,
        tool: Callable[[str], Tool] = TOOLS.__getitem__,
        title: Callable[[Call], str] = lambda call: call.name,
    ) -> None:
        self._host = host
        self._tool = tool
        self._title = title
        self._grants: set[Grant] = set()
        #: the project's own rules, read again when their file changes
        self._project = ProjectRules(host.root)
        self._book = _DEFAULT_BOOK
        self._said: str | None = None
        #: call id → where its paths led when it was judged
        self._led: dict[str, dict[str, PathFacts]] = {}

    async def judge(
        self, call: Call, mode: Mode, *, anybody: bool = True
    ) -> Denied | Unfit | dict[str, Any]:
        """The arguments to run with, after asking where the person must say; or why not.

        `anybody` False: nobody can be asked, so what would be asked is denied.
        """
        args = dict(call.args or {})
        try:
            asks = consent.of(self._tool(call.name), args)
        except ValueError as why:
            return Unfit(str(why))
        try:
            verdict, led = await asyncio.to_thread(self._verdict, call.name, args, mode, asks)
        except BadPatch as bad:
            return Unfit(str(bad))
        except (OSError, RuntimeError, ValueError) as error:
            return Unfit(f"{args.get('path')} cannot be used as a path: {error}")
        self._say_problem()
        verdict = permission.attended(verdict, anybody=anybody)
        if verdict.kind == permission.DENY:
            return Denied(verdict.reason, verdict.by)
        decided: Denied | dict[str, Any] = args
        if verdict.kind == permission.ASK:
            decision = await self._host.ask(self._card(call, args, verdict, led))
            decided = await self._decided(call, args, verdict, decision, mode)
        if led and not isinstance(decided, Denied):
            self._led[call.id] = led
        return decided

    def led(self, call_id: str) -> dict[str, PathFacts] | None:
        """Where the paths of a call led when it was judged, told once."""
        return self._led.pop(call_id, None)

    def facts(self, name: str, args: dict[str, Any]) -> dict[str, PathFacts]:
        """Where each path that a call names leads now. Blocks. Raises BadPatch, OSError, RuntimeError, ValueError."""
        if name not in TOOLS or not _NAMES_FILES & set(TOOLS[name].parameters["properties"]):
            # what somebody else's tool does with a path is not known
            return {}
        base, risk = self._ground([]), TOOLS[name].risk
        return {
            named: permission.path_facts(base, str(self.path(named)), risk)
            for named in named_paths(name, args)
        }

    def _verdict(
        self, name: str, args: dict[str, Any], mode: Mode, asks: Consent = NO_CONSENT
    ) -> tuple[Verdict, dict[str, PathFacts]]:
        """The decision, and where the paths led. Blocks."""
        rules, grants = self._rules(), frozenset(self._grants)
        if name == "bash":
            exported = {"PPID": str(os.getpid()), **_places()}
            reading = read(str(args.get("command", "")), _home(), str(self._host.root), exported)
            found = self._ground(command_paths.to_follow(reading))
            pids = frozenset(map(str, [os.getpid(), *process_tree.ancestors(os.getpid())]))
            found = replace(found, pids=pids)
            return line.judge(reading, mode, rules, grants, found), {}
        risk, paths = self._tool(name).risk, self.facts(name, args)
        facts = CallFacts(
            tool=name,
            risk=risk,
            paths=tuple(paths.values()),
            confirm=asks.confirm,
            asked=asks.asked,
            covers=asks.covers,
        )
        place = Place(str(self._host.root), os.path.realpath(_home()))
        return permission.judge(facts, mode, rules, grants, place), paths

    def _rules(self) -> Rulebook:
        settings = self._host.settings
        trusted = is_trusted(self._host.root, settings.trusted)
        project = self._project.current() if trusted else []
        if not settings.permission and not project:
            return _DEFAULT_BOOK
        rules = (*DEFAULTS.rules, *settings.permission, *project)
        if rules != self._book.rules:
            self._book = Rulebook(rules)
        return self._book

    def _say_problem(self) -> None:
        """Say once why the project's rules are not in use."""
        problem = self._project.problem
        if problem is not None and problem != self._said:
            self._host.emit(Notice(level="warning", text=problem))
        self._said = problem

    def _ground(self, paths: Sequence[str]) -> Ground:
        root, home = str(self._host.root), os.path.realpath(_home())
        service = [str(one) for one in self._host.protected]
        every = [*paths, *protected_paths(root, home, service)]
        links = {one: os.path.realpath(one) for one in every}
        spared = os.path.realpath(self._host.attachments_dir)
        return replace(ground(root, home, service, links), spared=spared)

    def ground_now(self) -> Ground:
        """Where paths lie. Blocks."""
        return self._ground([])

    def path(self, named: str) -> Path:
        """Where a path leads: relative to the project, ~ and symlinks followed. Blocks; raises as `facts` does."""
        return Path(self._said_path(named)).resolve()

    def _said_path(self, named: str) -> str:
        """A path by its words, links not followed. Raises RuntimeError for a person who is not there."""
        user = named[1:].partition("/")[0]
        homes = {user: str(Path(f"~{user}").expanduser())} if named.startswith("~") else {}
        return str(absolute(PurePosixPath(self._host.root), named, homes))

    async def _decided(
        self, call: Call, args: dict[str, Any], verdict: Verdict, decision: Decision, mode: Mode
    ) -> Denied | dict[str, Any]:
        match decision.outcome:
            case "once":
                if decision.command is not None and call.name == "bash":
                    return await self._corrected({**args, "command": decision.command}, mode)
                return args
            case "session":
                self._grants.update(verdict.always)
                return args
            case "deny":
                why = f": {decision.feedback}" if decision.feedback else ""
                return Denied(f"The person denied this call{why}", "person")
            case "timeout":
                return Denied("Nobody answered in time, so this call was denied", "timeout")
            case "cancelled":
                return Denied("Cancelled by the person before it ran.", "person")

    async def _corrected(self, args: dict[str, Any], mode: Mode) -> Denied | dict[str, Any]:
        """The person's own command: allowed by it, but what is denied is denied to them here too."""
        verdict, _ = await asyncio.to_thread(self._verdict, "bash", args, mode)
        if verdict.kind == permission.DENY:
            return Denied(verdict.reason, verdict.by)
        return args

    def _card(
        self, call: Call, args: dict[str, Any], verdict: Verdict, led: dict[str, PathFacts]
    ) -> CardRequest:
        purpose = args.get("purpose") or (call.name == "bash" and args.get("description"))
        paths = {named: (lexical(self._said_path(named)), one.path) for named, one in led.items()}
        return CardRequest(
            tool_call_id=call.id,
            name=call.name,
            title=self._title(call),
            kind=_KINDS.get(self._tool(call.name).block, "other"),
            args=args,
            reason=verdict.reason + call_titles.led_elsewhere(paths) + call_titles.warnings(args),
            purpose=call_titles.one_line(purpose) if isinstance(purpose, str) and purpose else None,
            always=verdict.always_text,
        )


def _places() -> dict[str, str]:
    """Variables with which a command may name where the service lies."""
    names = HARDLINE.spelling.place_variables
    return {name: os.environ[name] for name in names if os.environ.get(name)}


def _home() -> str:
    return str(Path.home())
