"""What the client holds of a session, as pieces of the system prompt, and what a session is told when one has changed."""

import hashlib
from collections.abc import Mapping
from typing import Final

from lembasd.engine.native.core.instructions import DIGEST_CHARS
from lembasd.harness.loader import PERSONALITIES, PROMPTS
from lembasd.harness.tool import fill
from lembasd.protocol.context import Context, Library, Personalization

#: the preset that stands for the person's own text
CUSTOM: Final = "custom"
#: for an instance that says no name of its own
_INSTANCE: Final = "the instance"


def pieces(context: Context, own: Personalization, instance: str) -> dict[str, str]:
    """The pieces that there are, by name and in their order. `own`: the device's, where the client has none."""
    person = context.personalization if context.personalization is not None else own
    found = {
        "personality": _personality(person),
        "instructions": _block("# What the person wants of you", person.instructions),
        "library": _library(context.library),
        "prototypes": _prototypes(context),
        "system_prompt": _block(
            f"## Instructions from {' '.join(instance.split()) or _INSTANCE}", context.system_prompt
        ),
    }
    return {name: text for name, text in found.items() if text}


def _block(heading: str, text: str | None) -> str:
    text = (text or "").strip()
    return f"{heading}\n\n{text}" if text else ""


def _personality(person: Personalization) -> str:
    """Of a preset, or the person's own; a preset that is not known is none."""
    preset = person.personality or CUSTOM
    own = person.personality_custom if preset == CUSTOM else None
    return _block("# How you speak", PERSONALITIES.get(preset, own))


def _library(library: Library | None) -> str:
    if library is None:
        return ""
    names = ", ".join(" ".join(base.name.split()) or base.id for base in library.bases)
    scope = names or "all that the account has"
    return fill(PROMPTS["blocks/library.md"], {"knowledge_scope": scope})


def _prototypes(context: Context) -> str:
    prototypes = context.prototypes
    if prototypes is None or not prototypes.offered:
        return ""
    sources = " ".join(prototypes.sources.split())
    return fill(PROMPTS["blocks/prototypes.md"], {"sources": sources}).rstrip()


def digests(found: Mapping[str, str]) -> dict[str, str]:
    """A hash of each piece, by its name."""
    return {
        name: hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:DIGEST_CHARS]
        for name, text in found.items()
    }


def changes(
    before: Mapping[str, str], found: Mapping[str, str], texts: Mapping[str, str]
) -> list[str]:
    """What a session is told of pieces that are not what they were; `before` by name as `digests` gives them."""
    now = digests(found)
    said = [
        fill(texts["context_changed"], {"text": text})
        for name, text in found.items()
        if before.get(name) != now[name]
    ]
    gone = [texts[f"{name}_dropped"] for name in before if name not in found]
    return [*said, *gone]
