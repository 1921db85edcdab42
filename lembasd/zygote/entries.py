"""What a child runs: the one place where a role becomes a process package."""

from typing import Literal, assert_never

from lembasd.protocol.spawn import Assignment

#: of a zygote or spare: what its children are
Kind = Literal["worker", "pty"]


def run(assignment: Assignment) -> int:
    """Be the process of this assignment to its end; its exit code."""
    # imported here: a pty zygote never loads an engine
    match assignment.role:
        case "worker":
            from lembasd.worker.main import main as worker_main

            return worker_main(assignment)
        case "utility":
            from lembasd.worker.utility import main as utility_main

            return utility_main(assignment)
        case "pty":
            from lembasd.pty.main import main as pty_main

            return pty_main(assignment)
        case _:
            assert_never(assignment.role)
