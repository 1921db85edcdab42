"""From what a person typed to what the model is given: commands, and the files that come with it."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from lembasd.device import limits
from lembasd.engine.api import Host, TurnInput
from lembasd.engine.native import attaching, command_set
from lembasd.engine.native.attaching import Attached, Place
from lembasd.engine.native.core import commands
from lembasd.engine.native.core.commands import Command
from lembasd.engine.native.core.ground import Ground
from lembasd.engine.native.git import Git, NoGit
from lembasd.engine.native.searches import Search, Searches
from lembasd.engine.native.tools.files import Files
from lembasd.harness.loader import COMMANDS, LOOP, PROMPTS
from lembasd.harness.tool import fill
from lembasd.protocol import events
from lembasd.store.apart import run_apart
from lembasd.store.records import Attachment, Image, Prompted, Steered

#: what a prompt names is not read by then: its disk hangs, and the prompt goes without it
ATTACH_S: Final = 20.0
#: the files of commands are not read by then: their disk hangs, and only what is built in is there
COMMANDS_S: Final = 5.0
#: commands that send nothing to the model; `plan` does so without a task
_ACTIONS: Final = frozenset({"compact", "undo"})
_NOT_READ: Final = "what the prompt names could not be read, for the disk does not answer; see to it, then send it again"
_TEXTS: Final = COMMANDS.texts


class Asked(Struct, frozen=True):
    """A prompt as it is meant. `command` None: it is none, and `args` is all of it."""

    args: str
    command: Command | None = None

    @property
    def is_action(self) -> bool:
        """Whether the model is given nothing."""
        name = self.builtin
        return name in _ACTIONS or (name == "plan" and not self.args)

    @property
    def builtin(self) -> str:
        """The name of the command that is built in, "" for any other."""
        command = self.command
        return command.name if command is not None and command.kind == "builtin" else ""


class NothingToDo(Exception):
    """A command finds nothing to do; the text is for the person."""


class Prompting:
    """Of one session. `files`, `searches` and `ground`: those of its tools."""

    def __init__(
        self, host: Host, files: Files, searches: Searches, ground: Callable[[], Ground]
    ) -> None:
        self._host = host
        self._ground = ground
        self._files = files
        self._searches = searches

    async def commands(self) -> dict[str, Command]:
        """The session's commands now, by name and in their order."""
        host = self._host
        try:
            async with asyncio.timeout(COMMANDS_S):
                return await run_apart(
                    lambda: command_set.available(host.root, host.commands_dir, host.protected)
                )
        except TimeoutError:
            return commands.together((), ())

    async def asked(self, text: str) -> Asked:
        """What a prompt is: a command of the session, or plain text."""
        typed = commands.typed(text)
        command = None if typed is None else (await self.commands()).get(typed.name)
        if typed is None or command is None:
            return Asked(text)
        return Asked(typed.args, command)

    async def made(self, turn: TurnInput, asked: Asked, *, is_new: bool) -> Prompted | None:
        """What the model is given in place of what was typed; None: that itself. `is_new`: nothing was said before.

        Raises NothingToDo, and OSError when an image cannot be kept.
        """
        text = await self._text(asked, is_new=is_new)
        attached = await self._attached(asked.args, turn.attachments, local=turn.local)
        if asked.command is None and not attached.parts:
            return None
        return Prompted(
            turn_id=turn.turn_id,
            text=_with(text, attached),
            task=text,
            seen=attached.seen,
            images=await self._kept(attached),
        )

    async def steered(self, texts: list[str], ids: list[str], *, local: bool) -> Steered:
        """What was said in the middle of a turn, with the files that it names as a prompt's. `local`: of Engine.steer.

        Raises OSError when an image cannot be kept.
        """
        text = "\n\n".join(texts)
        attached = await self._attached(text, local=local)
        if not attached.parts:
            return Steered(texts=texts, ids=ids)
        images = await self._kept(attached)
        return Steered(
            texts=texts, ids=ids, text=_with(text, attached), seen=attached.seen, images=images
        )

    async def _kept(self, attached: Attached) -> list[tuple[str, Image]]:
        return [
            (name, await self._host.keep_image(image.mime, image.data))
            for name, image in attached.images
        ]

    async def _attached(
        self, text: str, uploads: Sequence[Attachment] = (), *, local: bool
    ) -> Attached:
        host = self._host
        if "@" not in text and not uploads:
            return Attached()

        def attach() -> Attached:
            roots = None if local else limits.resolved_roots(host.settings)
            place = Place(host.root, roots, self._ground())
            return attaching.attach(self._files, place, text, host.attachments_dir, uploads)

        try:
            async with asyncio.timeout(ATTACH_S):
                return await run_apart(attach)
        except TimeoutError:
            host.emit(events.Notice(level="warning", text=_NOT_READ))
            return Attached()

    async def _text(self, asked: Asked, *, is_new: bool) -> str:
        command, args = asked.command, asked.args
        if command is None:
            return args
        if command.kind == "custom":
            return commands.filled(command.body, args)
        match command.name:
            case "review" | "changelog":
                return await self._from_git(command.name, args)
            case "plan":
                return args
            case "continue" if is_new:
                raise NothingToDo(_TEXTS["nothing_said"])
            case name:
                return fill(PROMPTS[f"commands/{name}.md"], {"wish": _after(args)})

    async def _from_git(self, name: str, args: str) -> str:
        make = self._review if name == "review" else self._changelog
        try:
            return await self._searches.run(lambda search: make(search, args))
        except TimeoutError as hangs:
            raise _no_git(name, NoGit(str(hangs))) from None

    def _git(self, search: Search, name: str) -> Git:
        try:
            return Git(search, self._host.root, self._host.protected)
        except NoGit as why:
            raise _no_git(name, why) from None

    def _review(self, search: Search, args: str) -> str:
        """Blocks. Raises NothingToDo."""
        git = self._git(search, "review")
        what, _, wish = args.partition(" ")
        base = git.commit(what) if what and what != "head" else None
        subjects = COMMANDS.subjects
        try:
            if what == "head":
                subject, changes = subjects["head"], git.last()
            elif base is not None:
                subject, changes = fill(subjects["branch"], {"what": what}), git.since(base)
            elif what:
                raise NothingToDo(fill(_TEXTS["no_commit"], {"what": what[:100]}))
            else:
                subject, changes = subjects["changes"], git.changes()
        except NoGit as why:
            raise _no_git("review", why) from None
        if not changes.strip():
            raise NothingToDo(_TEXTS["no_changes"])
        return fill(
            PROMPTS["commands/review.md"],
            {"subject": subject, "changes": _cut(changes), "wish": _after(wish)},
        )

    def _changelog(self, search: Search, args: str) -> str:
        """Blocks. Raises NothingToDo."""
        git = self._git(search, "changelog")
        name = args or git.tag()
        since = COMMANDS.since["begin"]
        try:
            commit = None if name is None else git.commit(name)
            if name is not None:
                if commit is None:
                    raise NothingToDo(fill(_TEXTS["no_commit"], {"what": name[:100]}))
                since = fill(COMMANDS.since["tag"], {"what": name})
            commits = git.commits(commit)
        except NoGit as why:
            raise _no_git("changelog", why) from None
        if not commits:
            raise NothingToDo(fill(_TEXTS["no_commits"], {"since": since}))
        return fill(PROMPTS["commands/changelog.md"], {"since": since, "commits": _cut(commits)})


def _with(text: str, attached: Attached) -> str:
    return "\n\n".join(part for part in (text, *attached.parts) if part)


def _no_git(name: str, why: NoGit) -> NothingToDo:
    return NothingToDo(fill(_TEXTS["no_git"], {"name": name, "why": str(why)}))


def _after(wish: str) -> str:
    return f"\n\n{wish}" if wish else ""


def _cut(text: str) -> str:
    most = LOOP.attach.chars
    if len(text) <= most:
        return text
    head = text[:most].rpartition("\n")[0] or text[:most]
    lines = text.count("\n") - head.count("\n")
    return f"{head}\n{fill(_TEXTS['cut'], {'lines': str(lines)})}"
