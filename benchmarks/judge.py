"""What judging a command costs: as people and models write them, and as somebody would who wants it to take long."""

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.engine import NullHost
from benchmarks.measure import Figure, median
from lembasd.engine.native.judging import Judging
from lembasd.engine.native.permission_cases import verdict
from lembasd.store.records import Call

REPEATS: Final = 200
LONG_REPEATS: Final = 5
LONG: Final = 100_000

#: of about 200 characters each
USUAL: Final = {
    "pipes": (
        'cd src && grep -rn "foo bar" --include="*.py" . | head -20 && git diff HEAD~1 -- core/shell/walk.py '
        '| sed -n "1,80p"; npm run build -- --mode production && npm test 2>&1 | tail -n 40 > out.txt; echo done'
    ),
    "a commit": (
        "git add -A && git commit -m \"$(cat <<'EOF'\nKeep the window of a session\n\nA model that was changed in the "
        'middle has a window of its own, and what was counted before it is not its own.\nEOF\n)" && git push'
    ),
    "a loop": (
        'for f in $(git ls-files "*.py"); do if ! python3 -m py_compile "$f"; then echo "broken: $f" >> broken.txt; '
        "fi; done; wc -l broken.txt; test -s broken.txt && exit 1; rm -f broken.txt; ls -la build dist | sort"
    ),
}

#: of 100 KB, or what is cut there
SHAPES: Final = {
    "a file": "cat > f <<'E'\n" + "hello to the world\n" * 5200 + "E\n",
    "a file with expansions": "cat > f <<E\n" + "hello $name\n" * 8000 + "E\n",
    "code in quotes": "python3 -c '" + "print(1)\n" * 11_000 + "'",
    "a word": "a",
    "many words": "echo " + "a " * 50_000,
    "many commands": "echo a b c; " * 8000,
    "many pipes": "a|" * 50_000,
    "many lines": "ls -l\n" * 16_000,
    "groups in groups": "{ " * 50_000,
    "subshells in subshells": "(" * LONG,
    "substitutions in substitutions": "$(" * 50_000,
    "substitutions in quotes": '"$(' * 33_000,
    "backticks": "`" * LONG,
    "arithmetic in arithmetic": "$((1 " * 20_000,
    "sums": "echo $((" + "1+" * 50_000 + "1))",
    "here-documents": "<<a " * 25_000,
    "quotes": "'" * LONG,
    "quoted variables": 'echo "' + "$a " * 30_000 + '"',
    "expansions in expansions": "${a:-" * 20_000,
    "tests": "[[ " * 33_000,
    "braces in braces": "{a," * 33_000,
    "products of braces": "echo " + "{a,b}" * 20_000,
    "sequences": "echo " + "{1..100}" * 12_000,
    "cases": "case a in " * 10_000,
    "functions": "a() {" * 20_000,
    "loops in loops": "for i in a b; do " * 6000,
    "wrappers": "sudo " * 20_000,
    "eval": "eval " * 20_000,
    "shells": "bash -c '" * 11_000,
    "continued lines": "\\\n" * 50_000,
    "redirections": ">a " * 33_000,
    "descriptors": "1<a " * 25_000,
    "comments": "#" * LONG,
    "line breaks": "\n" * LONG,
    "sed": "sed '" + "s/a/b/;" * 14_000 + "'",
    "awk": "awk '" + "print " * 16_000 + "'",
    "a path": "rm " + "../" * 33_000,
    "paths behind marks": "foo b" + ",/a" * 33_000,
    "words of marks": "foo " + "=/a,/b,/c,/d " * 1000,
    "patterns": "ls " + "*/" * 30_000,
    "many patterns": "ls " + "*/?/[a]/*/b " * 1000,
    "loops, thirty deep": "for i in a b; do " * 30 + "echo $i;" + "done;" * 30,
    "functions, thirty deep": "f() { " * 30 + "ls;" + "};" * 30,
    "braces, nine": "echo " + "{a,b}" * 9,
    "find with many commands": "find " + ". " * 90 + "-exec ls {} + " * 90,
    "wrappers around many words": "sudo " * 38 + "a " * 5000,
    "assignments": "a=b;" * 25_000,
    "deep substitutions": "a=$(" * 39 + "ls" + ")" * 39,
}


def _cpu_ms(judge: Callable[[], object], repeats: int) -> float:
    """Milliseconds of CPU, the least: what else the machine does to its caches is not counted."""
    judge()
    spent = []
    for _ in range(repeats):
        begun = time.process_time_ns()
        judge()
        spent.append((time.process_time_ns() - begun) / 1e6)
    return min(spent)


def _long(shape: str) -> float:
    return _cpu_ms(lambda: verdict(shape, "manual"), LONG_REPEATS)


async def _with_links(root: Path) -> float:
    """A usual command as a session judges it: in a thread, rules of config read, its paths looked up."""
    judging = Judging(NullHost(await asyncio.to_thread(root.resolve), "http://127.0.0.1:9"))
    call = Call(id="c", server_id="c", name="bash", arguments="", args={"command": "git status"})
    spent = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        await judging.judge(call, "plan")
        spent.append((time.perf_counter() - begun) * 1e3)
    return median(spent)


async def measure() -> list[Figure]:
    """The judge's figures."""
    usual = {
        name: _cpu_ms(lambda line=line: verdict(line, "manual"), REPEATS)  # type: ignore[misc]
        for name, line in USUAL.items()
    }
    shapes = {name: _long(shape[:LONG]) for name, shape in SHAPES.items()}
    slowest = max(shapes, key=lambda name: shapes[name])
    text = "cat > f <<'E'\n{}E\n"
    half, whole = (_long(text.format("hello to the world\n" * n)) for n in (2600, 5200))
    with tempfile.TemporaryDirectory() as folder:
        session = await _with_links(Path(folder))
    said = ", ".join(f"{name} {one:.2f}" for name, one in usual.items())
    return [
        Figure(
            "judging 200 characters", max(usual.values()), "ms", 1, 0.5, higher=False, basis=said
        ),
        Figure(
            "judging 100 KB, the slowest of all shapes",
            shapes[slowest],
            "ms",
            50,
            20,
            higher=False,
            basis=f"{slowest}; {len(shapes)} shapes",
        ),
        Figure(
            "judging 100 KB against 50 KB",
            whole / half,
            "times",
            3,
            2.2,
            higher=False,
            basis=f"a file of {half:.1f} and {whole:.1f} ms",
        ),
        Figure("judging in a session", session, "ms", 5, 1, higher=False, basis="git status"),
    ]
