"""However a server's bytes are cut on their way, the events are the same."""

from hypothesis import given
from hypothesis import strategies as st

from lembasd.engine.native.core.sse import EventStream

ENDS = (b"\n", b"\r", b"\r\n")
#: pieces that lines are made of: field names, colons, spaces, texts, and bytes that are no line ends in any encoding
PARTS = st.sampled_from(
    [b"data", b":", b" ", b"x", b"{}", b"event", b"id", "é".encode(), b"\x0b", b"\x85", b"\0"]
)
LINES = st.lists(PARTS, max_size=5).map(b"".join)
BODIES = st.lists(st.tuples(LINES, st.sampled_from(ENDS)), max_size=12)


def by_the_standard(lines: list[bytes]) -> list[bytes]:
    """The data of each event, line by line as the HTML standard says it (9.2.6)."""
    found: list[bytes] = []
    data: list[bytes] = []
    for line in lines:
        if not line:
            if data:
                found.append(b"\n".join(data))
            data = []
        elif line == b"data" or line.startswith(b"data:"):
            value = line[5:]
            data.append(value[1:] if value.startswith(b" ") else value)
    return found


@given(BODIES, st.booleans(), st.data())
def test_events_do_not_depend_on_where_the_bytes_were_cut(
    body: list[tuple[bytes, bytes]], has_mark: bool, data: st.DataObject
) -> None:
    # a lone CR before an empty line that ends in LF would be one CRLF: give such a line another end
    lines: list[bytes] = []
    raw = b"\xef\xbb\xbf" if has_mark else b""
    for line, end in body:
        if raw.endswith(b"\r") and not line and end == b"\n":
            end = b"\r"
        lines.append(line)
        raw += line + end
    cuts = data.draw(st.lists(st.integers(1, max(1, len(raw))), max_size=8).map(sorted))
    stream = EventStream()
    found: list[bytes] = []
    for start, stop in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        if start < stop:
            found += stream.feed(raw[start:stop])
    assert found == by_the_standard(lines)
