"""What a program asks its terminal, taken out of output that is shown again.

The terminal that it is shown on would answer, and the answer be typed into whatever runs now: a prompt gets `1;2c`. The
clipboard is not set again either. Each byte of what is taken out becomes a NUL, which terminals leave out, so that offsets
stay.
"""

import re
from typing import Final

_END: Final = rb"(?:\x07|\x1b\\)"
_ASKS: Final = re.compile(
    # device attributes, version, parameters, keyboard: what the terminal is
    rb"\x1b\[[>=]?[0-9;]*c|\x1b\[>[0-9]*q|\x1b\[[01]?x|\x1b\[\?u"
    # where the cursor is, which colours, which modes, how large the window
    rb"|\x1b\[\??[0-9;]*n|\x1b\[\??[0-9;]*\$p|\x1b\[(?:1[1345689]|2[01])(?:;[0-9;]*)?t"
    # settings and capabilities by name
    rb"|\x1bP[+$]q[^\x1b\x07]*\x1b\\"
    # colours, and the clipboard, asked for or set
    rb"|\x1b\](?:4;[0-9]+|1[0-9]);\?"
    + _END
    + rb"|\x1b\]52;[^\x1b\x07]*"
    + _END
    # who is there
    + rb"|\x05"
)


def silenced(data: bytes) -> bytes:
    """The same number of bytes, none of them a question."""
    return _ASKS.sub(lambda found: bytes(len(found[0])), data)
