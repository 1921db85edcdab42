"""`lembas term`, where no hub runs and there is no terminal to show one in."""

from tests.support.command_line import CommandLine


def test_without_a_hub_nothing_is_listed_and_nothing_is_started(run: CommandLine) -> None:
    assert run.lembas("term", "list").out == "no terminal is open; `lembas term open` opens one\n"
    assert run.lembas("term", "list", "--json").value == {"terminals": []}
    assert not run.paths.run.exists()


def test_without_a_hub_nothing_can_be_attached(run: CommandLine) -> None:
    done = run.lembas("term", "attach", "term_x")
    assert (done.code, done.err) == (
        1,
        "no terminal 'term_x' is open; `lembas term list` names those that are\n",
    )


def test_a_directory_that_is_none_and_keys_that_are_none_are_said(run: CommandLine) -> None:
    nowhere = run.lembas("term", "open", "--cwd", "/nowhere")
    assert (nowhere.code, "is not a directory" in nowhere.err) == (1, True)
    keys = run.lembas("term", "open", "--detach-keys", "hyper-x")
    assert (keys.code, "'hyper-x' is no key" in keys.err) == (2, True)
