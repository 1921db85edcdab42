"""The named bounds of frames, messages and queues, each with what hitting it means."""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * 1024
#: what the spec means by MB: decoded bytes, in millions (decisions.md, wire 6)
MB: Final = 1_000_000

#: payload bytes in one frame; a longer message travels in several, so that no frame holds a socket for long
MAX_FRAME_PAYLOAD_BYTES: Final = 64 * KIB
#: an envelope beside its payload; a longer one is garbage, and its peer is dropped
MAX_ENVELOPE_BYTES: Final = 4 * KIB
#: what the length prefix may say; more is garbage (or another protocol), and its peer is dropped
MAX_FRAME_BYTES: Final = MAX_FRAME_PAYLOAD_BYTES + MAX_ENVELOPE_BYTES
#: one message over all its frames (a 25 MB prompt is 33.4 MB of base64); refused before it is buffered
MAX_MESSAGE_BYTES: Final = 40 * MIB
#: unfinished messages of one connection that may interleave; more is a peer that never finishes any
MAX_PARTIAL_MESSAGES: Final = 64
#: bytes of unfinished messages over all connections of one hub; over it the newest is refused
MAX_ASSEMBLY_BYTES: Final = 128 * MIB

#: a first frame that has not come by then is a peer that does not speak this protocol
HELLO_TIMEOUT_S: Final = 2.0
#: a full accept queue means the hub is busy; clients retry
LISTEN_BACKLOG: Final = 4096

#: turn ids kept for each session; an older id is forgotten and would run again (link.md, session/prompt)
TURN_IDS_KEPT: Final = 200
#: terminals of one link; one more is refused (link.md, _lembas/terminal/open)
MAX_LINK_TERMINALS: Final = 4
#: how long a terminal waits for its client's next link (`terminal_resume`); then it hangs up
TERMINAL_RESUME_S: Final = 300.0
#: raw bytes of terminal output in one message: its base64 and its JSON must fit one frame
MAX_TERMINAL_CHUNK_BYTES: Final = 32 * KIB
#: columns and rows a terminal may have; other numbers are brought to the nearest (link.md)
TERMINAL_COLS: Final = (20, 500)
TERMINAL_ROWS: Final = (5, 300)
#: a title longer than this is refused (link.md, _lembas/session/title)
MAX_TITLE_CHARS: Final = 200
#: decoded bytes of one prompt block and of a prompt; more is refused (link.md, session/prompt)
MAX_BLOCK_BYTES: Final = 10 * MB
MAX_PROMPT_BYTES: Final = 25 * MB
