"""Ways to spell a command so that it does not look like one. Each makes a line of bash from a name and its arguments."""

import base64
from collections.abc import Callable
from typing import Final

Disguise = Callable[[str, str], str]


def _line(text: str) -> Disguise:
    """`NAME` and `ARGS` are replaced, `ALL` is both."""
    return lambda name, args: (
        text.replace("ALL", f"{name} {args}").replace("NAME", name).replace("ARGS", args)
    )


def _hex(text: str) -> str:
    return "".join(f"\\x{ord(char):02x}" for char in text)


def _octal(text: str) -> str:
    return "".join(f"\\{ord(char):03o}" for char in text)


def _split(text: str, between: str) -> str:
    return text[0] + between + text[1:]


#: what the judge sees through: the command is found in the line, as it is
SEEN: Final[dict[str, Disguise]] = {
    "plain": _line("ALL"),
    "backslash": lambda n, a: f"{_split(n, chr(92))} {a}",
    "empty quotes": lambda n, a: f"{_split(n, chr(34) * 2)} {a}",
    "empty single quotes": lambda n, a: f"{_split(n, chr(39) * 2)} {a}",
    "quoted name": _line('"NAME" ARGS'),
    "single-quoted name": _line("'NAME' ARGS"),
    "half-quoted name": lambda n, a: f"{n[0]}'{n[1:]}' {a}",
    "translated string": _line('$"NAME" ARGS'),
    "ansi hex": lambda n, a: f"$'{_hex(n)}' {a}",
    "ansi octal": lambda n, a: f"$'{_octal(n)}' {a}",
    "ansi unicode": lambda n, a: f"$'\\u{ord(n[0]):04x}'{n[1:]} {a}",
    "continued line in the name": lambda n, a: f"{_split(n, chr(92) + chr(10))} {a}",
    "continued line": lambda n, a: f"{n} \\\n {a}",
    "braced IFS": lambda n, a: f"{n}${{IFS}}{a.replace(' ', '${IFS}')}",
    "IFS": lambda n, a: "$IFS".join([n, *(f'"{one}"' for one in a.split())]),
    "variable": _line("X=NAME; $X ARGS"),
    "braced variable": _line("X=NAME; ${X} ARGS"),
    "quoted variable": _line('X=NAME; "$X" ARGS'),
    "variable with the line": _line("X='ALL'; $X"),
    "variable of variables": lambda n, a: f"A={n[0]}; B={n[1:]}; $A$B {a}",
    "exported variable": _line("export X=NAME; $X ARGS"),
    "echo as the name": _line("$(echo NAME) ARGS"),
    "backticks as the name": _line("`echo NAME` ARGS"),
    "braces": lambda n, a: f"command {{{n},{','.join(a.split())}}}",
    "eval": _line("eval ALL"),
    "eval of a text": _line("eval 'ALL'"),
    "eval of a substitution": _line('eval "$(echo ALL)"'),
    "eval in eval": _line("eval eval ALL"),
    "command": _line("command ALL"),
    "command -p": _line("command -p ALL"),
    "builtin eval": _line("builtin eval ALL"),
    "exec": _line("exec ALL"),
    "exec -a": _line("exec -a other ALL"),
    "env": _line("env ALL"),
    "env with a variable": _line("env -u Y X=1 ALL"),
    "env -S": _line("env -S 'ALL'"),
    "assignment before it": _line("X=1 ALL"),
    "nice": _line("nice -n 5 ALL"),
    "old nice": _line("nice -5 ALL"),
    "nohup": _line("nohup ALL"),
    "timeout": _line("timeout 60 ALL"),
    "timeout with options": _line("timeout -k 5 --signal=TERM 60 ALL"),
    "time": _line("time ALL"),
    "time -p": _line("time -p ALL"),
    "negation": _line("! ALL"),
    "setsid": _line("setsid -w ALL"),
    "stdbuf": _line("stdbuf -oL ALL"),
    "ionice": _line("ionice -c 3 ALL"),
    "coproc": _line("coproc ALL; wait"),
    "flock": _line("flock lock ALL"),
    "flock -c": _line("flock lock -c 'ALL'"),
    "taskset": _line("taskset 1 ALL"),
    "wrapper in a wrapper": _line("env nice nohup timeout 60 ALL"),
    "xargs": lambda n, a: f"echo {a} | xargs {n}",
    "xargs -I": lambda n, a: (
        f"echo {a.split()[-1]} | xargs -I@ {n} {' '.join([*a.split()[:-1], '@'])}"
    ),
    "xargs of a here-string": lambda n, a: f"xargs {n} <<< '{a}'",
    "xargs sh -c": _line("echo x | xargs sh -c 'ALL'"),
    "bash -c": _line("bash -c 'ALL'"),
    "sh -c": _line('sh -c "ALL"'),
    "bundled -c": _line("bash -ec 'ALL'"),
    "login shell": _line("bash -lc 'ALL'"),
    "bash -c in bash -c": _line("bash -c \"bash -c 'ALL'\""),
    "bash -o": _line("bash -o errexit -c 'ALL'"),
    "full path of a shell": _line("/bin/sh -c 'ALL'"),
    "here-document to a shell": _line("bash <<EOF\nALL\nEOF"),
    "quoted here-document": _line("bash <<'EOF'\nALL\nEOF"),
    "here-document with tabs": _line("bash <<-EOF\n\tALL\n\tEOF"),
    "here-string to a shell": _line("bash <<< 'ALL'"),
    "here-document piped to a shell": _line("cat <<EOF | sh\nALL\nEOF"),
    "echo piped to a shell": _line("echo 'ALL' | sh"),
    "echo piped to bash -s": _line("echo 'ALL' | bash -s"),
    "source of a here-string": _line("source /dev/stdin <<< 'ALL'"),
    "dot of a here-string": _line(". /dev/stdin <<< 'ALL'"),
    "find -exec": lambda n, a: f"find . -maxdepth 0 -exec {n} {a} \\;",
    "find -exec sh -c": _line("find . -maxdepth 0 -exec sh -c 'ALL' \\;"),
    "find -exec +": lambda n, a: f"find . -maxdepth 0 -exec {n} {a} {{}} +",
    "function body": _line("f() { ALL; }; f"),
    "function with a keyword": _line("function f { ALL; }; f"),
    "function of another name": _line("ls() { ALL; }; ls"),
    "subshell": _line("(ALL)"),
    "group": _line("{ ALL; }"),
    "timed group": _line("time { ALL; }"),
    "background": _line("ALL & wait"),
    "after another": _line("true; ALL"),
    "on a second line": _line("true\nALL"),
    "and": _line("true && ALL"),
    "or": _line("false || ALL"),
    "pipe": _line("true | ALL"),
    "pipe of errors": _line("true |& ALL"),
    "into a pipe": _line("ALL | cat"),
    "if": _line("if true; then ALL; fi"),
    "condition": _line("if ALL; then true; fi"),
    "else": _line("if false; then true; else ALL; fi"),
    "while": _line("while ALL; do break; done"),
    "for": _line("for i in 1; do ALL; done"),
    "arithmetic for": _line("for ((i=0; i<1; i++)); do ALL; done"),
    "case": _line("case a in a) ALL;; esac"),
    "trap": _line("trap 'ALL' EXIT"),
    "substitution in an argument": _line("echo $(ALL)"),
    "substitution in quotes": _line('echo "a $(ALL) b"'),
    "backticks in an argument": _line("echo `ALL`"),
    "substitution in a substitution": _line("echo $(echo $(ALL))"),
    "substitution in an assignment": _line("X=$(ALL)"),
    "substitution in a default": _line("echo ${X:-$(ALL)}"),
    "substitution in arithmetic": _line("echo $(( 1 + $(ALL; echo 1) ))"),
    "substitution in a test": _line("[[ -n $(ALL) ]]"),
    "substitution in an old test": _line('[ -n "$(ALL)" ]'),
    "substitution in an array": _line("x=(a $(ALL))"),
    "substitution in an index": _line("x[$(ALL; echo 1)]=2"),
    "substitution in a here-document": _line("cat <<EOF\n$(ALL)\nEOF"),
    "substitution in a redirection": _line("echo > $(ALL; echo out)"),
    "substitution in a case": _line("case $(ALL) in *) true;; esac"),
    "substitution in a list of for": _line("for i in $(ALL); do true; done"),
    "process substitution": _line("cat <(ALL)"),
    "process substitution to write": _line("echo x > >(ALL)"),
    "git alias": _line("git -c alias.x='!ALL' x"),
    "pager": _line("PAGER='ALL' env true; ALL"),
    "full path": lambda n, a: f"/usr/bin/{n} {a}",
    "path with dots": lambda n, a: f"/usr/../usr/bin/./{n} {a}",
    "redirection first": _line("> out ALL"),
    "redirection in the middle": lambda n, a: f"{n} > out {a}",
    "comment before it": _line("# a comment\nALL"),
    "comment after it": _line("ALL # not this"),
    "here-document before it": _line("cat <<EOF\ntext\nEOF\nALL"),
    "here-document and more": _line("cat <<EOF && ALL\ntext\nEOF"),
}

#: what runs too, and what it is is known only then: the line is asked about
ASKED: Final[dict[str, Disguise]] = {
    "pattern as the name": lambda n, a: f"/usr/bin/{n[:-1]}? {a}",
    "class as the name": lambda n, a: f"/usr/bin/[{n[0]}]{n[1:]} {a}",
    "default as the name": _line("${X:-NAME} ARGS"),
    "array": _line('x=(ALL); "${x[@]}"'),
    "positional": _line('set -- ALL; "$@"'),
    "empty expansion in the name": lambda n, a: f"{_split(n, '$@')} {a}",
    "read": _line("read -r X <<< NAME; $X ARGS"),
    "printf -v": _line("printf -v X NAME; $X ARGS"),
    "braces as the command": lambda n, a: f"{{{n},{','.join(a.split())}}}",
    "printf to a shell": lambda n, a: f"printf '{_octal(f'{n} {a}')}' | sh",
    "rev to a shell": lambda n, a: f"echo '{f'{n} {a}'[::-1]}' | rev | sh",
    "base64 to a shell": lambda n, a: (
        f"echo {base64.b64encode(f'{n} {a}'.encode()).decode()} | base64 -d | sh"
    ),
    "openssl to a shell": lambda n, a: (
        f"echo {base64.b64encode(f'{n} {a}'.encode()).decode()} | openssl base64 -d | bash"
    ),
    "tr to a shell": lambda n, a: f"echo '{n} {a}' | tr A A | sh",
    "process substitution to a shell": _line("bash <(echo 'ALL')"),
    "source of a process substitution": _line("source <(echo 'ALL')"),
    "eval of what is read": _line("eval \"$(printf '%s' 'ALL')\""),
    "shell of a variable": _line('X=$(printf %s "ALL"); bash -c "$X"'),
    "python": lambda n, a: f"python3 -c 'import os; os.system(\"{n} {a}\")'",
    "python on its input": lambda n, a: f"python3 <<< 'import os; os.system(\"{n} {a}\")'",
    "perl": lambda n, a: f"perl -e 'system(\"{n} {a}\")'",
    "awk": lambda n, a: f"awk 'BEGIN {{ system(\"{n} {a}\") }}'",
    "awk's pipe": lambda n, a: f'awk \'BEGIN {{ print "" | "{n} {a}" }}\'',
    "sed": lambda n, a: f"echo x | sed '1e {n} {a}'",
    "arithmetic on a text": _line("x='a[$(ALL)]'; echo $((x))"),
    "name of a variable": _line("test -v 'a[$(ALL)]'"),
    "prompt expansion": _line("x='$(ALL)'; echo \"${x@P}\""),
    "hash": lambda n, a: f"hash -p /usr/bin/{n} ls; ls {a}",
    "aliases": _line("shopt -s expand_aliases\nalias x='ALL'\nx"),
    "tar's checkpoint": lambda n, a: (
        f"tar -cf /dev/null --checkpoint=1 --checkpoint-action='exec={n} {a}' ."
    ),
    "split's filter": _line("echo x | split --filter='ALL' -"),
    "unfinished here-document": _line("bash <<EOF\nALL"),
    "backticks in a here-document": _line("cat <<EOF\n`ALL`\nEOF"),
    "here-document, redirected and piped": _line("cat <<'EOF' 2>&1 | bash\nALL\nEOF"),
    "here-document that seems to end": _line("cat <<EOF\n  EOF\n'\nEOF\nALL\n: '"),
    "continued operator": _line("true &\\\n& ALL"),
}
