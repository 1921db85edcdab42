"""What the client holds of a session, as its model reads it."""

from lembasd.engine.native.core import client_context
from lembasd.engine.native.core.client_context import changes, digests, pieces
from lembasd.harness.loader import LOOP, PERSONALITIES
from lembasd.protocol.context import (
    Base,
    Context,
    Library,
    Personalization,
    Prototypes,
    SaidContext,
    joined,
)

NONE = Personalization()
ALL = Context(
    system_prompt=" Speak of bread.\n",
    personalization=Personalization("frank", "unused", "Call me Sam."),
    library=Library([Base("b1", "Re\ncipes"), Base("b2", "")]),
    prototypes=Prototypes(offered=True, sources="Load nothing."),
)


def test_nothing_said_is_nothing_added() -> None:
    assert pieces(Context(), NONE, "Moria") == {}


def test_every_piece_has_its_place_and_the_instances_is_last() -> None:
    found = pieces(ALL, Personalization("brief"), " Mo\nria")
    assert list(found) == [
        "personality",
        "instructions",
        "library",
        "prototypes",
        "system_prompt",
    ]
    assert found["personality"] == f"# How you speak\n\n{PERSONALITIES['frank']}"
    assert found["instructions"] == "# What the person wants of you\n\nCall me Sam."
    assert "looks in: Re cipes, b2." in found["library"]
    assert "- Load nothing.\n" in found["prototypes"]
    assert found["system_prompt"] == "## Instructions from Mo ria\n\nSpeak of bread."


def test_there_are_six_presets() -> None:
    assert sorted(PERSONALITIES) == ["brief", "formal", "frank", "friendly", "playful", "teacher"]


def test_the_devices_own_holds_where_the_client_has_none() -> None:
    own = Personalization(personality_custom="Whisper.", instructions="Call me Pip.")
    assert pieces(Context(), own, "") == {
        "personality": "# How you speak\n\nWhisper.",
        "instructions": "# What the person wants of you\n\nCall me Pip.",
    }
    assert pieces(Context(personalization=NONE), own, "") == {}


def test_a_preset_that_is_not_known_is_none() -> None:
    strange = Personalization("strange", "Whisper.")
    assert pieces(Context(personalization=strange), NONE, "") == {}
    custom = Personalization(client_context.CUSTOM, "Whisper.")
    assert "Whisper." in pieces(Context(personalization=custom), NONE, "")["personality"]


def test_no_bases_are_the_whole_library_and_a_page_that_is_not_offered_is_not_named() -> None:
    context = Context(library=Library(), prototypes=Prototypes(offered=False, sources="x"))
    found = pieces(context, NONE, "")
    assert list(found) == ["library"]
    assert "looks in: all that the account has." in found["library"]


def test_a_bullet_without_its_sentence_is_left_out() -> None:
    found = pieces(Context(prototypes=Prototypes(offered=True)), NONE, "")
    assert "\n- Keep it small" in found["prototypes"]
    assert "- \n" not in found["prototypes"]


def test_braces_in_a_persons_text_are_text() -> None:
    context = Context(
        system_prompt="{{platform}}", library=Library([Base("b", "{{knowledge_scope}}")])
    )
    found = pieces(context, NONE, "")
    assert found["system_prompt"].endswith("{{platform}}")
    assert "{{knowledge_scope}}" in found["library"]
    note = changes({}, found, LOOP.notes)
    assert "{{platform}}" in note[-1]


def test_a_session_is_told_of_what_changed_and_what_is_gone_and_of_nothing_else() -> None:
    before = digests(pieces(ALL, NONE, "Moria"))
    assert changes(before, pieces(ALL, NONE, "Moria"), LOOP.notes) == []
    said = changes(before, pieces(Context(system_prompt="Tea."), NONE, "Moria"), LOOP.notes)
    changed = LOOP.notes["context_changed"]
    assert said == [
        changed.replace("{{text}}", "## Instructions from Moria\n\nTea."),
        "What was said of how you speak no longer holds.",
        "What the person wanted of you no longer holds.",
        "The library of this session is not to be used any more.",
        "Prototypes are no longer wanted.",
    ]
    (gone,) = changes({"system_prompt": "x"}, {}, LOOP.notes)
    assert gone == "The instructions from the instance no longer hold."


def test_the_newer_is_in_the_place_of_the_older_and_what_is_left_out_stays() -> None:
    assert joined(ALL, SaidContext()) == ALL
    said = SaidContext("", None, Library(), Prototypes(offered=False))
    assert joined(ALL, said) == Context("", None, Library(), Prototypes(offered=False))
