"""Whatever stands in the person's files is read or is a ConfigError: nothing in them is a fault of ours."""

import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lembasd.device import config, credentials, trust
from lembasd.protocol.errors import ConfigError

KEYS = ["server", "model", "mode", "effort", "remote", "roots", "max_mode", "hub", "log", "level"]
#: what is nearly a config: keys that are known with values that are not, and YAML's own hard places
scalars = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["~", "[", "{", "&a [*a]", "*b", "!!python/object:os.system x", "1e999", ".nan"]
    ),
    st.sampled_from(
        ["2001-02-30", "0o777", "yes", "<<: *x", "? a", "- b", "|\n  c", "\t", "%YAML 9.9"]
    ),
)
lines = st.builds("{}{}: {}".format, st.sampled_from(["", "  "]), st.sampled_from(KEYS), scalars)
nearly = st.lists(lines, max_size=6).map(lambda all_: "\n".join(all_).encode(errors="replace"))


@pytest.mark.parametrize("load", [config.load, credentials.load, trust.load])
@given(content=st.one_of(st.binary(max_size=200), nearly))
@example(content=b"[" * 5000)
@example(content=b"{" * 5000)
@example(content=b'{"server":' * 5000)
@example(content=b"a: &a [*a]")
@example(content=b"\xff\xfe")
def test_any_content_is_read_or_refused(load: Callable[[Path], object], content: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "file"
        path.write_bytes(content)
        path.chmod(0o600)
        with suppress(ConfigError):
            load(path)
