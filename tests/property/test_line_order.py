"""Lines of commands: the strictest decides, a wider mode is never stricter, an "always" covers what it was shown for."""

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from lembasd.engine.native.core.arity import Grant
from lembasd.engine.native.permission_cases import verdict
from lembasd.protocol.control import Mode

#: from the narrowest to the widest
MODES: tuple[Mode, ...] = get_args(Mode)
WIDTH = {"deny": 0, "ask": 1, "allow": 2}
COMMANDS = [
    "ls",
    "ls ..",
    "cat a b",
    "make",
    "make a",
    "make a b",
    "npm test",
    "npm run build",
    "npm run build -- --x",
    "git push",
    "git push -f",
    "git commit -m 'a b'",
    "git -C x commit",
    "python3 a.py",
    "python3 a.py b",
    "python3 -c 1",
    "foo",
    "foo bar",
    "X=1 make",
    "sudo make",
    "timeout 5 make",
    "env make",
    "make $X",
    "$X make",
    "make > out",
    "make > /etc/x",
    "rm -rf build",
    "rm -rf /",
    "cat ~/.config/lembas/x",
    "sh -c 'make a'",
    "lembasd stop",
    "./make",
]
commands = st.sampled_from(COMMANDS)
lines = st.lists(commands, min_size=1, max_size=3).flatmap(
    lambda found: st.sampled_from(["; ", " && ", " || ", "\n"]).map(lambda join: join.join(found))
)
PIECES = ["rm ", "$(", "<<E\n", "\nE\n", "if ", "then ", "fi", "do ", "done", "sh -c ", "eval "]
texts = st.lists(
    st.sampled_from([*"ab /.-=$`'\"\\{}()[]<>|&;*?~!#\n\t,:@%+1", *PIECES]), max_size=40
).map("".join)
rules = st.lists(
    st.fixed_dictionaries(
        {"command": st.sampled_from(["make", "make *", "npm *", "git push", "foo", "ls *", "cat"])}
    ).flatmap(
        lambda rule: st.sampled_from(["allow", "ask", "deny"]).map(
            lambda kind: {kind: "bash", **rule}
        )
    ),
    max_size=3,
)


@given(st.one_of(lines, texts), rules)
def test_a_wider_mode_never_turns_allow_into_less(line: str, given_: list[dict[str, str]]) -> None:
    widths = [WIDTH[verdict(line, mode, rules=given_).kind] for mode in MODES]
    assert widths == sorted(widths)


@given(st.lists(commands, min_size=1, max_size=4), st.sampled_from(MODES), rules)
def test_a_line_is_allowed_no_more_than_each_of_its_commands(
    found: list[str], mode: Mode, given_: list[dict[str, str]]
) -> None:
    whole = verdict("; ".join(found), mode, rules=given_)
    parts = [WIDTH[verdict(one, mode, rules=given_).kind] for one in found]
    assert WIDTH[whole.kind] == min(parts)


@given(lines, st.sampled_from(MODES), rules)
def test_a_rule_more_restricts_or_allows_and_never_the_other(
    line: str, mode: Mode, given_: list[dict[str, str]]
) -> None:
    before = WIDTH[verdict(line, mode, rules=given_).kind]
    denied = verdict(line, mode, rules=[*given_, {"deny": "bash", "command": "make"}])
    allowed = verdict(line, mode, rules=[*given_, {"allow": "bash", "command": "make *"}])
    assert WIDTH[denied.kind] <= before <= WIDTH[allowed.kind]
    if before == 0:
        assert allowed.kind == "deny"


@given(lines, commands, st.sampled_from(["manual", "edit"]))
def test_an_always_covers_no_command_that_it_was_not_shown_for(
    shown: str, other: str, mode: Mode
) -> None:
    granted = frozenset(verdict(shown, mode).always)
    bare, after = (verdict(other, mode, grants=one) for one in (frozenset[Grant](), granted))
    if after.kind == bare.kind:
        return
    assert (bare.kind, after.kind, after.rule) == ("ask", "allow", "session.grant")
    words = (
        other.partition(" > ")[0]
        .replace("timeout 5 ", "")
        .replace("env ", "")
        .replace("'", "")
        .split()
    )
    covers = [one for one in granted if tuple(words[: len(one.words)]) == one.words]
    assert any(not one.exact or len(words) == len(one.words) for one in covers), granted


@given(lines, st.sampled_from(["manual", "edit"]))
def test_an_always_covers_the_line_it_was_shown_for(shown: str, mode: Mode) -> None:
    one = verdict(shown, mode)
    if one.always:
        assert verdict(shown, mode, grants=frozenset(one.always)).kind == "allow"
    else:
        assert one.kind != "ask" or one.always_text is None


@given(texts)
def test_any_text_is_judged(text: str) -> None:
    for mode in MODES:
        assert verdict(text, mode).kind in WIDTH
