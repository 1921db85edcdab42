"""How full the model's window is: tokens are estimated from bytes, by the session's own measured ratio.

The truth is what the server counted for the last request; what was added since is estimated. Until it has counted
once, 2.5 bytes are a token, which is low for prose and right for code and JSON (research/harness.md, 2.13).
"""

from typing import Final

FIRST_BYTES_PER_TOKEN: Final = 2.5
#: a ratio outside is a server that counts something else
_RATIOS: Final = (0.5, 12.0)
#: fewer tokens say too little of the ratio
_ENOUGH_TOKENS: Final = 200
#: a count below is no window's length but a server that does not count
_LEAST_WINDOW: Final = 1000
#: a server that counted so much less than was sent has cut the beginning off without a word
_LOST: Final = 0.4


#: fewer bytes for each token than this are no text in any tokenizer: part of what was sent was not read
_MOST_BYTES_PER_TOKEN: Final = 7.0
#: of the window, what is kept free at most for a reply
_ROOM: Final = 0.25


def leaves_tools_out(message_bytes: int, tool_bytes: int, input_tokens: int) -> bool:
    """Whether the server has read the messages and not the tools: its chat template knows of none (quirk Q70).

    Only a request whose tools are most of it can tell, and only a server that counts.
    """
    read_bytes = input_tokens * _MOST_BYTES_PER_TOKEN
    return (
        tool_bytes >= 2 * message_bytes and message_bytes <= read_bytes < message_bytes + tool_bytes
    )


class Capacity:
    """`window`: tokens the model takes, 0 when nobody said. `share` of it may be used, and `reserve` tokens stay free."""

    def __init__(self, window: int, *, share: float, reserve: int) -> None:
        self.window = window
        self._share = share
        self._reserve = reserve
        self._reply = 0
        self._bytes_per_token = FIRST_BYTES_PER_TOKEN

    def leave_room_for(self, output_tokens: int) -> None:
        """Keep as many tokens free as one reply may have."""
        if output_tokens > 0:
            self._reply = output_tokens

    def counted(self, sent_bytes: int, input_tokens: int) -> bool:
        """Take in what the server counted; False: it has not read all that was sent (a window that is cut silently)."""
        lost = _LEAST_WINDOW <= input_tokens < _LOST * self.estimate(sent_bytes)
        if not lost and input_tokens >= _ENOUGH_TOKENS:
            low, high = _RATIOS
            self._bytes_per_token = min(high, max(low, sent_bytes / input_tokens))
        return not lost

    def estimate(self, sent_bytes: int) -> int:
        """Tokens of a request of so many bytes."""
        return int(sent_bytes / self._bytes_per_token)

    def is_full(self, sent_bytes: int) -> bool:
        """Whether a request of so many bytes is more than the window should take."""
        if not self.window:
            return False
        reserve = self._reserve
        if self._reply:
            reserve = min(self._reply, int(self.window * _ROOM))
        limit = min(self.window * self._share, self.window - reserve)
        return self.estimate(sent_bytes) > max(limit, self.window * 0.5)
