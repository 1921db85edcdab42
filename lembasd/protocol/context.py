"""What only the client knows of a session (link.md, Context): said at session/new and at each prompt."""

from msgspec import UNSET, Struct, UnsetType


class Personalization(Struct, frozen=True, omit_defaults=True):
    """How a person wants to be answered. `personality` names a preset, or `custom`: then `personality_custom` is it."""

    personality: str | None = None
    personality_custom: str | None = None
    instructions: str | None = None


class Base(Struct, frozen=True):
    """A knowledge base."""

    id: str
    name: str


class Library(Struct, frozen=True):
    """What the chat may search; no bases: all that the account has."""

    bases: list[Base] = []


class Prototypes(Struct, frozen=True, omit_defaults=True):
    """Whether the model may write a page; `sources` is the sentence saying what it may load."""

    offered: bool
    sources: str = ""


class SaidContext(Struct, frozen=True, omit_defaults=True):
    """What one message said; what it left out stays as it was. `personalization` None: the device's own."""

    system_prompt: str | UnsetType = UNSET
    personalization: Personalization | UnsetType | None = UNSET
    library: Library | UnsetType = UNSET
    prototypes: Prototypes | UnsetType = UNSET


class Context(Struct, frozen=True, omit_defaults=True):
    """All that was said so far."""

    system_prompt: str = ""
    personalization: Personalization | None = None
    library: Library | None = None
    prototypes: Prototypes | None = None


def joined(before: Context, said: SaidContext) -> Context:
    """The newer in the place of the older."""
    return Context(
        system_prompt=before.system_prompt if said.system_prompt is UNSET else said.system_prompt,
        personalization=(
            before.personalization if said.personalization is UNSET else said.personalization
        ),
        library=before.library if said.library is UNSET else said.library,
        prototypes=before.prototypes if said.prototypes is UNSET else said.prototypes,
    )
