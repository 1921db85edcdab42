"""Calls that are made again and again with the same result."""

from lembasd.engine.native.core.repeats import Repeats, key_of


def test_calls_ask_for_the_same_whatever_they_say_of_why() -> None:
    one = key_of("bash", {"command": "ls", "purpose": "to see", "description": "list"})
    assert one == key_of("bash", {"purpose": "again", "command": "ls"})
    assert one != key_of("bash", {"command": "ls -a"})
    assert one != key_of("read", {"command": "ls"})
    assert key_of("a", {"x": 1, "y": 2}) == key_of("a", {"y": 2, "x": 1})


def test_every_argument_of_a_servers_tool_counts() -> None:
    one, other = ({"title": "t", "description": text} for text in ("this", "that"))
    assert key_of("mcp__issues__create", one) != key_of("mcp__issues__create", other)


def test_only_the_same_result_in_a_row_counts() -> None:
    repeats = Repeats(3)
    assert [repeats.ended("k", text) for text in ("a", "a", "b", "b")] == [1, 2, 1, 2]
    assert repeats.ended("other", "b") == 1


def test_a_call_that_would_have_its_result_too_often_is_refused() -> None:
    repeats = Repeats(3)
    assert not repeats.is_refused("k")
    repeats.ended("k", "a")
    assert not repeats.is_refused("k")
    repeats.ended("k", "a")
    assert repeats.is_refused("k")
    assert not repeats.is_refused("other")
