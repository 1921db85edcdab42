"""What looks like a secret is not written: the last guard, after every caller's own care.

A secret that is known is found as it stands; others by what stands before them (`Bearer …`, `token=…`, a password in
a URL) or by how they begin.
"""

import re
from collections.abc import Iterable
from typing import Final

#: stands in a secret's place
HIDDEN: Final = b"[hidden]"
#: a text without any of these holds nothing that the expression finds; it costs a tenth of looking
_SIGNS: Final = (
    b"bearer",
    b"basic",
    b"token",
    b"key",
    b"secret",
    b"passw",
    b"@",
    b"eyj",
    b"author",
)
_STARTS: Final = (b"sk-", b"pk-", b"ghp_", b"gho_", b"github_pat_", b"glpat-", b"xox", b"akia")
_QUOTES: Final = rb"""["'\\]*"""
_VALUE: Final = rb"""[^\s"'\\&,;]+"""
_NAMED: Final = re.compile(
    rb"(?i)((?:bearer|basic)\s+(?=\S{8})|"
    rb"(?:token|key|secret|password|passwd|authorization)"
    + _QUOTES
    + rb"\s*[=:]\s*"
    + _QUOTES
    + rb"(?:(?:bearer|basic)\s+)?(?=[^\s\"'\\&,;]{6}))"
    + _VALUE
)
_IN_URL: Final = re.compile(rb"(://)[^/\s@\"']+:[^/\s@\"']+(?=@)")
_KNOWN_FORM: Final = re.compile(
    rb"(?i)\b(?:(?:sk|pk)-|ghp_|gho_|github_pat_|glpat-|xox[abprs]-|AKIA)[A-Za-z0-9_-]{12,}"
    rb"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}[A-Za-z0-9_.-]*"
)


def redacted(text: bytes, secrets: Iterable[bytes] = ()) -> bytes:
    """The text with HIDDEN in the place of each of `secrets`, and of what looks like one."""
    for secret in secrets:
        if secret in text:
            text = text.replace(secret, HIDDEN)
    small = text.lower()
    if any(sign in small for sign in _SIGNS) or any(start in small for start in _STARTS):
        text = _NAMED.sub(rb"\1" + HIDDEN, text)
        text = _IN_URL.sub(rb"\1" + HIDDEN, text)
        text = _KNOWN_FORM.sub(HIDDEN, text)
    return text
