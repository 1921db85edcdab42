"""Whether a line may run: floor, protected paths, rules and grants, with the project's paths followed."""

import pytest
from msgspec.structs import replace

from lembasd.engine.native.core import command_paths, floor
from lembasd.engine.native.core.arity import Grant
from lembasd.engine.native.core.ground import Ground, ground
from lembasd.engine.native.core.line import judge
from lembasd.engine.native.core.permission import Verdict
from lembasd.engine.native.core.rules import Rulebook
from lembasd.engine.native.core.shell.expand import read
from lembasd.engine.native.core.shell.reading import Command, Word
from lembasd.engine.native.permission_cases import HOME, ROOT, verdict
from lembasd.harness.permissions import DEFAULTS
from lembasd.protocol.control import Mode


def decided(line: str, mode: Mode = "auto", **given: object) -> str:
    one = verdict(line, mode, **given)  # type: ignore[arg-type]
    return f"{one.kind} {one.rule}"


def of(path: str, *, mode: Mode = "auto") -> Ground:
    return ground(ROOT, HOME, [path], {})


# ── reasons ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("line", "mode", "reason"),
    [
        (
            "rm -rf /",
            "auto",
            "it deletes a system directory or a whole home: refused in every mode",
        ),
        (
            "cat ~/.config/lembas/x",
            "auto",
            f"{HOME}/.config/lembas/x is protected (it is the service's own): no tool may touch it in any mode",
        ),
        ("rm -rf $X", "auto", "what rm is given is known only when it runs"),
        ("$X", "auto", "the name of a command is known only when it runs"),
        ("foo ~/.bashrc", "auto", None),
        ("make", "manual", "the manual mode asks before execute calls"),
        ("make", "plan", "the plan mode allows no execute calls"),
        ("echo a > ../b", "edit", "it writes outside the project"),
        ("git push -f", "auto", "the rule “ask: bash git push -f” asks before it"),
        ("ls", "manual", "the rule “allow: bash ls *” allows it"),
        ("x=1", "manual", "it only sets variables"),
        ("", "manual", "it runs nothing"),
        ("echo a > .mcp.json", "auto", "it says what this project's next sessions start"),
    ],
)
def test_a_verdict_says_why(line: str, mode: Mode, reason: str | None) -> None:
    said = verdict(line, mode).reason
    if reason is None:
        reason = (
            f"foo may write {HOME}/.bashrc, which is protected (every shell of the person runs it)"
        )
    assert said == reason


def test_the_floor_is_told_before_a_rule_and_a_denial_before_what_would_be_asked() -> None:
    rules = [{"deny": "bash", "command": "make"}, {"ask": "bash", "command": "ls"}]
    assert decided("ls; make; rm -rf /", rules=rules) == "deny floor.delete_system"
    assert decided("ls; make", rules=rules) == "deny rules.deny: bash make"
    assert decided("$X; make", rules=rules) == "deny rules.deny: bash make"
    assert decided("$X; ls", rules=rules) == "ask rules.ask: bash ls"


# ── the floor ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("find -delete", "allow modes.auto.execute"),
        ("cd / && find -delete", "deny floor.delete_system"),
        ("systemctl $X", "ask floor.power"),
        ("systemctl status", "allow modes.auto.execute"),
        ("systemctl -$X poweroff", "deny floor.power"),
        ("rm -$X /", "ask floor.delete_system"),
        ('rm "$X"', "allow modes.auto.execute"),
        ("rm $X", "ask floor.delete_system"),
        ("rm ${X[@]}", "ask floor.delete_system"),
        ("mv -t /tmp /", "deny floor.move_system"),
        ("mv / /tmp", "deny floor.move_system"),
        ("mv /tmp/a /", "allow modes.auto.execute"),
        ("pgrep lembasd", "allow modes.auto.execute"),
        ("pgrep lembasd; kill 1", "deny floor.service"),
        ("dd of=/dev/sda", "deny floor.write_device"),
        ("dd of=a", "allow modes.auto.execute"),
        ("wipefs -a -n /dev/sda", "allow modes.auto.execute"),
        ("ln -s b a; ln -s a b; cat a", "allow rules.allow: bash cat *"),
        ("ln -s $X a; cat a", "allow rules.allow: bash cat *"),
        ("ln -s a a; cat a", "allow rules.allow: bash cat *"),
        ("ln; ln -s", "allow modes.auto.execute"),
        ("cd $X; ln -s / a; rm -rf a", "ask floor.delete_system"),
    ],
)
def test_the_floor_refuses_what_it_sees_and_has_asked_what_it_cannot(line: str, found: str) -> None:
    assert decided(line) == found


def test_a_command_without_a_name_breaks_no_rule_of_the_floor() -> None:
    ground_ = of("/service")
    assert floor.hits(Command(()), ground_) == []
    assert floor.hits(Command((Word("", known=False),)), ground_) == []


# ── paths ───────────────────────────────────────────────────────────────────────────────────────


def named(line: str) -> list[str | None]:
    (one,) = read(line, HOME, ROOT).commands
    return [path.text for path in command_paths.of_command(one)]


@pytest.mark.parametrize(
    ("line", "paths"),
    [
        ("foo a", [f"{ROOT}/a"]),
        ("foo /a", ["/a"]),
        ("foo -f.env", [f"{ROOT}/.env"]),
        ("foo -f", []),
        ("foo -o/a", ["/a"]),
        ("foo --x=a", [f"{ROOT}/a"]),
        ("foo --x=", []),
        ("foo a=/b", [f"{ROOT}/a=/b", "/b", "/b"]),
        ("foo @/a", [f"{ROOT}/@/a", "/a"]),
        ("foo file:///a", [f"{ROOT}/file:///a", "/a"]),
        ("foo http://h/a", [f"{ROOT}/http://h/a"]),
        ("foo $X", [None]),
        ("foo 'a\nb'", []),
        ("foo " + "a" * 5000, []),
        ("foo */../a", [None]),
        ("foo b*/a", [f"{ROOT}/b*/a"]),
        ("tar -C /x a", [f"{ROOT}/a", "/x", "/x/a"]),
        ("tar -C $X a", [None, None]),
    ],
)
def test_the_paths_of_a_command_are_what_its_words_may_name(
    line: str, paths: list[str | None]
) -> None:
    assert sorted(map(str, named(line))) == sorted(map(str, paths))


def test_a_line_with_more_paths_than_are_followed_is_asked_about() -> None:
    reading = read("foo " + " ".join(f"a{n}" for n in range(400)), HOME, ROOT)
    assert len(command_paths.to_follow(reading)) == command_paths.MAX_PATHS
    assert reading.unseen == [command_paths.TOO_MANY]


def test_a_path_is_judged_by_its_words_and_by_where_it_leads() -> None:
    links = {f"{ROOT}/a": "/etc", f"{ROOT}/b": f"{HOME}/.ssh"}
    assert decided("rm -r a", links=links) == "deny floor.delete_system"
    assert decided("rm -r a/nginx", links=links) == "allow modes.auto.execute"
    assert decided("cp key b", links=links) == "deny floor.protected_path"
    assert decided("ls b", "manual", links=links) == "ask modes.manual.execute"


def test_what_is_copied_into_a_link_lies_where_the_link_leads() -> None:
    links = {f"{ROOT}/b": HOME}
    assert decided("cp .bashrc b", links=links) == "deny floor.protected_path"
    assert decided("cp notes b", links=links) == "allow modes.auto.execute"


@pytest.mark.parametrize(
    ("line", "mode", "found"),
    [
        ("echo a > /dev/null", "manual", "allow rules.allow: bash echo *"),
        ("echo a > /dev/fd/2", "manual", "allow rules.allow: bash echo *"),
        ("echo a > b", "edit", "allow rules.allow: bash echo *"),
        ("echo a > b", "manual", "ask modes.manual.write"),
        ("echo a > .git/b", "edit", "ask modes.edit.write.outside"),
        ("echo a > /tmp/b", "edit", "ask modes.edit.write.outside"),
        ("echo a > $X", "auto", "ask line.opened"),
        ("cat < b", "manual", "allow rules.allow: bash cat *"),
        ("echo a > /dev/sda", "auto", "deny floor.write_device"),
    ],
)
def test_a_redirection_writes_as_the_mode_lets_tools_write(
    line: str, mode: Mode, found: str
) -> None:
    assert decided(line, mode) == found


# ── rules ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("rule", "line", "found"),
    [
        ({"deny": "bash", "command": "*fmt a"}, "gofmt a", "deny rules.deny: bash *fmt a"),
        ({"deny": "bash", "command": "*fmt a"}, "make a", "allow modes.auto.execute"),
        (
            {"deny": "bash", "command": "* *secret*"},
            "make Secret",
            "deny rules.deny: bash * *secret*",
        ),
        ({"deny": "bash", "command": "* *secret*"}, "make", "allow modes.auto.execute"),
        ({"deny": "bash", "command": "a", "unless": ["-n"]}, "a -n", "allow modes.auto.execute"),
        ({"deny": "bash", "command": "a", "unless": ["-n"]}, "a", "deny rules.deny: bash a"),
        ({"deny": "bash", "command": "a -f"}, "a -f b", "deny rules.deny: bash a -f"),
        ({"deny": "bash", "command": "a -f"}, "a $X", "ask rules.deny: bash a -f"),
        ({"deny": "bash", "command": "a b"}, "a -c d b", "deny rules.deny: bash a b"),
        ({"deny": "bash", "command": "a b"}, "a c b", "allow modes.auto.execute"),
        ({"deny": "bash", "command": "a b"}, "a $X", "ask rules.deny: bash a b"),
        ({"deny": "bash", "command": "a b"}, "$X a $Y", "ask line.unseen"),
        ({"deny": "bash", "command": "a"}, "/bin/a", "deny rules.deny: bash a"),
        ({"deny": "web_fetch", "path": "x"}, "cat x", "allow rules.allow: bash cat *"),
        ({"deny": "read", "path": "x"}, "cat x", "deny rules.deny: read x"),
        ({"deny": "read", "path": "x"}, "echo x", "allow rules.allow: bash echo *"),
        ({"deny": "read", "path": "x"}, "y=1; $Z x", "deny rules.deny: read x"),
        ({"deny": "write", "path": "x"}, "cat x", "allow rules.allow: bash cat *"),
        ({"deny": "write", "path": "x"}, "curl -o x a", "deny rules.deny: write x"),
        ({"deny": "write", "path": "x"}, "cat < x", "allow rules.allow: bash cat *"),
        ({"deny": "bash", "path": "x"}, "cat < x", "deny rules.deny: bash x"),
    ],
)
def test_a_deny_speaks_of_all_that_may_be_meant(
    rule: dict[str, object], line: str, found: str
) -> None:
    assert decided(line, rules=[rule]) == found


def test_an_allow_speaks_of_what_is_written_there() -> None:
    rules = [{"allow": "bash", "command": ["a b*", "c", "d e *"]}]
    for line in ("a bc", "c", "d e", "d e f"):
        assert decided(line, "manual", rules=rules).startswith("allow"), line
    for line in ("a", "a bc d", "c d", "X=1 c", "PATH=. c", "d f", "d", "/bin/c", "sudo c"):
        assert decided(line, "manual", rules=rules).startswith("ask"), line
    assert decided("FOO_ x=1 c", "manual", rules=rules).startswith("ask")
    assert decided("x=1 c", "manual", rules=rules).startswith("allow")
    assert decided("http_proxy=h c", "manual", rules=rules).startswith("ask")
    assert decided("LANG=C c", "manual", rules=rules).startswith("allow")


def test_a_rulebook_of_none_speaks_of_nothing() -> None:
    one = Command((Word("a"),))
    book = Rulebook([])
    assert list(book.restricting(one)) == []
    assert book.allowing(one, inside=True) is None


# ── grants ──────────────────────────────────────────────────────────────────────────────────────


def test_an_always_is_offered_for_all_commands_of_a_line_or_for_none() -> None:
    one = verdict("make a && npm test", "manual")
    assert one == Verdict(
        kind="ask",
        reason="the manual mode asks before execute calls",
        rule="modes.manual.execute",
        always=(Grant("bash", ("make", "a")), Grant("bash", ("npm", "test"))),
    )
    assert one.always_text == "make a *, npm test *"
    assert verdict("make a && rm b", "manual").always == ()
    assert verdict("a; b; c; d; e; f", "manual").always == ()
    assert verdict("make a > b", "manual").always == ()


def test_what_was_granted_is_allowed_beside_what_is_allowed_anyway() -> None:
    granted = frozenset(verdict("make a", "manual").always)
    assert decided("ls && make a b", "manual", grants=granted).startswith("allow")
    again = verdict("make a; npm test", "manual", grants=granted)
    assert again.always_text == "npm test *"
    assert decided("make a", "plan", grants=granted) == "deny modes.plan.execute"


# ── where the service lies, and what it runs in ─────────────────────────────────────────────────

EXPORTED = {"LEMBAS_HOME": "/srv/lembas", "PPID": "4711"}


def known(line: str) -> str:
    """The verdict on a line whose shell has EXPORTED, with the service in there, run by process 4711 below 17."""
    found = ground(ROOT, HOME, ["/srv/lembas/config", "/srv/lembas/run"], {})
    found = replace(found, pids=frozenset({"4711", "17"}))
    one = judge(
        read(line, HOME, ROOT, EXPORTED), "auto", Rulebook(DEFAULTS.rules), frozenset(), found
    )
    return f"{one.kind} {one.rule}"


@pytest.mark.parametrize(
    "line",
    [
        "cat $LEMBAS_HOME/config/credentials.json",
        'cat "${LEMBAS_HOME}"/config/c*',
        "cat ${LEMBAS_HOME:-/tmp/x}/config/config.yaml",
        "x=$LEMBAS_HOME; cat $x/config/config.yaml",
        "bash -c 'cat $LEMBAS_HOME/config/config.yaml'",
        "f() { cat $LEMBAS_HOME/config/config.yaml; }; f",
        "cd $LEMBAS_HOME && nc -U run/hub.sock",
        "echo 'remote: {}' > $LEMBAS_HOME/config/config.yaml",
    ],
)
def test_a_path_by_a_variable_that_says_where_the_service_lies_is_protected(line: str) -> None:
    assert known(line) == "deny floor.protected_path"


@pytest.mark.parametrize(
    "line",
    [
        "LEMBAS_HOME=/tmp/x; cat $LEMBAS_HOME/config/config.yaml",
        "read LEMBAS_HOME < a; cat $LEMBAS_HOME/config/config.yaml",
        "cat ${LEMBAS_HOME:+x}/config/config.yaml",
        "cat $LEMBAS_HOME/notes",
        "echo $LEMBAS_HOME",
    ],
)
def test_a_variable_that_the_line_changes_is_not_taken_for_what_it_was(line: str) -> None:
    assert known(line) == "allow modes.auto.execute" or known(line).startswith("allow rules.")


@pytest.mark.parametrize(
    "line",
    ["kill -9 $PPID", "kill 17", "kill -s KILL 17", "kill -- -17", "kill -9 -4711", "/bin/kill 17"],
)
def test_a_command_that_ends_what_the_session_runs_in_is_refused(line: str) -> None:
    assert known(line) == "deny floor.service"


@pytest.mark.parametrize(
    "line", ["kill -17 99", "kill 99", "kill %1", "kill $x", "kill", "kill -l"]
)
def test_a_command_that_ends_something_else_is_not(line: str) -> None:
    assert known(line) == "allow modes.auto.execute"


@pytest.mark.parametrize(
    "line",
    [
        "mv my .agent",
        "ln -s my .agent",
        "cp -r my/. .agent",
        "rsync -a my/ .agent/",
        "rm -rf .agent",
        "rm -r .agen?",
        "mv .agent old",
        "cd sub && mv ../my ../.agent",
    ],
)
def test_a_directory_with_a_protected_file_is_not_replaced_unasked(line: str) -> None:
    assert decided(line) == "ask floor.protected_path"


@pytest.mark.parametrize(
    "line",
    [
        "mkdir -p .agent/skills",
        "cp a.md .agent/",
        "mv a .agent/skills/",
        "rm -r build",
        "mv a .",
        "rm -r *",
    ],
)
def test_what_leaves_it_there_is_not_asked_about(line: str) -> None:
    assert decided(line) == "allow modes.auto.execute"


# judged alone: none of these is ever run
@pytest.mark.parametrize(
    "line",
    [
        "killall5",
        "sudo killall5 -9",
        "/sbin/killall5 -o 1",
        "busybox killall5",
        "pkill .",
        "pkill -9 -f '.*'",
        "pkill -f ''",
        "pkill -v sshd",
        "pkill --inverse x",
        "killall -r '.*'",
        "killall -9 -r .",
    ],
)
def test_a_command_that_ends_every_process_is_refused(line: str) -> None:
    assert decided(line) == "deny floor.kill_all"


@pytest.mark.parametrize(
    "line", ["pkill -f ./server", "pkill node", "killall node", "killall -v node", "echo killall5"]
)
def test_a_command_that_ends_what_it_names_is_not(line: str) -> None:
    assert "kill_all" not in decided(line)


OWN = "~/.config/lembas/credentials.json"


@pytest.mark.parametrize(
    "line",
    [
        "for f in ~/.config/lembas/*; do cat $f; done",
        f"while read f; do cat $f; done <<< {OWN}",
        f"a=({OWN}); cat ${{a[@]}}",
        f"printf '%s' {OWN} | xargs -I{{}} cat {{}}",
        "x=zann; cat /home/${x#z}/.config/lembas/a",
        "cat /home/$(printf ann)/.config/lembas/a",
        "cat ../$(whoami)/../.config/lembas/a",
        "HOME=~/.config/lembas git config --global a.b c",
        "socat - UNIX:../.local/state/lembas/x",
        "socat - UNIX-CONNECT:../../../run/user/1000/lembas/hub.sock",
        "cat <<< '~/.config/lembas/x' | bash -c 'read x; cat $x'",
        "cat /proc/self/cwd/../../ann/x",
        "cat /proc/$$/task/7/root/x",
    ],
)
def test_a_line_in_which_a_path_of_the_service_stands_is_asked_about(line: str) -> None:
    assert decided(line) == "ask floor.protected_path"


@pytest.mark.parametrize(
    "line",
    [
        "for f in ~/.config/git/*; do cat $f; done",
        f"echo {OWN}",
        "cat $x/config.yaml",
        "cat ~/$x/notes.md",
        "git commit -m 'see ~/.config/lembas'",
        "cat /proc/self/status",
        "cat /proc/self/fd/3",
        "sed s/a/b/ x",
        "cat " + "x" * 5000 + "/a",
    ],
)
def test_a_line_with_other_paths_is_not(line: str) -> None:
    assert decided(line).startswith("allow ")
