"""Permission rules as they are written: in the harness' defaults, in config.yaml, in a trusted project."""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

#: characters of one text of a rule; a longer one is a mistake
MAX_RULE_CHARS: Final = 1000
#: texts of one rule, and rules of one file; more would be read at every call
MAX_RULE_TEXTS: Final = 100
MAX_RULES: Final = 500
_DECISIONS: Final = ("allow", "ask", "deny")


class Rule(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A permission rule. `tool`: the key of a tool, `*` for each.

    `command`: of bash, any of these; `*` stands for the rest of a word, and at the end for whatever follows. `path`: of
    the tools that take one, a pattern below the project or from / or ~ on. With `unless` it is no rule for a command
    that has one of these options; with `inside` only for what lies in the project.
    """

    decision: Literal["allow", "ask", "deny"]
    tool: str
    command: tuple[str, ...] = ()
    path: str = ""
    unless: tuple[str, ...] = ()
    inside: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        """Every text of it."""
        return (self.tool, *self.command, self.path, *self.unless)


def read_rule(given: Any) -> Rule:
    """A rule as it is written: one of `allow`, `ask` and `deny` names the tool.

    Raises ValueError whose text is what was expected.
    """
    if not isinstance(given, Mapping):
        raise ValueError("a rule such as `allow: bash` with `command: npm test`")
    values: dict[str, Any] = {str(key): value for key, value in given.items()}
    decisions = [one for one in _DECISIONS if one in values]
    if len(decisions) != 1:
        raise ValueError("a rule with one of allow, ask and deny, which names a tool")
    (decision,) = decisions
    values["tool"] = values.pop(decision)
    for name in ("command", "unless"):
        if isinstance(values.get(name), str):
            values[name] = [values[name]]
    try:
        rule = msgspec.convert({**values, "decision": decision}, Rule)
    except msgspec.ValidationError as error:
        raise ValueError(f"a rule with tool, command, path, unless and inside ({error})") from None
    if not rule.tool.strip() or not all(one.split() for one in rule.command):
        raise ValueError("a rule whose tool and command are not empty")
    if rule.command and rule.path:
        raise ValueError("a rule with a command or a path, not both")
    if len(rule.texts) > MAX_RULE_TEXTS or any(len(one) > MAX_RULE_CHARS for one in rule.texts):
        raise ValueError(f"a rule of at most {MAX_RULE_TEXTS} texts of {MAX_RULE_CHARS} characters")
    return rule
