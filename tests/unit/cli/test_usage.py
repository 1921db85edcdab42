"""What each owner of processes uses."""

from lembasd.cli.core.usage import Owner, Seen, Usage, tree, usage


def seen(parent: int, cpu_s: float = 0.0, memory: int = 10, started: float = 1.0) -> Seen:
    return Seen(started=started, parent=parent, cpu_s=cpu_s, memory_bytes=memory)


def test_a_tree_is_everything_below_however_deep() -> None:
    assert tree(1, {2: 1, 3: 2, 4: 1, 9: 8}) == [1, 2, 4, 3]


def test_a_circle_of_parents_ends() -> None:
    assert tree(1, {2: 1, 1: 2}) == [1, 2]


def test_a_session_is_counted_with_all_it_started_and_its_own_word_of_its_memory() -> None:
    before = {5: seen(1, 1.0), 6: seen(5, 2.0)}
    now = {5: seen(1, 1.5, memory=100), 6: seen(5, 3.0, memory=7), 9: seen(1, 50.0)}
    owner = Owner("session", "ses_1", 5, "working", "Tidy", memory_bytes=40)
    assert usage([owner], before, now, 2.0) == [
        Usage("session", "ses_1", 5, "working", "Tidy", 2, 75.0, 47)
    ]


def test_a_process_that_came_since_counts_whole_and_a_number_used_again_too() -> None:
    before = {5: seen(1, 100.0, started=1.0)}
    now = {5: seen(1, 0.5, started=2.0), 6: seen(5, 0.5)}
    (found,) = usage([Owner("terminal", "term_1", 5)], before, now, 1.0)
    assert found.cpu_percent == 100.0


def test_a_helper_is_counted_without_the_sessions_below_it() -> None:
    now = {5: seen(1, memory=3), 6: seen(5, memory=9)}
    (found,) = usage([Owner("zygote", "worker", 5, alone=True)], {}, now, 0.0)
    assert (found.processes, found.memory_bytes, found.cpu_percent) == (1, 3, 0.0)


def test_the_busiest_comes_first_and_one_that_is_gone_not_at_all() -> None:
    now = {1: seen(0, memory=5), 2: seen(0, 1.0), 3: seen(0, memory=6)}
    owners = [Owner("session", str(pid), pid) for pid in (1, 2, 3, 4)]
    assert [one.pid for one in usage(owners, {}, now, 1.0)] == [2, 3, 1]
