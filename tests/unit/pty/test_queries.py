"""What is taken out of output that is shown again."""

import pytest

from lembasd.pty.core.queries import silenced


@pytest.mark.parametrize(
    "query",
    [
        b"\x1b[c",
        b"\x1b[>0c",
        b"\x1b[=c",
        b"\x1b[>q",
        b"\x1b[x",
        b"\x1b[?u",
        b"\x1b[6n",
        b"\x1b[?996n",
        b"\x1b[?2026$p",
        b"\x1b[14t",
        b"\x1b[16;2t",
        b"\x1bP+q544e\x1b\\",
        b"\x1bP$qm\x1b\\",
        b"\x1b]11;?\x07",
        b"\x1b]4;1;?\x1b\\",
        b"\x1b]52;c;?\x07",
        b"\x1b]52;c;c2VjcmV0\x1b\\",
        b"\x05",
    ],
)
def test_a_question_becomes_nothing_of_its_length(query: bytes) -> None:
    assert silenced(b"a" + query + b"b") == b"a" + bytes(len(query)) + b"b"


@pytest.mark.parametrize(
    "shown",
    [
        b"text 6n c\n",
        b"\x1b[1;31mred\x1b[m",
        b"\x1b[2;5H\x1b[K",
        b"\x1b[?1049h\x1b[?25l",
        b"\x1b[22;2t\x1b[8;24;80t",
        b"\x1b]2;title\x07",
        b"\x1b]11;#000000\x07",
        b"\x1b]133;C\x07",
        b"\x1b[5 q",
        b"\x1b[>1u",
        "größer 漢字".encode(),
    ],
)
def test_what_is_shown_stays(shown: bytes) -> None:
    assert silenced(shown) == shown
