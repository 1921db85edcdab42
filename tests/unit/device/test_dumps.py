"""What our processes leave of their memory, and what those that they start may."""

import subprocess
import sys
from typing import Final

import pytest

_SAY: Final = """
import ctypes, resource, subprocess, sys
from lembasd.device import dumps
resource.setrlimit(resource.RLIMIT_CORE, (4096, resource.getrlimit(resource.RLIMIT_CORE)[1]))
before = resource.getrlimit(resource.RLIMIT_CORE)
getattr(dumps, sys.argv[1])()
after = resource.getrlimit(resource.RLIMIT_CORE)
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), after[0], after[1] == before[1])
"""

linux = pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")


def said(what: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _SAY, what], capture_output=True, check=True, env=environment
    )
    return done.stdout.decode().strip()


@linux
def test_a_process_with_the_token_makes_no_core_and_lets_nobody_look() -> None:
    assert said("forbid") == "0 0 True"


@linux
def test_a_command_makes_no_core_and_can_be_told_by_its_environment() -> None:
    assert said("forbid_cores") == "1 0 True"


@linux
@pytest.mark.parametrize("what", ["forbid", "forbid_cores"])
def test_the_switch_for_debugging_leaves_it_all_as_it_is(what: str) -> None:
    assert said(what, LEMBASD_DUMPABLE="1") == "1 4096 True"
