"""The harness data: complete, filled, and the same at every start."""

import subprocess
import sys
from typing import Any

import pytest

from lembasd.engine.native.arguments import problem
from lembasd.harness import VERSION
from lembasd.harness.loader import LOOP, MODES, SYSTEM_PROMPT, TOOLS, function
from lembasd.harness.tool import fill
from lembasd.store.records import Call


def test_the_data_is_of_its_version() -> None:
    assert VERSION == "3.5.0"


def test_the_tools_are_those_of_this_version() -> None:
    assert {name: tool.risk for name, tool in TOOLS.items()} == {
        "apply_patch": "write",
        "bash": "execute",
        "edit": "write",
        "glob": "read",
        "grep": "read",
        "list": "read",
        "multiedit": "write",
        "read": "read",
        "recall": "read",
        "settings": "interact",
        "web_fetch": "read",
        "write": "write",
    }


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_reaches_a_model_filled(name: str) -> None:
    sent = function(TOOLS[name])["function"]
    assert "{{" not in str(sent)
    assert sent["name"] == name
    assert set(sent["parameters"].get("required", [])) <= set(sent["parameters"]["properties"])


def test_only_tools_that_say_so_are_asked_for_a_purpose() -> None:
    asked = {
        name
        for name in TOOLS
        if "purpose" in function(TOOLS[name])["function"]["parameters"]["properties"]
    }
    assert asked == {name for name, tool in TOOLS.items() if tool.purpose}


def test_bash_says_how_long_a_command_may_run() -> None:
    description = function(TOOLS["bash"])["function"]["description"]
    assert (LOOP.bash.default_timeout, LOOP.bash.max_timeout) == (120, 600)
    assert "120 seconds" in description
    assert "600" in description


def test_every_mode_decides_on_every_risk() -> None:
    risks = {"read", "interact", "write", "execute"}
    assert {mode: set(rules) for mode, rules in MODES.items()} == dict.fromkeys(
        ("plan", "manual", "edit", "auto"), risks
    )


def test_the_system_prompt_has_a_value_for_each_variable() -> None:
    place = {"project": "site", "platform": "Linux", "instructions": ""}
    text = fill(SYSTEM_PROMPT, {**place, "context": "results", "mode": "auto"})
    assert "- Project: site\n" in text
    assert "{{" not in text


def test_a_bullet_of_an_empty_variable_disappears() -> None:
    assert fill("- {{a}}\n- {{b}}\n", {"a": "", "b": "x"}) == "- x\n"


def test_a_variable_without_a_value_is_a_fault() -> None:
    with pytest.raises(KeyError):
        fill("{{nobody}}", {})


def test_warming_up_leaves_no_thread() -> None:
    code = (
        "import threading; from lembasd.engine import native; native.warm(); "
        "import lembasd.engine.native.engine; assert threading.active_count() == 1"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=20)


@pytest.mark.parametrize(
    ("name", "args", "says"),
    [
        ("fly", {}, f"There is no tool 'fly'. There are: {', '.join(sorted(TOOLS))}."),
        ("read", None, "The arguments are not a JSON object; send them again."),
        ("read", {}, "read needs 'path'."),
        ("multiedit", {"path": "a", "edits": {}}, "multiedit: 'edits' must be of type array."),
        (
            "multiedit",
            {"path": "a", "edits": ["x"]},
            "multiedit: 'edits[0]' must be of type object.",
        ),
        (
            "multiedit",
            {"path": "a", "edits": [{"old": "a", "new": "b"}, {"old": "a"}]},
            "multiedit: edits[1] needs 'new'.",
        ),
        (
            "multiedit",
            {"path": "a", "edits": [{"old": "a", "new": 1}]},
            "multiedit: 'edits[0].new' must be of type string.",
        ),
        ("read", {"path": 3}, "read: 'path' must be of type string."),
        ("read", {"path": "a", "offset": True}, "read: 'offset' must be of type integer."),
        ("edit", {"path": "a", "old": "b", "new": None}, "edit: 'new' must be of type string."),
        ("read", {"path": "a\0"}, "read: 'path' must be a text without NUL, and not empty."),
        ("bash", {"command": ""}, "bash: 'command' must be a text without NUL, and not empty."),
        ("read", {"path": "a", "offset": None, "more": 1}, None),
        ("list", {}, None),
        ("edit", {"path": "a", "old": "b", "new": "c", "replace_all": True}, None),
    ],
)
def test_arguments_are_judged_by_the_schema(
    name: str, args: dict[str, Any] | None, says: str | None
) -> None:
    call = Call(id="call_1", server_id="a", name=name, arguments="", args=args)
    assert problem(call) == says
