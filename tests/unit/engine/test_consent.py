"""What tools themselves say on asking, and what the model may set."""

from typing import Any

import pytest

from lembasd.engine.native.core import wishes
from lembasd.engine.native.core.arity import Grant
from lembasd.engine.native.core.consent import Consent, of
from lembasd.harness.loader import TOOLS
from lembasd.harness.tool import Tool
from lembasd.protocol.control import Mode


@pytest.mark.parametrize(
    ("name", "args", "consent"),
    [
        ("bash", {"command": "ls"}, Consent()),
        ("write", {"path": "a"}, Consent()),
        ("settings", {"key": "title"}, Consent()),
        ("settings", {"key": "mode"}, Consent(confirm=True)),
        (
            "web_fetch",
            {"url": "https://A.example/b"},
            Consent(Grant("web_fetch", host="a.example"), "it asks a.example on the web"),
        ),
    ],
)
def test_how_a_call_is_asked_for(name: str, args: dict[str, Any], consent: Consent) -> None:
    assert of(TOOLS[name], args) == consent


def test_a_tool_that_is_always_confirmed_is_never_remembered() -> None:
    tool = Tool("merge", "cli", "agent", "execute", False, "tool", False, "", {}, confirm="always")
    assert of(tool, {}) == Consent(confirm=True)


def test_an_address_that_is_none_is_not_asked_for() -> None:
    with pytest.raises(ValueError, match="only http"):
        of(TOOLS["web_fetch"], {"url": "ftp://a"})


@pytest.mark.parametrize(
    ("key", "value", "made"),
    [
        ("mode", "plan", "plan"),
        ("mode", "manual", "manual"),
        ("effort", "high", "high"),
        ("title", "  a   title ", "a title"),
        ("title", "a\x1b[2J\u202etitle", "a [2J title"),
        ("verbosity", "low", "low"),
    ],
)
def test_a_setting_is_read(key: str, value: str, made: str) -> None:
    assert wishes.read({"key": key, "value": value}, "manual", None) == (key, made)


@pytest.mark.parametrize(
    ("key", "value", "widest", "says"),
    [
        ("colour", "red", "auto", "there are mode, effort, title, verbosity"),
        (None, "red", "auto", "is no setting"),
        ("mode", "wild", "auto", "choose one of plan, manual, edit, auto"),
        ("mode", "auto", "edit", "The person set the mode to edit"),
        ("mode", "unrestricted", "edit", "The person set the mode to edit"),
        ("effort", "extreme", "auto", "choose one of off, on"),
        ("title", " ", "auto", "1 to 200 characters"),
        ("title", "x" * 201, "auto", "1 to 200 characters"),
        ("verbosity", "silent", "auto", "choose one of low, medium, high"),
    ],
)
def test_what_cannot_be_set_is_told(key: Any, value: str, widest: Mode, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        wishes.read({"key": key, "value": value}, widest, ["off", "on"])


def test_the_model_is_told_what_is_set() -> None:
    assert wishes.told("mode", "plan") == "mode is now plan."
    assert wishes.told("verbosity", "low") == (
        "verbosity is now low. From now on answer in a few words."
    )
