"""The entry of a worker process."""

from lembasd.engine.native.choosing import choose
from lembasd.engine.native.engine import NativeEngine
from lembasd.protocol.spawn import Assignment
from lembasd.worker.entry import enter
from lembasd.worker.runner import Worker


def main(assignment: Assignment) -> int:
    """Be the worker of this assignment's session to its end; its exit code.

    The caller has made it a session of its own and reset its signals.
    """
    return enter(
        assignment.log_level,
        lambda paths: Worker(assignment, paths, NativeEngine, choose),
        assignment.channel,
    )
