"""The permission system's data as values: the floor, the rules a session starts from, and how far an "always" reaches."""

from importlib.resources import files
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from lembasd.protocol.permission import Rule, read_rule

_DATA: Final = files("lembasd.harness") / "permission"


class FloorRule(Struct, frozen=True, forbid_unknown_fields=True):
    """A command that is refused in every mode.

    It must have one of `names`, one of `flags` where there are any and none of `unless`; `words` are looked for among
    its words, one of each list in that order; `operands` is a kind of operand, `keyed` the `NAME=` it stands behind,
    `implied` the one that is meant where none stands in front. `beside`: one of these commands stands in the line too.
    """

    id: str
    names: list[str]
    why: str
    flags: list[str] = []
    unless: list[str] = []
    words: list[list[str]] = []
    operands: Literal[
        "", "any", "system", "system_source", "device", "device_target", "everybody", "service"
    ] = ""
    keyed: str = ""
    implied: str = ""
    beside: list[str] = []


class Protected(Struct, frozen=True, forbid_unknown_fields=True):
    """A path that is not a tool's to use, and all below it.

    `access`: `none`, or `read` alone; `ask`: each write is asked about in every mode; `outside`: it counts as outside the project when it is written.
    `{{service}}` is the service's own directories, `{{part}}` any directory.
    """

    path: str
    scope: Literal["shared", "cli", "llembas"]
    access: Literal["none", "read", "ask", "outside"]
    why: str


class Wrapper(Struct, frozen=True, forbid_unknown_fields=True):
    """A command that runs the command behind its own words.

    `alone` and `value` are its options, without and with a value; one of `query` makes it run nothing. `skip`: words of its
    own before the command. `plain`: the command does what it does without the wrapper. `text`: what follows is a shell's
    line, `elsewhere`: on another computer. `code`: after its own words, the option whose value is a line. `here`: it runs in
    this shell. `appends`: it adds words nobody sees yet, in the place of the value of `replace` where there is one, and up
    to one of `until`. `lasts`: without a command its redirections are the shell's own from there on. `reads`: without a command it is a shell, which reads its input.
    """

    alone: list[str] = []
    value: list[str] = []
    query: list[str] = []
    text_option: list[str] = []
    replace: list[str] = []
    until: list[str] = []
    skip: int = 0
    assignments: bool = False
    numbers: bool = False
    plain: bool = False
    text: bool = False
    appends: bool = False
    elsewhere: bool = False
    here: bool = False
    lasts: bool = False
    reads: Literal["", "input", "always"] = ""
    code: list[str] = []


class Spelling(Struct, frozen=True, forbid_unknown_fields=True):
    """How a command is spelled plainly before it is judged: what runs what."""

    wrappers: dict[str, Wrapper]
    shells: list[str]
    shell_value_options: list[str]
    shell_code_options: list[str]
    #: by command: the options whose value is a shell's line
    code_commands: dict[str, list[str]]
    #: by name: the options whose value is code that is not looked into
    interpreters: dict[str, list[str]]
    #: what runs the code it is given on its input
    stdin_interpreters: list[str]
    #: by command: the options whose value names a program
    program_options: dict[str, list[str]]
    #: by command: words of it, or of what it reads, that name a program; `*` stands for anything
    program_words: dict[str, list[str]]
    #: by command: the words of its own behind which another command stands; "" is none
    runners: dict[str, list[str]]
    #: modules of Python that run the code they are given
    code_modules: list[str]
    #: what loads the program named by its first operand
    loaders: list[str]
    #: variables whose value is a shell's line
    code_variables: list[str]
    #: variables that the shell itself changes
    shell_variables: list[str]
    #: variables of the environment that say where the service lies
    place_variables: list[str]
    #: variables that change nothing of what a command may do
    harmless_variables: list[str]
    #: commands that take a variable's name, in which a substitution may hide
    named_by_text: list[str]
    #: settings of git that name a program, or files with such settings
    git_settings: list[str]
    awks: list[str]
    seds: list[str]


class Hardline(Struct, frozen=True, forbid_unknown_fields=True):
    """hardline.json: the floor, which no mode, rule or person's yes lifts."""

    commands: list[FloorRule]
    #: directories whose loss is the computer's or the person's
    system: list[str]
    #: below /dev, what holds data
    devices: list[str]
    harmless_files: list[str]
    protected: list[Protected]
    #: by command: which of its operands it writes (`all`, `last`, or those when it has this option)
    writers: dict[str, str]
    #: commands that only read the operands they do not write
    readers: list[str]
    #: by command: the options whose value is a file that it writes
    output_options: dict[str, list[str]]
    #: by command: the options whose value is the directory it works in
    directory_options: dict[str, list[str]]
    #: by command: with one of these options (none: always) it takes in all that lies below a directory
    recursive: dict[str, list[str]]
    #: by command: with one of these options (none: always) it may put another directory in the place of one, or take it away
    replacers: dict[str, list[str]]
    #: commands that write what nobody sees below the directories they name
    unpackers: list[str]
    #: commands whose words are no paths
    speakers: list[str]
    spelling: Spelling


class Arity(Struct, frozen=True, forbid_unknown_fields=True):
    """arity.json: how many words of a command an "always" keeps; a command that is not there keeps all of them.

    Nothing is ever offered for those of `never`; of an interpreter (`scripts`) the script is kept.
    """

    never: list[str]
    scripts: list[str]
    words: dict[str, int]


class Defaults(Struct, frozen=True, forbid_unknown_fields=True):
    """defaults.json: the rules every session starts from, and the keys that rules name tools by."""

    keys: dict[str, str]
    former: dict[str, str]
    rules: list[Rule]


def _json(name: str, kind: Any) -> Any:
    return msgspec.json.decode((_DATA / name).read_bytes(), type=kind)


class _RawDefaults(Struct, forbid_unknown_fields=True):
    keys: dict[str, str]
    former: dict[str, str]
    rules: list[dict[str, Any]]


def _defaults() -> Defaults:
    raw: _RawDefaults = _json("defaults.json", _RawDefaults)
    return Defaults(raw.keys, raw.former, [read_rule(one) for one in raw.rules])


HARDLINE: Final[Hardline] = _json("hardline.json", Hardline)
ARITY: Final[Arity] = _json("arity.json", Arity)
DEFAULTS: Final = _defaults()
