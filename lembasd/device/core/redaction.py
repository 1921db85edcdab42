"""What looks like a secret is not written: the last guard, after every caller's own care.

A secret that is known is found as it stands; others by what stands before them (`Bearer …`, `token=…`, a password in
a URL) or by how they begin. That is for sentences, where a secret of somebody else's may be quoted: the value of a field
that has neither a space nor `=` nor `/` is a name of ours.
"""

import re
from collections.abc import Iterable
from typing import Final

#: stands in a secret's place
HIDDEN: Final = b"[hidden]"
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


def _may_hold_one(text: bytes) -> bool:
    """Whether the expressions could find anything. Written out, for it is asked of every line."""
    if b" " not in text and b"=" not in text and b"/" not in text:
        return False  # names and numbers alone, which is most lines
    small = text.lower()
    return (
        b"token" in small
        or b"key" in small
        or b"secret" in small
        or b"passw" in small
        or b"authorization" in small
        or b"bearer" in small
        or b"basic" in small
        or b"@" in small
        or b"eyj" in small
        or b"k-" in small
        or b"gh" in small
        or b"git" in small
        or b"glpat" in small
        or b"xox" in small
        or b"akia" in small
    )


def redacted(text: bytes, secrets: Iterable[bytes] = ()) -> bytes:
    """The text with HIDDEN in the place of each of `secrets`, and of what looks like one."""
    for secret in secrets:
        if secret in text:
            text = text.replace(secret, HIDDEN)
    if _may_hold_one(text):
        text = _NAMED.sub(rb"\1" + HIDDEN, text)
        text = _IN_URL.sub(rb"\1" + HIDDEN, text)
        text = _KNOWN_FORM.sub(HIDDEN, text)
    return text
