"""Whose hello the hub accepts."""

import pytest

from lembasd.hub.core.admission import Facts, refusal
from lembasd.protocol.hello import Hello, SessionHello, TerminalHello

SESSION = "ses_" + "a" * 26
TERMINAL = "term_" + "c" * 12
WORKER = Hello(role="worker", build="x", pid=5, session=SessionHello(SESSION, 1))
PTY = Hello(role="pty", build="x", pid=5, terminal=TerminalHello(TERMINAL))
UTILITY = Hello(role="utility", build="x", pid=5)


@pytest.mark.parametrize(
    ("hello", "facts"),
    [
        (Hello(role="client", build="x", pid=5), Facts(pid=5, below_worker=True)),
        (WORKER, Facts(pid=5, started_pid=5)),
        (WORKER, Facts(pid=5, lock_pid=5)),
        (WORKER, Facts(pid=5, lock_pid=5, connected_pid=5)),
        (WORKER, Facts(pid=None, lock_pid=5)),
        (PTY, Facts(pid=5)),
        (UTILITY, Facts(pid=5, started_pid=5)),
    ],
)
def test_who_is_what_it_says_is_welcome(hello: Hello, facts: Facts) -> None:
    assert refusal(hello, facts) == ""


@pytest.mark.parametrize(
    ("hello", "facts", "word"),
    [
        (Hello(role="client", build="x", pid=5, protocol=(7, 9)), Facts(pid=5), "`lembasd stop`"),
        (Hello(role="pty", build="x", pid=5, protocol=(0, 0)), Facts(pid=5), "older than the hub"),
        (Hello(role="hub", build="x", pid=5), Facts(pid=5), "hub"),
        (Hello(role="worker", build="x", pid=5), Facts(pid=5), "names its session"),
        (
            Hello(role="worker", build="x", pid=5, session=SessionHello("../etc", 1)),
            Facts(pid=5),
            "names its session",
        ),
        (Hello(role="pty", build="x", pid=5), Facts(pid=5), "names its terminal"),
        (
            Hello(role="pty", build="x", pid=5, terminal=TerminalHello("x")),
            Facts(pid=5),
            "names its terminal",
        ),
        (WORKER, Facts(pid=5), "lock"),
        (WORKER, Facts(pid=5, started_pid=6, lock_pid=6), "lock"),
        (WORKER, Facts(pid=5, lock_pid=5, below_worker=True), "below a worker"),
        (WORKER, Facts(pid=5, lock_pid=5, connected_pid=6), "already"),
        (PTY, Facts(pid=5, below_worker=True), "below a worker"),
        (UTILITY, Facts(pid=5), "did not ask"),
    ],
)
def test_who_is_not_is_refused_with_a_sentence(hello: Hello, facts: Facts, word: str) -> None:
    assert word in refusal(hello, facts)
