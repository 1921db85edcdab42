"""Which bytes of a terminal's output have been taken: credit for its pty, which then sends more.

The fastest viewer sets the pace, so that none waits for another; a slower one has its own bounded queue. With no
viewer everything counts as taken: a shell nobody looks at is drained all the same.
"""


class _Flow:
    def __init__(self) -> None:
        self.came = 0
        self.credited = 0
        #: of each viewer: how far into the output it has come
        self.taken: dict[int, int] = {}


class Credits:
    """The flows of all terminals. Bytes are payload bytes of output frames."""

    def __init__(self) -> None:
        self._flows: dict[str, _Flow] = {}

    def came(self, terminal: str, count: int, viewers: tuple[int, ...]) -> int:
        """Output came for these viewers; the bytes to credit at once (all of it when there are none)."""
        flow = self._flows.get(terminal)
        if flow is None:
            flow = self._flows[terminal] = _Flow()
        for viewer in viewers:
            flow.taken.setdefault(viewer, flow.came)
        for viewer in flow.taken:
            if viewer not in viewers:
                flow.taken[viewer] += count  # it was not for this one: nothing to wait for
        flow.came += count
        if viewers:
            return 0
        return self._credit(flow, max(flow.taken.values(), default=flow.came))

    def taken(self, terminal: str, viewer: int, count: int) -> int:
        """The viewer's socket took `count` bytes; the bytes to credit now."""
        flow = self._flows.get(terminal)
        if flow is None or viewer not in flow.taken:
            return 0
        flow.taken[viewer] = min(flow.taken[viewer] + count, flow.came)
        return self._credit(flow, flow.taken[viewer])

    def viewer_left(self, terminal: str, viewer: int) -> int:
        """The viewer is gone; the bytes to credit now."""
        flow = self._flows.get(terminal)
        if flow is None or flow.taken.pop(viewer, None) is None or flow.taken:
            return 0
        return self._credit(flow, flow.came)

    def ended(self, terminal: str) -> None:
        """The terminal, or its connection, is gone."""
        self._flows.pop(terminal, None)

    def _credit(self, flow: _Flow, up_to: int) -> int:
        due = max(0, up_to - flow.credited)
        flow.credited += due
        return due
