"""Skips that nobody said may be: a machine that is meant to run every test fails on them.

`LEMBASD_TEST_SKIPS` holds the reasons that may be, one a line; unset, every skip may. A plugin of pytest's.
"""

import os
from typing import Final

import pytest

_ALLOWED: Final = os.environ.get("LEMBASD_TEST_SKIPS")


class Skips:
    """Collects the reasons of a run; with xdist, in the process that starts the others."""

    def __init__(self, allowed: str) -> None:
        self._allowed = set(allowed.splitlines())
        self._unlisted: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            reason = report.longrepr[2].removeprefix("Skipped: ")
            if reason not in self._allowed:
                self._unlisted[report.nodeid] = reason

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._unlisted and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._unlisted:
            terminalreporter.section("skips that are not listed", red=True)
        for test, reason in self._unlisted.items():
            terminalreporter.line(f"{test}: {reason}")


def pytest_configure(config: pytest.Config) -> None:
    if _ALLOWED is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Skips(_ALLOWED))
