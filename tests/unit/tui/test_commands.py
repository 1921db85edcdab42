"""The person's own commands."""

from lembasd.protocol.lembas import AvailableCommand, CommandInput
from lembasd.tui.core import commands, help_text


def test_own_commands_and_the_sessions_stand_together_by_name() -> None:
    session = [
        AvailableCommand("review", "looks\nat it", CommandInput("<branch>")),
        AvailableCommand("plan", "plans"),
        AvailableCommand("quit", "somebody's"),
    ]
    found = {one.name: one for one in commands.all_of(session)}
    assert found["review"] == commands.Command("review", "looks at it", "<branch>")
    assert found["plan"] == commands.Command("plan", "plans")
    assert found["quit"].own
    assert list(found) == sorted(found)


def test_a_line_is_an_own_command_only_by_its_whole_name() -> None:
    assert commands.own(" /model  fast one ") == ("model", "fast one")
    assert commands.own("/quit") == ("quit", "")
    assert commands.own("/modell") is None
    assert commands.own("/review") is None
    assert commands.own("model") is None


def test_names_that_begin_with_what_is_typed_come_first() -> None:
    named = [commands.Command(name, "") for name in ("demo", "mode", "model", "quit")]
    assert [one.name for one in commands.matching(named, "mo")] == ["mode", "model", "demo"]


def test_the_help_names_each_own_command() -> None:
    assert all(f"/{one.name} " in help_text.text() for one in commands.OWN)
