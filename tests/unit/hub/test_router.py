"""What the router does with each message and each turn of a process' life."""

import msgspec
import pytest

from lembasd.hub.core import effects, inputs
from lembasd.hub.core.attachments import Audience
from lembasd.hub.core.lives import (
    ADOPTION_WAIT_S,
    MAX_WAITING,
    START_TIMEOUT_S,
)
from lembasd.hub.core.requests import MAX_KEPT_BYTES
from lembasd.hub.core.router import MAX_CLIENT_REQUESTS, MAX_LOCAL_TERMINALS
from lembasd.hub.core.table import UTILITY
from lembasd.protocol import envelope as kinds
from lembasd.protocol import jsonrpc
from lembasd.protocol.control import (
    Account,
    Attached,
    CardInfo,
    Remote,
    SessionState,
    Settings,
    TerminalState,
)
from lembasd.protocol.spawn import EXIT_UNKNOWN
from tests.support.routing import (
    LEMBAS,
    OTHER,
    SESSION,
    TERMINAL,
    Routing,
    answers,
    frames,
    passed_on,
    said,
)

PROMPT = {"sessionId": SESSION, "prompt": []}
NAMED = {**PROMPT, "_meta": {"lembas": {"turnId": "t1"}}}
WORKER_ENDED = (-32603, "worker_ended")
BUSY = (-32603, "busy")


@pytest.fixture
def hub() -> Routing:
    return Routing()


def open_session(hub: Routing, client: int, session: str = SESSION) -> None:
    """A session with a connected worker, made by this client."""
    hub.ask(client, 900, "session/new", {"cwd": "/p"}, fresh=session)
    (new,) = passed_on(hub.worker(session, stored=False))
    hub.answer(new)
    hub.state(session, busy=False, given=not hub.router.table.clients[client].local)


# ── before anything ─────────────────────────────────────────────────────────────────────────────


def test_a_request_before_initialize_is_refused(hub: Routing) -> None:
    hub.feed(inputs.ClientJoined(1, local=False))
    assert answers(hub.ask(1, 5, "session/prompt", PROMPT)) == [(1, 5, (-32600, None))]
    assert hub.tell(1, "session/cancel", {"sessionId": SESSION}) == []


def test_the_hubs_own_methods_need_no_initialize(hub: Routing) -> None:
    hub.feed(inputs.ClientJoined(1, local=True))
    assert hub.ask(1, 5, "_hub/status", {}) == [effects.GiveStatus(1, b"5")]
    assert hub.ask(1, 6, "_hub/stop", {}) == [effects.StopHub(1, b"6")]
    assert hub.ask(1, 7, "_hub/reload", {}) == [effects.ReloadHub(1, b"7")]
    # neither is a request that somebody is still to answer
    assert hub.router.table.quiet


def test_an_unknown_method_is_answered_and_an_unknown_notification_is_not(hub: Routing) -> None:
    client = hub.client(1)
    assert answers(hub.ask(client, 5, "session/load", {})) == [(1, 5, (-32601, None))]
    assert hub.tell(client, "session/load", {}) == []


def test_the_hubs_own_methods_do_not_exist_on_the_link(hub: Routing) -> None:
    link = hub.client(1, local=False)
    for method in ("_hub/status", "_hub/attach", "_hub/stop", "_hub/reload"):
        assert answers(hub.ask(link, 5, method, {})) == [(1, 5, (-32601, None))]


def test_initialize_that_cannot_be_read_is_refused(hub: Routing) -> None:
    hub.feed(inputs.ClientJoined(1, local=True))
    out = hub.ask(1, 5, "initialize", {"clientCapabilities": 7})
    assert answers(out) == [(1, 5, (-32602, None))]


def test_what_must_be_a_request_is_ignored_as_a_notification(hub: Routing) -> None:
    assert hub.tell(hub.client(1), "session/new", {"cwd": "/p"}) == []


def test_a_client_nobody_knows_says_nothing(hub: Routing) -> None:
    assert hub.ask(9, 1, "_hub/status", {}) == []
    assert hub.feed(inputs.ClientLeft(9)) == []


def test_a_client_with_too_many_open_requests_is_refused(hub: Routing) -> None:
    client = hub.client(1)
    open_session(hub, client)
    for number in range(MAX_CLIENT_REQUESTS):
        hub.ask(client, number, "session/prompt", PROMPT)
    assert answers(hub.ask(client, 7777, "session/prompt", PROMPT)) == [(1, 7777, BUSY)]


# ── a new session ───────────────────────────────────────────────────────────────────────────────


def test_a_new_session_starts_a_worker_that_gets_settings_client_and_request_in_order(
    hub: Routing,
) -> None:
    client = hub.client(1)
    out = hub.ask(client, 5, "session/new", {"cwd": "/p"}, fresh=SESSION)
    assert out == [
        effects.Start("worker", SESSION, new=True),
        effects.SetTimer(SESSION, START_TIMEOUT_S),
    ]
    out = hub.worker(stored=False)
    assert out[0] == effects.CancelTimer(SESSION)
    assert frames(out) == [
        (SESSION, kinds.SETTINGS),
        (SESSION, kinds.ATTACHED),
        (SESSION, kinds.RPC),
    ]
    (passed,) = passed_on(out)
    assert (passed.frame.client, passed.frame.channel) == (1, SESSION)
    assert answers(hub.answer(passed, value={"sessionId": SESSION})) == [
        (1, 5, {"sessionId": SESSION})
    ]
    assert hub.router.audience(SESSION).everyone == (1,)


def test_a_refused_new_session_is_forgotten_with_its_worker(hub: Routing) -> None:
    client = hub.client(1)
    hub.ask(client, 5, "session/new", {"cwd": "/nowhere"}, fresh=SESSION)
    (passed,) = passed_on(hub.worker(stored=False))
    hub.answer(passed, failed=True)
    assert hub.router.audience(SESSION).everyone == ()
    hub.feed(inputs.ProcessEnded(SESSION, 0))
    assert hub.router.table.channels == {}


def test_a_new_session_whose_worker_dies_at_once_is_answered(hub: Routing) -> None:
    hub.ask(hub.client(1), 5, "session/new", {"cwd": "/p"}, fresh=SESSION)
    out = hub.feed(inputs.ProcessEnded(SESSION, -9))
    assert answers(out) == [(1, 5, WORKER_ENDED)]


def test_a_new_session_whose_client_left_is_not_made(hub: Routing) -> None:
    client = hub.client(1)
    hub.ask(client, 5, "session/new", {"cwd": "/p"}, fresh=SESSION)
    hub.feed(inputs.ClientLeft(client))
    assert frames(hub.worker(stored=False)) == [(SESSION, kinds.SETTINGS), (SESSION, kinds.STOP)]


def test_an_answer_that_comes_after_its_worker_was_forgotten_still_goes_out(hub: Routing) -> None:
    client = hub.client(1)
    hub.ask(client, 5, "session/new", {"cwd": "/p"}, fresh=SESSION)
    (passed,) = passed_on(hub.worker(stored=False))
    del hub.router.table.channels[SESSION]
    assert answers(hub.answer(passed)) == [(1, 5, "done")]


def test_a_process_that_cannot_be_started_is_a_retryable_error(hub: Routing) -> None:
    hub.ask(hub.client(1), 5, "session/new", {"cwd": "/p"}, fresh=SESSION)
    out = hub.feed(inputs.StartFailed(SESSION, "no memory"))
    assert answers(out) == [(1, 5, (-32603, "start_failed"))]
    assert hub.feed(inputs.StartFailed(SESSION, "again")) == []


def test_a_process_that_says_no_hello_in_time_is_killed_and_its_request_answered(
    hub: Routing,
) -> None:
    hub.ask(hub.client(1), 5, "session/new", {"cwd": "/p"}, fresh=SESSION)
    out = hub.feed(inputs.TimerFired(SESSION))
    assert effects.Kill(SESSION) in out
    assert answers(out) == [(1, 5, (-32603, "start_failed"))]
    assert hub.feed(inputs.TimerFired(SESSION)) == []


# ── a session that is open ──────────────────────────────────────────────────────────────────────


def test_a_request_goes_on_untouched_and_is_answered_once(hub: Routing) -> None:
    client = hub.client(1)
    open_session(hub, client)
    text = (
        b'{"jsonrpc": "2.0", "id": 1e2, "method": "session/prompt", "params": {"sessionId": "%s"}}'
    )
    text %= SESSION.encode()
    (passed,) = passed_on(hub.feed(inputs.ClientSaid(client, jsonrpc.peek(text))))
    assert passed.frame.payload is text
    assert len(answers(hub.answer(passed))) == 1
    assert hub.answer(passed) == []


def test_the_answer_for_another_client_answers_nobody(hub: Routing) -> None:
    client = hub.client(1)
    open_session(hub, client)
    (passed,) = passed_on(hub.ask(client, 5, "session/prompt", PROMPT))
    assert hub.feed(inputs.Answered(passed.frame.request, 2, b"{}", failed=False)) == []


def test_cancel_reaches_an_open_session_and_is_no_matter_for_a_closed_one(hub: Routing) -> None:
    client = hub.client(1)
    open_session(hub, client)
    (passed,) = passed_on(hub.tell(client, "session/cancel", {"sessionId": SESSION}))
    assert passed.frame.request == 0
    assert hub.tell(client, "session/cancel", {"sessionId": OTHER}) == []
    assert answers(hub.ask(client, 5, "session/cancel", {"sessionId": OTHER})) == [(1, 5, {})]


def test_cancel_follows_a_prompt_that_waits_for_its_worker(hub: Routing) -> None:
    client = hub.client(1)
    hub.ask(client, 5, "session/prompt", PROMPT)
    hub.feed(inputs.Probed(SESSION, exists=True, held=False))
    assert hub.tell(client, "session/cancel", {"sessionId": SESSION}) == []
    methods = [jsonrpc.peek(one.frame.payload).method for one in passed_on(hub.worker())]
    assert methods == ["session/prompt", "session/cancel"]


def test_a_request_without_a_session_is_refused(hub: Routing) -> None:
    client = hub.client(1)
    assert answers(hub.ask(client, 5, "session/prompt", {})) == [(1, 5, (-32602, None))]
    assert answers(hub.ask(client, 6, "session/prompt", {"sessionId": "../x"})) == [
        (1, 6, (-32602, None))
    ]
    assert hub.tell(client, "session/cancel", {"sessionId": "../x"}) == []


def test_what_a_process_owed_is_answered_when_its_connection_is_lost(hub: Routing) -> None:
    client = hub.client(1)
    open_session(hub, client)
    (passed,) = passed_on(hub.ask(client, 5, "session/prompt", PROMPT))
    out = hub.feed(inputs.ConnectionLost(SESSION))
    assert answers(out) == [(1, 5, WORKER_ENDED)]
    assert effects.SetTimer(SESSION, ADOPTION_WAIT_S) in out
    assert hub.answer(passed) == []
    assert hub.feed(inputs.ConnectionLost(OTHER)) == []


def test_a_prompt_that_names_its_turn_is_given_to_the_next_process(hub: Routing) -> None:
    client = hub.client(1)
    open_session(hub, client)
    (first,) = passed_on(hub.ask(client, 5, "session/prompt", NAMED))
    hub.ask(client, 6, "session/prompt", PROMPT)
    # nobody could tell whether a turn without a name is another one
    assert answers(hub.feed(inputs.ConnectionLost(SESSION))) == [(1, 6, WORKER_ENDED)]
    assert effects.Probe(SESSION) in hub.feed(inputs.ProcessEnded(SESSION, -9))
    hub.feed(inputs.Probed(SESSION, exists=True, held=False))
    (again,) = passed_on(hub.worker())
    assert again == first
    assert answers(hub.answer(again)) == [(1, 5, "done")]
    assert answers(hub.answer(first)) == []


def test_a_process_that_lost_its_connection_is_given_its_prompts_again(hub: Routing) -> None:
    client = hub.client(1)
    open_session(hub, client)
    (first,) = passed_on(hub.ask(client, 5, "session/prompt", NAMED))
    assert answers(hub.feed(inputs.ConnectionLost(SESSION))) == []
    assert passed_on(hub.worker()) == [first]


def test_a_prompt_that_ends_process_after_process_opens_no_session_that_was_closed_for_it(
    hub: Routing,
) -> None:
    client = hub.client(1)
    open_session(hub, client)
    hub.ask(client, 5, "session/prompt", NAMED)
    for _ in range(2):
        hub.feed(inputs.ConnectionLost(SESSION))
        hub.feed(inputs.ProcessEnded(SESSION, -9))
        hub.feed(inputs.Probed(SESSION, exists=True, held=False))
        assert len(passed_on(hub.worker())) == 1
    hub.feed(inputs.ConnectionLost(SESSION))
    ((_, answer),) = said(hub.feed(inputs.ProcessEnded(SESSION, -9)))
    assert answer["error"]["data"] == {"reason": "worker_ended", "retryable": True}


def test_prompts_that_are_too_long_to_keep_are_answered_when_their_process_ends(
    hub: Routing,
) -> None:
    client = hub.client(1)
    open_session(hub, client)
    long = {**NAMED, "prompt": [{"type": "text", "text": "x" * (MAX_KEPT_BYTES // 2)}]}
    for number in (5, 6):
        hub.ask(client, number, "session/prompt", long)
    assert answers(hub.feed(inputs.ConnectionLost(SESSION))) == [(1, 6, WORKER_ENDED)]
    # what is answered, or nobody's any more, takes no room
    (again,) = passed_on(hub.worker())
    hub.answer(again)
    hub.ask(client, 7, "session/prompt", long)
    hub.feed(inputs.ClientLeft(client))
    client = hub.client(2)
    hub.ask(client, 8, "session/prompt", long)
    assert answers(hub.feed(inputs.ConnectionLost(SESSION))) == []


def test_a_worker_that_comes_back_has_its_clients_again(hub: Routing) -> None:
    client = hub.client(1)
    open_session(hub, client)
    hub.feed(inputs.ConnectionLost(SESSION))
    hub.ask(client, 5, "session/prompt", PROMPT)
    out = hub.worker()
    assert out[0] == effects.Adopted(SESSION)
    assert [kind for _channel, kind in frames(out)] == [
        kinds.SETTINGS,
        kinds.ATTACHED,
        kinds.RPC,
    ]


def test_a_request_after_a_crash_opens_the_session_again(hub: Routing) -> None:
    client = hub.client(1)
    open_session(hub, client)
    hub.feed(inputs.ConnectionLost(SESSION))
    hub.ask(client, 5, "session/prompt", PROMPT)
    out = hub.feed(inputs.ProcessEnded(SESSION, -9))
    assert effects.Probe(SESSION) in out
    out = hub.feed(inputs.Probed(SESSION, exists=True, held=False))
    assert effects.Start("worker", SESSION) in out
    assert len(passed_on(hub.worker())) == 1


def test_who_follows_a_turn_is_told_when_its_worker_dies(hub: Routing) -> None:
    client = hub.client(1)
    open_session(hub, client)
    hub.state(busy=True)
    assert hub.router.table.busy
    ((told, message),) = said(hub.feed(inputs.ProcessEnded(SESSION, -9)))
    assert told == client
    assert message["params"]["event"] == {
        "type": "error",
        "message": "the process that worked on this ended; send it again",
        "reason": "worker_ended",
        "retryable": True,
    }


def test_an_idle_process_may_end_when_nobody_here_looks_at_it(hub: Routing) -> None:
    link = hub.client(1, local=False)
    open_session(hub, link)
    (passed,) = passed_on(hub.ask(link, 5, "session/set_mode", {"sessionId": SESSION}))
    assert hub.feed(inputs.LeavingSaid(SESSION)) == []
    hub.answer(passed)
    person = hub.client(2)
    attach(hub, person)
    assert hub.feed(inputs.LeavingSaid(SESSION)) == []
    hub.feed(inputs.ClientLeft(person))
    assert frames(hub.feed(inputs.LeavingSaid(SESSION))) == [(SESSION, kinds.LEAVE)]
    assert hub.feed(inputs.LeavingSaid(OTHER)) == []


def test_another_version_takes_the_place_of_a_process_under_a_persons_eyes(hub: Routing) -> None:
    person = hub.client(1)
    open_session(hub, person)
    (passed,) = passed_on(hub.ask(person, 5, "session/set_mode", {"sessionId": SESSION}))
    superseded = inputs.LeavingSaid(SESSION, superseded=True)
    assert hub.feed(superseded) == []
    hub.answer(passed)
    assert frames(hub.feed(superseded)) == [(SESSION, kinds.LEAVE)]
    hub.feed(inputs.ConnectionLost(SESSION))
    out = hub.feed(inputs.ProcessEnded(SESSION, 0))
    assert [one for one in out if isinstance(one, effects.Start)] == [
        effects.Start("worker", SESSION)
    ]
    attached = [frame for frame in frames(hub.worker()) if frame[1] == kinds.ATTACHED]
    assert attached == [(SESSION, kinds.ATTACHED)]


@pytest.mark.parametrize("waits", [True, False])
def test_one_that_is_not_looked_at_or_asked_for_something_opens_as_any_other(
    hub: Routing, waits: bool
) -> None:
    client = hub.client(1, local=waits)
    open_session(hub, client)
    hub.feed(inputs.LeavingSaid(SESSION, superseded=True))
    if waits:
        assert passed_on(hub.ask(client, 5, "session/prompt", PROMPT)) == []
    hub.feed(inputs.ConnectionLost(SESSION))
    out = hub.feed(inputs.ProcessEnded(SESSION, 0))
    assert [one for one in out if isinstance(one, effects.Start)] == []
    assert (effects.Probe(SESSION) in out) == waits


def test_a_hub_is_quiet_while_nothing_is_started_or_about_to_be_answered(hub: Routing) -> None:
    table = hub.router.table
    client = hub.client(1)
    hub.ask(client, 900, "session/new", {"cwd": "/p"}, fresh=SESSION)
    assert not table.quiet
    (new,) = passed_on(hub.worker(SESSION, stored=False))
    assert not table.quiet
    hub.answer(new)
    assert table.quiet
    # a prompt is open as long as its turn
    hub.ask(client, 901, "session/prompt", PROMPT)
    assert table.quiet
    hub.ask(client, 902, "session/set_mode", {"sessionId": SESSION})
    assert not table.quiet


def test_a_request_for_a_worker_that_leaves_goes_to_the_next_one(hub: Routing) -> None:
    link = hub.client(1, local=False)
    open_session(hub, link)
    hub.feed(inputs.LeavingSaid(SESSION))
    assert passed_on(hub.ask(link, 5, "session/prompt", PROMPT)) == []
    assert answers(hub.feed(inputs.ConnectionLost(SESSION))) == []
    hub.feed(inputs.ProcessEnded(SESSION, 0))
    hub.feed(inputs.Probed(SESSION, exists=True, held=False))
    assert len(passed_on(hub.worker())) == 1


# ── a session that is not open ──────────────────────────────────────────────────────────────────


def test_an_unknown_session_is_an_error_but_for_status(hub: Routing) -> None:
    client = hub.client(1)
    hub.ask(client, 5, "session/prompt", PROMPT)
    hub.ask(client, 6, "_lembas/session/status", {"sessionId": SESSION})
    out = hub.feed(inputs.Probed(SESSION, exists=False, held=False))
    gone = {
        "sessionId": SESSION,
        "exists": False,
        "held": "none",
        "busy": False,
        "title": "",
        "queued": [],
    }
    assert answers(out) == [(1, 5, (-32602, None)), (1, 6, gone)]


def test_nobody_is_answered_for_a_client_that_left(hub: Routing) -> None:
    client, other = hub.client(1), hub.client(2)
    hub.ask(client, 5, "session/prompt", PROMPT)
    hub.ask(other, 6, "session/prompt", PROMPT)
    hub.feed(inputs.ClientLeft(client))
    assert len(hub.router.table.requests) == 1
    out = hub.feed(inputs.Probed(SESSION, exists=False, held=False))
    assert answers(out) == [(2, 6, (-32602, None))]


def test_a_start_that_fails_is_told_to_those_who_are_still_there(hub: Routing) -> None:
    client, other = hub.client(1), hub.client(2)
    hub.ask(client, 5, "session/prompt", PROMPT)
    hub.ask(other, 6, "session/prompt", PROMPT)
    hub.feed(inputs.Probed(SESSION, exists=True, held=False))
    hub.feed(inputs.ClientLeft(client))
    out = hub.feed(inputs.StartFailed(SESSION, "no memory"))
    assert answers(out) == [(2, 6, (-32603, "start_failed"))]


def test_a_prompt_that_waited_runs_though_its_client_left(hub: Routing) -> None:
    client = hub.client(1)
    hub.ask(client, 5, "session/prompt", PROMPT)
    hub.ask(client, 6, "session/set_mode", {"sessionId": SESSION, "modeId": "edit"})
    hub.ask(client, 7, "_hub/attach", {"sessionId": SESSION})
    hub.feed(inputs.Probed(SESSION, exists=True, held=False))
    hub.feed(inputs.ClientLeft(client))
    out = hub.worker()
    assert [jsonrpc.peek(one.frame.payload).method for one in passed_on(out)] == ["session/prompt"]
    assert answers(out) == []


def test_a_session_in_other_hands_is_waited_for_and_then_a_retryable_error(hub: Routing) -> None:
    client = hub.client(1)
    hub.ask(client, 5, "session/prompt", PROMPT)
    out = hub.feed(inputs.Probed(SESSION, exists=True, held=True))
    assert out == [effects.SetTimer(SESSION, ADOPTION_WAIT_S)]
    assert answers(hub.feed(inputs.TimerFired(SESSION))) == [(1, 5, BUSY)]


def test_a_worker_that_says_hello_before_its_store_was_looked_at_is_used(hub: Routing) -> None:
    client = hub.client(1)
    hub.ask(client, 5, "session/prompt", PROMPT)
    assert len(passed_on(hub.worker())) == 1
    assert hub.feed(inputs.Probed(SESSION, exists=True, held=True)) == []


def test_a_worker_that_finds_the_lock_held_is_a_retryable_error(hub: Routing) -> None:
    client = hub.client(1)
    hub.ask(client, 5, "session/prompt", PROMPT)
    hub.feed(inputs.Probed(SESSION, exists=True, held=False))
    assert answers(hub.feed(inputs.ProcessEnded(SESSION, 75))) == [(1, 5, BUSY)]


def test_a_worker_that_cannot_read_its_journal_is_an_error_that_says_so_however_often(
    hub: Routing,
) -> None:
    client = hub.client(1)
    for number in range(5):
        hub.ask(client, number, "session/prompt", PROMPT)
        hub.feed(inputs.Probed(SESSION, exists=True, held=False))
        out = hub.feed(inputs.ProcessEnded(SESSION, 74 if number % 2 else 76))
        reason = "unreadable" if number % 2 else "newer"
        assert answers(out) == [(1, number, (-32603, reason))]


def test_three_ends_within_a_minute_close_a_session_until_its_next_prompt(hub: Routing) -> None:
    client = hub.client(1)
    mode = {"sessionId": SESSION, "modeId": "edit"}
    for _ in range(3):
        hub.ask(client, 5, "session/set_mode", mode)
        hub.feed(inputs.Probed(SESSION, exists=True, held=False))
        hub.worker()
        hub.feed(inputs.ProcessEnded(SESSION, 1))
    assert answers(hub.ask(client, 6, "session/set_mode", mode)) == [(1, 6, (-32603, "closed"))]
    assert hub.ask(client, 7, "_lembas/session/history", {"sessionId": SESSION}) == [
        effects.Probe(SESSION)
    ]
    hub.feed(inputs.Probed(SESSION, exists=True, held=False))
    assert hub.ask(client, 8, "session/prompt", PROMPT) == [effects.Probe(SESSION)]


def test_an_end_of_a_worker_that_never_joined_counts_too(hub: Routing) -> None:
    for _ in range(3):
        hub.feed(inputs.ProcessEnded(SESSION, None))
    client = hub.client(1)
    out = hub.ask(client, 6, "session/set_mode", {"sessionId": SESSION})
    assert answers(out) == [(1, 6, (-32603, "closed"))]
    assert hub.feed(inputs.ProcessEnded(TERMINAL, None)) == []


def test_too_many_messages_for_one_start_are_refused(hub: Routing) -> None:
    clients = [hub.client(1), hub.client(2)]
    for number in range(MAX_WAITING):
        hub.ask(clients[number % 2], number, "session/prompt", PROMPT)
    assert answers(hub.ask(1, 7777, "session/prompt", PROMPT)) == [(1, 7777, BUSY)]


# ── readers ─────────────────────────────────────────────────────────────────────────────────────


def ask_history(hub: Routing, client: int, message_id: int) -> list[effects.Effect]:
    hub.ask(client, message_id, "_lembas/session/history", {"sessionId": SESSION})
    return hub.feed(inputs.Probed(SESSION, exists=True, held=False))


def test_history_of_a_closed_session_is_read_by_the_utility_worker(hub: Routing) -> None:
    client = hub.client(1)
    out = ask_history(hub, client, 5)
    assert out[0] == effects.Start("utility", UTILITY)
    out = hub.feed(inputs.UtilityJoined(70))
    (passed,) = passed_on(out)
    assert (passed.channel, passed.frame.channel) == (UTILITY, SESSION)
    assert answers(hub.answer(passed)) == [(1, 5, "done")]
    assert [one.channel for one in passed_on(ask_history(hub, client, 6))] == [UTILITY]


def test_the_utility_worker_waits_for_nothing_that_it_owes(hub: Routing) -> None:
    client = hub.client(1)
    ask_history(hub, client, 5)
    ask_history(hub, client, 6)
    assert len(passed_on(hub.feed(inputs.UtilityJoined(70)))) == 2
    out = hub.feed(inputs.ConnectionLost(UTILITY))
    assert answers(out) == [(1, 5, WORKER_ENDED), (1, 6, WORKER_ENDED)]
    hub.feed(inputs.ProcessEnded(UTILITY, 1))
    assert hub.router.table.channels == {}


def test_a_reading_that_met_the_utility_worker_leaving_gets_the_next_one(hub: Routing) -> None:
    client = hub.client(1)
    ask_history(hub, client, 5)
    (passed,) = passed_on(hub.feed(inputs.UtilityJoined(70)))
    hub.answer(passed)
    assert frames(hub.feed(inputs.LeavingSaid(UTILITY))) == [(UTILITY, kinds.LEAVE)]
    assert passed_on(ask_history(hub, client, 6)) == []
    out = hub.feed(inputs.ProcessEnded(UTILITY, 0))
    assert effects.Start("utility", UTILITY) in out
    assert answers(hub.feed(inputs.ProcessEnded(UTILITY, 1))) == [(1, 6, WORKER_ENDED)]


def test_a_utility_worker_of_an_earlier_life_is_taken_as_it_comes(hub: Routing) -> None:
    assert frames(hub.feed(inputs.UtilityJoined(70))) == [(UTILITY, kinds.SETTINGS)]


def test_a_reader_waits_with_a_prompt_for_the_sessions_worker(hub: Routing) -> None:
    client = hub.client(1)
    hub.ask(client, 5, "_lembas/session/history", {"sessionId": SESSION})
    hub.ask(client, 6, "session/prompt", PROMPT)
    out = hub.feed(inputs.Probed(SESSION, exists=True, held=False))
    assert out[0] == effects.Start("worker", SESSION)
    assert len(passed_on(hub.worker())) == 2


def test_a_reading_whose_client_left_is_still_no_burden(hub: Routing) -> None:
    client, other = hub.client(1), hub.client(2)
    hub.ask(other, 9, "_lembas/session/history", {"sessionId": OTHER})
    hub.ask(client, 5, "_lembas/session/history", {"sessionId": SESSION})
    hub.feed(inputs.ClientLeft(client))
    hub.feed(inputs.Probed(SESSION, exists=True, held=False))
    hub.feed(inputs.Probed(OTHER, exists=True, held=False))
    assert [one.frame.channel for one in passed_on(hub.feed(inputs.UtilityJoined(70)))] == [OTHER]


# ── the device's files ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("local", [True, False])
def test_a_search_goes_to_the_utility_worker_which_is_told_whom_the_limits_bind(
    hub: Routing, local: bool
) -> None:
    client = hub.client(1, local=local)
    for message_id, params in ((5, {"sessionId": SESSION}), (6, {"cwd": "/p"})):
        hub.ask(client, message_id, "_lembas/files/search", params)
    out = hub.feed(inputs.UtilityJoined(70))
    assert frames(out) == [
        (UTILITY, kinds.SETTINGS),
        (UTILITY, kinds.RPC),
        (UTILITY, kinds.RPC),
    ]
    assert [one.frame.local for one in passed_on(out)] == [local, local]
    first, second = passed_on(out)
    assert answers(hub.answer(second)) == [(1, 6, "done")]
    assert answers(hub.answer(first)) == [(1, 5, "done")]
    assert SESSION not in hub.router.table.channels


def test_a_search_asks_no_worker_of_an_open_session(hub: Routing) -> None:
    client = hub.client(1)
    hub.worker()
    out = hub.ask(client, 5, "_lembas/files/search", {"sessionId": SESSION, "query": "x"})
    assert effects.Start("utility", UTILITY) in out
    assert passed_on(out) == []


def test_the_utility_worker_may_leave_though_a_client_of_this_machine_has_asked_it(
    hub: Routing,
) -> None:
    client = hub.client(1)
    hub.ask(client, 5, "_lembas/files/search", {"cwd": "/p"})
    (passed,) = passed_on(hub.feed(inputs.UtilityJoined(70)))
    assert frames(hub.feed(inputs.LeavingSaid(UTILITY))) == []
    hub.answer(passed)
    assert frames(hub.feed(inputs.LeavingSaid(UTILITY))) == [(UTILITY, kinds.LEAVE)]


def test_directories_are_the_links_alone(hub: Routing) -> None:
    local, link = hub.client(1), hub.client(2, local=False)
    out = hub.ask(local, 5, "_lembas/directories", {})
    assert answers(out) == [(1, 5, (-32601, None))]
    hub.ask(link, 6, "_lembas/directories", {"path": "/p"})
    assert len(passed_on(hub.feed(inputs.UtilityJoined(70)))) == 1


def test_a_search_without_an_id_asks_nobody(hub: Routing) -> None:
    hub.client(1)
    assert hub.tell(1, "_lembas/files/search", {"cwd": "/p"}) == []


# ── attaching ───────────────────────────────────────────────────────────────────────────────────


def attached_by(hub: Routing, out: list[effects.Effect]) -> list[effects.Effect]:
    """The session's process answers the attach that is among these effects."""
    (passed,) = [
        one for one in passed_on(out) if jsonrpc.peek(one.frame.payload).method == "_hub/attach"
    ]
    return hub.answer(passed, value={"sessionId": passed.channel, "seq": "1:9"})


def attach(
    hub: Routing, client: int, session: str = SESSION, **params: str
) -> list[effects.Effect]:
    """A client attaches to a session that is open."""
    return attached_by(hub, hub.ask(client, 5, "_hub/attach", {"sessionId": session, **params}))


def test_attach_opens_the_session_which_answers_and_with_that_the_client_is_attached(
    hub: Routing,
) -> None:
    client = hub.client(1)
    hub.ask(client, 5, "_hub/attach", {"sessionId": SESSION, "since": "1:7"})
    hub.feed(inputs.Probed(SESSION, exists=True, held=False))
    out = hub.worker()
    (asked,) = passed_on(out)
    assert asked.frame.payload == (
        b'{"jsonrpc":"2.0","id":5,"method":"_hub/attach",'
        b'"params":{"sessionId":"%s","since":"1:7","protocol":3}}' % SESSION.encode()
    )
    assert hub.router.audience(SESSION).everyone == ()
    out = attached_by(hub, out)
    attached = Attached(client=1, protocol=3, local=True, opened=True, since="1:7")
    assert told(out) == [(SESSION, attached)]
    assert answers(out) == [(1, 5, {"sessionId": SESSION, "seq": "1:9"})]
    assert hub.router.audience(SESSION).everyone == (1,)


def test_whose_attach_was_refused_is_not_attached(hub: Routing) -> None:
    open_session(hub, hub.client(1))
    (asked,) = passed_on(hub.ask(hub.client(2), 5, "_hub/attach", {"sessionId": SESSION}))
    assert told(hub.answer(asked, failed=True)) == []
    assert hub.router.audience(SESSION).everyone == (1,)


def test_whoever_leaves_before_the_answer_to_its_attach_is_not_attached(hub: Routing) -> None:
    open_session(hub, hub.client(1))
    (asked,) = passed_on(hub.ask(hub.client(2), 5, "_hub/attach", {"sessionId": SESSION}))
    hub.feed(inputs.ClientLeft(2))
    assert hub.answer(asked) == []
    assert hub.router.audience(SESSION).everyone == (1,)


def test_an_answer_to_an_attach_from_a_process_that_leaves_attaches_nobody(hub: Routing) -> None:
    link = hub.client(1, local=False)
    open_session(hub, link)
    (asked,) = passed_on(hub.ask(hub.client(2), 5, "_hub/attach", {"sessionId": SESSION}))
    (gone,) = passed_on(hub.ask(2, 6, "_lembas/session/delete", {"sessionId": SESSION}))
    hub.answer(gone)
    assert told(hub.answer(asked)) == []


def test_attach_to_an_open_session_counts_what_the_client_says_of_itself_later(
    hub: Routing,
) -> None:
    open_session(hub, hub.client(1))
    hub.feed(inputs.ClientJoined(2, local=True))
    attach(hub, 2)
    hub.client(3, local=False)
    assert hub.router.audience(SESSION) == Audience((1, 2), (1,), (1,))
    # it says who it is only now
    out = hub.ask(2, 6, "initialize", {"clientCapabilities": {"_meta": {"lembas": True}}})
    assert frames(out) == [(SESSION, kinds.ATTACHED)]
    assert hub.router.audience(SESSION) == Audience((1, 2), (1, 2), (1, 2))


def test_attach_to_nothing_is_refused(hub: Routing) -> None:
    client = hub.client(1)
    assert answers(hub.ask(client, 5, "_hub/attach", {"since": 7})) == [(1, 5, (-32602, None))]
    assert answers(hub.ask(client, 6, "_hub/attach", {})) == [(1, 6, (-32602, None))]
    attach = hub.ask(client, 7, "_lembas/terminal/attach", {"terminalId": TERMINAL})
    assert answers(attach) == [(1, 7, (-32602, None))]


def test_the_link_is_attached_to_a_session_once_its_worker_has_found_that_it_may(
    hub: Routing,
) -> None:
    open_session(hub, hub.client(1))
    link = hub.client(2, local=False)
    out = hub.ask(link, 5, "_lembas/session/status", {"sessionId": SESSION})
    assert frames(out) == [(SESSION, kinds.RPC)]
    assert hub.router.audience(SESSION).everyone == (1,)
    given = inputs.SessionSaid(SESSION, SessionState(busy=True, given=True))
    assert frames(hub.feed(given)) == [(SESSION, kinds.ATTACHED)]
    assert hub.router.audience(SESSION).everyone == (1, link)
    assert hub.feed(given) == []
    out = hub.ask(link, 6, "_lembas/session/status", {"sessionId": SESSION})
    assert frames(out) == [(SESSION, kinds.RPC)]


# ── deleting ────────────────────────────────────────────────────────────────────────────────────

DELETE = "_lembas/session/delete"


def test_a_deleted_session_is_gone_for_whoever_comes_after(hub: Routing) -> None:
    client = hub.client(1)
    open_session(hub, client)
    link = hub.client(2, local=False)
    (asked,) = passed_on(hub.ask(client, 5, DELETE, {"sessionId": SESSION}))
    assert asked.frame.local
    out = hub.answer(asked, value={"deleted": True})
    assert answers(out) == [(client, 5, {"deleted": True})]
    assert out[-1] == effects.SayDeleted(link)
    assert hub.router.audience(SESSION).everyone == ()
    # its worker is about to end
    assert passed_on(hub.ask(client, 6, "session/prompt", PROMPT)) == []
    assert hub.feed(inputs.ProcessEnded(SESSION, 0))[-1] == effects.Probe(SESSION)
    out = hub.feed(inputs.Probed(SESSION, exists=False, held=False))
    assert answers(out) == [(client, 6, (-32602, None))]


def test_a_session_that_could_not_be_deleted_stays(hub: Routing) -> None:
    client = hub.client(1)
    open_session(hub, client)
    (asked,) = passed_on(hub.ask(client, 5, DELETE, {"sessionId": SESSION}))
    assert len(hub.answer(asked, failed=True)) == 1
    assert hub.router.audience(SESSION).everyone == (1,)


def test_deleting_what_nobody_knows_is_done(hub: Routing) -> None:
    client = hub.client(1)
    assert answers(hub.ask(client, 4, DELETE, {"sessionId": "none"})) == [
        (client, 4, {"deleted": False})
    ]
    hub.ask(client, 5, DELETE, {"sessionId": SESSION})
    out = hub.feed(inputs.Probed(SESSION, exists=False, held=False))
    assert answers(out) == [(client, 5, {"deleted": False})]


def test_a_session_that_nobody_has_open_is_deleted_by_the_utility_worker(hub: Routing) -> None:
    client, link = hub.client(1), hub.client(2, local=False)
    hub.ask(link, 5, DELETE, {"sessionId": SESSION})
    hub.feed(inputs.Probed(SESSION, exists=True, held=False))
    (asked,) = passed_on(hub.feed(inputs.UtilityJoined(5)))
    assert (asked.channel, asked.frame.local) == (UTILITY, False)
    out = hub.answer(asked, value={"deleted": True})
    assert answers(out) == [(link, 5, {"deleted": True})]
    assert hub.router.audience(UTILITY).everyone == ()
    assert client


def deleting(hub: Routing, client: int, message_id: int = 5) -> effects.ToProcess:
    """A deletion that the utility worker has been given."""
    hub.ask(client, message_id, DELETE, {"sessionId": SESSION})
    hub.feed(inputs.Probed(SESSION, exists=True, held=False))
    (asked,) = passed_on(hub.feed(inputs.UtilityJoined(5)))
    return asked


@pytest.mark.parametrize("failed", [False, True])
def test_who_comes_while_a_session_is_deleted_learns_how_that_ended(
    hub: Routing, failed: bool
) -> None:
    client = hub.client(1)
    asked = deleting(hub, client)
    # nothing is opened meanwhile
    assert hub.ask(client, 6, "session/prompt", PROMPT) == []
    assert hub.ask(client, 7, DELETE, {"sessionId": SESSION}) == []
    assert hub.answer(asked, failed=failed)[-1] == effects.Probe(SESSION)
    out = hub.feed(inputs.Probed(SESSION, exists=False, held=False))
    assert answers(out) == [(client, 6, (-32602, None)), (client, 7, {"deleted": False})]


def test_several_deletions_at_once_are_waited_for(hub: Routing) -> None:
    one, other = hub.client(1), hub.client(2)
    hub.ask(one, 4, DELETE, {"sessionId": SESSION})
    hub.ask(other, 5, DELETE, {"sessionId": SESSION})
    hub.feed(inputs.Probed(SESSION, exists=True, held=False))
    first, second = passed_on(hub.feed(inputs.UtilityJoined(5)))
    hub.ask(one, 6, "session/prompt", PROMPT)
    assert effects.Probe(SESSION) not in hub.answer(first)
    # who asked for the last one is gone: what waits for it is not
    hub.feed(inputs.ClientLeft(other))
    assert hub.answer(second) == [effects.Probe(SESSION)]


def test_a_utility_worker_that_dies_in_a_deletion_holds_up_nobody(hub: Routing) -> None:
    client = hub.client(1)
    deleting(hub, client)
    hub.ask(client, 6, "session/prompt", PROMPT)
    out = hub.feed(inputs.ProcessEnded(UTILITY, -9))
    assert answers(out) == [(client, 5, WORKER_ENDED)]
    assert effects.Probe(SESSION) in out


def test_a_worker_that_joins_in_a_deletion_is_given_what_waits(hub: Routing) -> None:
    client = hub.client(1)
    asked = deleting(hub, client)
    hub.ask(client, 6, "session/prompt", PROMPT)
    assert len(passed_on(hub.worker())) == 1
    assert answers(hub.answer(asked, failed=True)) != []


def test_what_a_worker_owes_for_the_session_it_deleted_is_unknown(hub: Routing) -> None:
    client = hub.client(1)
    open_session(hub, client)
    hub.ask(client, 4, "_lembas/session/history", {"sessionId": SESSION})
    (asked,) = passed_on(hub.ask(client, 5, DELETE, {"sessionId": SESSION}))
    hub.ask(client, 6, DELETE, {"sessionId": SESSION})
    hub.answer(asked)
    out = hub.feed(inputs.ConnectionLost(SESSION))
    assert answers(out) == [(client, 4, (-32602, None)), (client, 6, {"deleted": False})]


def test_kept_deletes_are_told_right_after_initialize_to_the_instance_alone(hub: Routing) -> None:
    hub.feed(inputs.ClientJoined(1, local=False))
    assert hub.ask(1, 5, "initialize", LEMBAS) == [
        effects.Initialize(1, b"5"),
        effects.SayDeleted(1),
    ]
    hub.feed(inputs.ClientJoined(2, local=False))
    assert hub.ask(2, 5, "initialize", {}) == [effects.Initialize(2, b"5")]
    hub.feed(inputs.ClientJoined(3, local=True))
    assert hub.ask(3, 5, "initialize", LEMBAS) == [effects.Initialize(3, b"5")]


def test_a_session_that_was_deleted_while_its_worker_started_is_unknown(hub: Routing) -> None:
    client = hub.client(1)
    hub.ask(client, 5, "session/prompt", PROMPT)
    hub.feed(inputs.Probed(SESSION, exists=True, held=False))
    out = hub.feed(inputs.ProcessEnded(SESSION, EXIT_UNKNOWN))
    assert answers(out) == [(client, 5, (-32602, None))]


def test_a_link_that_comes_back_is_attached_to_what_it_was_given(hub: Routing) -> None:
    link = hub.client(1, local=False)
    open_session(hub, link)
    attach(hub, hub.client(7))
    assert frames(hub.feed(inputs.ClientLeft(link))) == [(SESSION, kinds.DETACHED)]
    open_session(hub, hub.client(8), OTHER)
    open_terminal(hub, 8)
    hub.client(2, local=False)
    assert hub.router.audience(SESSION).everyone == (7, 2)
    assert hub.router.audience(OTHER).everyone == (8,)


def test_an_adopted_session_that_was_given_to_the_link_is_attached_to_it(hub: Routing) -> None:
    assert hub.worker(given=True, turn_id="t1")[0] == effects.Adopted(SESSION)
    hub.client(2, local=False)
    assert hub.router.audience(SESSION).everyone == (2,)


def test_a_link_that_was_there_before_its_adopted_session_is_attached_when_it_joins(
    hub: Routing,
) -> None:
    link = hub.client(2, local=False)
    hub.client(3)
    assert (SESSION, kinds.ATTACHED) in frames(hub.worker(given=True, turn_id="t1"))
    assert hub.router.audience(SESSION).everyone == (link,)
    hub.worker(OTHER)
    assert hub.router.audience(OTHER).everyone == ()


def test_the_link_is_no_more_attached_to_what_was_taken_back(hub: Routing) -> None:
    link = hub.client(2, local=False)
    open_session(hub, hub.client(1))
    hub.state(busy=False, given=True)
    assert hub.router.audience(SESSION).everyone == (1, link)
    assert frames(hub.state(busy=False, given=False)) == [(SESSION, kinds.DETACHED)]
    assert hub.router.audience(SESSION).everyone == (1,)
    assert hub.state(busy=False, given=False) == []


# ── cards ───────────────────────────────────────────────────────────────────────────────────────


def reply(hub: Routing, client: int, session: str = SESSION) -> list[effects.Effect]:
    text = jsonrpc.result(jsonrpc.raw_id(f"{session}:1:1"), {"outcome": {"outcome": "cancelled"}})
    return hub.feed(inputs.ClientSaid(client, jsonrpc.peek(text)))


def test_the_reply_to_a_card_goes_to_the_worker_that_asked(hub: Routing) -> None:
    client = hub.client(1)
    open_session(hub, client)
    (passed,) = passed_on(reply(hub, client))
    assert (passed.channel, passed.frame.client, passed.frame.request) == (SESSION, 1, 0)


def test_a_reply_of_somebody_who_was_not_asked_goes_nowhere(hub: Routing) -> None:
    open_session(hub, hub.client(1))
    stranger = hub.client(2)
    assert reply(hub, stranger) == []
    assert reply(hub, 1, OTHER) == []


#: as clients of this machine are told it
SETTLED = (
    b'{"jsonrpc":"2.0","method":"_lembas/permission/settled","params":{"sessionId":"'
    + SESSION.encode()
    + b'","toolCallId":"call1","_meta":{"lembas":{"by":%b}}}}'
)


def settled(out: list[effects.Effect]) -> list[tuple[int, bytes]]:
    return [(one.client, one.frame.payload) for one in out if isinstance(one, effects.CardSettled)]


def test_a_settled_card_is_taken_down_everywhere_else(hub: Routing) -> None:
    open_session(hub, hub.client(1))
    for number, lembas in ((2, True), (3, False)):
        hub.client(number, lembas=lembas)
        attach(hub, number)
    hub.client(4, local=False)
    hub.feed(inputs.SessionSaid(SESSION, SessionState(busy=True, given=True)))
    hub.feed(inputs.CardWaits(SESSION, "call1"))
    for number in (1, 2, 3, 4):
        hub.feed(inputs.CardShown(SESSION, "call1", number))
    assert settled(hub.feed(inputs.CardDecided(SESSION, "call1", 1, b"settled"))) == [
        (2, SETTLED % b'"terminal"'),
        (4, b"settled"),
    ]


@pytest.mark.parametrize(("number", "by"), [(4, b'"instance"'), (0, b"null")])
def test_who_is_here_is_told_who_answered_a_card(hub: Routing, number: int, by: bytes) -> None:
    open_session(hub, hub.client(1))
    hub.client(4, local=False)
    for client in (1, 4):
        hub.feed(inputs.CardShown(SESSION, "call1", client))
    out = settled(hub.feed(inputs.CardDecided(SESSION, "call1", number, b"settled")))
    assert out[0] == (1, SETTLED % by)
    assert [client for client, _ in out[1:]] == ([4] if number == 0 else [])


def test_the_cards_of_a_worker_that_is_gone_are_taken_down(hub: Routing) -> None:
    client = hub.client(1)
    hub.worker(cards=[CardInfo(id="x", tool_call_id="call1")])
    attach(hub, client)
    hub.feed(inputs.CardShown(SESSION, "call1", client))
    assert settled(hub.feed(inputs.ConnectionLost(SESSION))) == [(1, SETTLED % b"null")]


# ── terminals ───────────────────────────────────────────────────────────────────────────────────


def remote_terminals(hub: Routing) -> None:
    hub.feed(inputs.SettingsChanged(Settings(remote=Remote(enabled=True, terminal=True))))


def open_terminal(hub: Routing, client: int, terminal: str = TERMINAL) -> None:
    hub.ask(client, 900, "_lembas/terminal/open", {}, fresh=terminal)
    (passed,) = passed_on(hub.terminal(terminal))
    hub.answer(passed)


@pytest.mark.spec("terminal/open: only with remote.terminal")
def test_terminals_are_refused_on_the_link_while_they_are_off(hub: Routing) -> None:
    link = hub.client(1, local=False)
    off = (-32602, "terminal_off")
    assert answers(hub.ask(link, 5, "_lembas/terminal/open", {})) == [(1, 5, off)]


def test_terminals_of_the_link_end_when_the_limits_allow_them_no_more(hub: Routing) -> None:
    remote_terminals(hub)
    link = hub.client(1, local=False)
    hub.ask(link, 5, "_lembas/terminal/open", {}, fresh=TERMINAL)
    hub.terminal(link=True)
    hub.client(2)
    hub.ask(2, 6, "_lembas/terminal/open", {}, fresh="term_" + "d" * 12)
    hub.terminal("term_" + "d" * 12)
    out = hub.feed(inputs.SettingsChanged(Settings(remote=Remote(enabled=True, terminal=True))))
    assert kinds.STOP not in [kind for _, kind in frames(out)]
    for remote in (Remote(enabled=True), Remote(terminal=True)):
        out = hub.feed(inputs.SettingsChanged(Settings(remote=remote)))
        assert [frame for frame in frames(out) if frame[1] == kinds.STOP] == [
            (TERMINAL, kinds.STOP)
        ]


def test_a_terminal_that_was_not_there_yet_ends_when_it_comes(hub: Routing) -> None:
    remote_terminals(hub)
    link = hub.client(1, local=False)
    hub.ask(link, 5, "_lembas/terminal/open", {}, fresh=TERMINAL)
    hub.feed(inputs.SettingsChanged(Settings(remote=Remote(enabled=True))))
    assert (TERMINAL, kinds.STOP) in frames(hub.terminal(link=True))


@pytest.mark.spec("terminal/open: four a link")
def test_a_link_has_four_terminals_and_no_fifth(hub: Routing) -> None:
    remote_terminals(hub)
    link = hub.client(1, local=False)
    for number in range(4):
        open_terminal(hub, link, "term_" + str(number) * 12)
    assert answers(hub.ask(link, 5, "_lembas/terminal/open", {})) == [(1, 5, (-32602, None))]
    # one whose end was told is none of them
    hub.feed(inputs.TerminalSaid("term_" + "0" * 12, TerminalState(ended=True)))
    assert answers(hub.ask(link, 6, "_lembas/terminal/open", {}, fresh=TERMINAL)) == []


def test_a_local_client_has_many_terminals_but_not_any_number(hub: Routing) -> None:
    client = hub.client(1)
    for number in range(MAX_LOCAL_TERMINALS):
        hub.ask(client, number, "_lembas/terminal/open", {}, fresh=f"term_{number:012d}")
    assert answers(hub.ask(client, 99, "_lembas/terminal/open", {})) == [(1, 99, (-32602, None))]


def test_keystrokes_go_to_a_terminal_only_from_who_is_attached(hub: Routing) -> None:
    client, other = hub.client(1), hub.client(2)
    open_terminal(hub, client)
    keys = {"terminalId": TERMINAL, "data": "bHM="}
    (passed,) = passed_on(hub.tell(client, "_lembas/terminal/input", keys))
    assert (passed.channel, passed.frame.request) == (TERMINAL, 0)
    assert hub.tell(other, "_lembas/terminal/input", keys) == []
    assert answers(hub.ask(other, 5, "_lembas/terminal/close", keys)) == [(2, 5, (-32602, None))]
    out = hub.ask(other, 6, "_lembas/terminal/attach", {"terminalId": TERMINAL})
    assert frames(out) == [(TERMINAL, kinds.ATTACHED), (TERMINAL, kinds.RPC)]
    assert len(passed_on(hub.ask(other, 7, "_lembas/terminal/close", keys))) == 1


def test_a_terminals_process_gets_no_login(hub: Routing) -> None:
    account = Account(base_url="https://x", token="secret")
    hub.feed(inputs.SettingsChanged(Settings(account=account)))
    open_terminal(hub, hub.client(1))
    open_session(hub, 1)
    sent = [e for e in hub.seen if isinstance(e, effects.ToProcess) if e.frame.kind == "settings"]
    assert [(e.channel, b"secret" in e.frame.payload) for e in sent] == [
        (TERMINAL, False),
        (SESSION, True),
    ]
    hub.ask(1, 8, "session/new", {"cwd": "/p"}, fresh=OTHER)
    out = hub.feed(inputs.SettingsChanged(Settings()))
    assert frames(out) == [(TERMINAL, kinds.SETTINGS), (SESSION, kinds.SETTINGS)]
    assert frames(hub.feed(inputs.NeedSaid(SESSION))) == [(SESSION, kinds.SETTINGS)]
    assert hub.feed(inputs.NeedSaid(OTHER)) == []


def test_the_links_terminals_hang_up_with_it_and_others_stay(hub: Routing) -> None:
    remote_terminals(hub)
    link, person = hub.client(1, local=False), hub.client(2)
    hub.ask(link, 5, "_lembas/terminal/open", {}, fresh="term_" + "e" * 12)
    open_terminal(hub, link)
    open_terminal(hub, person, "term_" + "d" * 12)
    hub.client(3)
    hub.feed(inputs.ClientLeft(3))
    assert frames(hub.feed(inputs.ClientLeft(link))) == [
        (TERMINAL, kinds.DETACHED),
        (TERMINAL, kinds.STOP),
    ]
    assert frames(hub.feed(inputs.ClientLeft(person))) == [("term_" + "d" * 12, kinds.DETACHED)]
    late = [kind for _channel, kind in frames(hub.terminal("term_" + "e" * 12))]
    assert kinds.STOP in late


def test_a_terminal_of_an_earlier_hub_is_adopted_unless_its_link_is_gone(hub: Routing) -> None:
    assert [kind for _channel, kind in frames(hub.terminal())] == [kinds.SETTINGS]
    out = hub.terminal("term_" + "d" * 12, link=True)
    assert [kind for _channel, kind in frames(out)] == [kinds.SETTINGS, kinds.STOP]


def test_a_terminal_that_is_killed_says_its_exit_by_the_hub(hub: Routing) -> None:
    client = hub.client(1)
    open_terminal(hub, client)
    out = hub.feed(inputs.ProcessEnded(TERMINAL, -9))
    assert said(out) == [
        (
            1,
            {
                "jsonrpc": "2.0",
                "method": "_lembas/terminal/exit",
                "params": {"terminalId": TERMINAL, "code": None},
            },
        )
    ]
    assert hub.router.audience(TERMINAL).everyone == ()


def test_a_terminal_that_ended_by_itself_has_said_so(hub: Routing) -> None:
    client = hub.client(1)
    open_terminal(hub, client)
    assert said(hub.feed(inputs.ProcessEnded(TERMINAL, 0))) == []


def test_a_terminal_that_is_lost_and_does_not_come_back_is_over(hub: Routing) -> None:
    client = hub.client(1)
    open_terminal(hub, client)
    hub.feed(inputs.ConnectionLost(TERMINAL))
    assert len(said(hub.feed(inputs.TimerFired(TERMINAL)))) == 1


def test_a_terminal_that_cannot_be_started_is_answered(hub: Routing) -> None:
    client = hub.client(1)
    hub.ask(client, 5, "_lembas/terminal/open", {}, fresh=TERMINAL)
    out = hub.feed(inputs.StartFailed(TERMINAL, "no pty"))
    assert answers(out) == [(1, 5, (-32603, "start_failed"))]


def test_a_reader_that_cannot_be_started_is_answered(hub: Routing) -> None:
    ask_history(hub, hub.client(1), 5)
    out = hub.feed(inputs.StartFailed(UTILITY, "no memory"))
    assert answers(out) == [(1, 5, (-32603, "start_failed"))]


def test_a_client_that_leaves_is_detached_from_what_is_connected(hub: Routing) -> None:
    client = hub.client(1)
    open_session(hub, client)
    open_session(hub, client, OTHER)
    hub.feed(inputs.ConnectionLost(SESSION))
    assert frames(hub.feed(inputs.ClientLeft(client))) == [(OTHER, kinds.DETACHED)]


def test_what_processes_say_of_themselves_is_kept_and_of_others_not(hub: Routing) -> None:
    hub.terminal()
    hub.feed(inputs.TerminalSaid(TERMINAL, msgspec.structs.replace(_size(hub), cols=132)))
    assert _size(hub).cols == 132
    hub.feed(inputs.TerminalSaid("term_" + "x" * 12, _size(hub)))
    hub.state(OTHER, busy=True)
    assert set(hub.router.table.channels) == {TERMINAL}


def _size(hub: Routing):  # type: ignore[no-untyped-def]
    return hub.router.table.channels[TERMINAL].terminal


# ── the stop ────────────────────────────────────────────────────────────────────────────────────


def test_a_stop_answers_what_waits_tells_every_process_and_starts_nothing(hub: Routing) -> None:
    client = hub.client(1)
    open_session(hub, client)
    hub.ask(client, 5, "session/new", {"cwd": "/p"}, fresh=OTHER)
    out = hub.feed(inputs.StopAsked("lembasd is being stopped"))
    assert frames(out) == [(SESSION, kinds.STOP)]
    assert answers(out) == [(1, 5, (-32603, "stopping"))]
    assert answers(hub.ask(client, 6, "session/new", {})) == [(1, 6, (-32603, "stopping"))]
    assert hub.ask(client, 7, "_hub/status", {}) == [effects.GiveStatus(1, b"7")]
    assert frames(hub.worker(OTHER, stored=False)) == [
        (OTHER, kinds.SETTINGS),
        (OTHER, kinds.STOP),
    ]
    hub.feed(inputs.ProcessEnded(SESSION, 1))
    hub.feed(inputs.ProcessEnded(SESSION, 1))
    assert set(hub.router.table.channels) == {OTHER}


# ── what a client turns out to know ─────────────────────────────────────────────────────────────


def told(out: list[effects.Effect]) -> list[tuple[str, Attached]]:
    return [
        (e.channel, msgspec.json.decode(e.frame.payload, type=Attached))
        for e in out
        if isinstance(e, effects.ToProcess) and e.frame.kind == kinds.ATTACHED
    ]


@pytest.mark.spec("versions: a client that knows no question is one of protocol 1")
def test_every_session_hears_of_a_client_that_knows_no_question(hub: Routing) -> None:
    client = hub.client(1)
    for session in (SESSION, OTHER):
        hub.ask(client, 5, "session/new", {"cwd": "/p"}, fresh=session)
        hub.worker(session, stored=False)
    hub.terminal()
    hub.ask(client, 6, "_lembas/terminal/attach", {"terminalId": TERMINAL})
    known = Attached(client=1, protocol=1, local=True, opened=True, known=True)
    assert told(hub.feed(inputs.ClientOutdated(SESSION, 1))) == [(SESSION, known), (OTHER, known)]
    assert hub.feed(inputs.ClientOutdated(SESSION, 1)) == []
    # it is so whatever it says of itself again, for sessions to come, and for the next life of those that are there
    again = hub.ask(client, 9, "initialize", LEMBAS)
    assert [one.protocol for _, one in told(again)] == [1, 1]
    third = "ses_" + "d" * 26
    hub.ask(client, 7, "session/new", {"cwd": "/p"}, fresh=third)
    assert told(hub.worker(third, stored=False)) == [
        (third, Attached(client=1, protocol=1, local=True, opened=True))
    ]
    hub.feed(inputs.ConnectionLost(SESSION))
    assert told(hub.worker()) == [
        (SESSION, Attached(client=1, protocol=1, local=True, opened=True))
    ]


def test_a_session_says_nothing_of_a_client_that_does_not_look_at_it(hub: Routing) -> None:
    hub.client(1)
    open_session(hub, hub.client(2))
    assert hub.feed(inputs.ClientOutdated(SESSION, 1)) == []
    assert hub.feed(inputs.ClientOutdated(SESSION, 9)) == []


# ── for whom a session is opened ────────────────────────────────────────────────────────────────


def test_a_session_is_opened_for_who_had_its_worker_started(hub: Routing) -> None:
    local, link = hub.client(1), hub.client(2, local=False)
    hub.ask(local, 5, "_lembas/session/status", {"sessionId": SESSION})
    hub.ask(local, 6, "session/prompt", {"sessionId": SESSION, "prompt": []})
    hub.feed(inputs.Probed(SESSION, exists=True, held=False))
    hub.worker()
    attach(hub, local)
    out = attach(hub, local, since="1:0")
    assert [one.opened for _, one in told(out)] == [True]
    # the instance is given it later, and only looks
    out = hub.feed(inputs.SessionSaid(SESSION, SessionState(busy=False, given=True)))
    assert told(out) == [(SESSION, Attached(client=link, protocol=3))]


def test_who_only_asks_how_a_session_stands_does_not_open_it(hub: Routing) -> None:
    first, second = hub.client(1), hub.client(2)
    hub.ask(first, 5, "_lembas/session/status", {"sessionId": SESSION})
    hub.ask(second, 6, "_hub/attach", {"sessionId": SESSION})
    hub.feed(inputs.Probed(SESSION, exists=True, held=False))
    assert [one.opened for _, one in told(attached_by(hub, hub.worker()))] == [True]
    out = attach(hub, first)
    assert [one.opened for _, one in told(out)] == [False]


def test_who_opened_a_session_has_opened_its_next_worker_too(hub: Routing) -> None:
    client = hub.client(1)
    open_session(hub, client)
    hub.feed(inputs.ProcessEnded(SESSION, 1))
    hub.client(2)
    hub.ask(2, 5, "_hub/attach", {"sessionId": SESSION})
    hub.feed(inputs.Probed(SESSION, exists=True, held=False))
    out = hub.worker()
    assert [(one.client, one.opened) for _, one in told(out)] == [(1, True)]
    assert [(one.client, one.opened) for _, one in told(attached_by(hub, out))] == [(2, True)]


# ── a disk that is nearly full ──────────────────────────────────────────────────────────────────


def test_with_hardly_any_room_left_no_session_is_made_and_all_else_is_passed_on(
    hub: Routing,
) -> None:
    client = hub.client(1)
    hub.worker()
    hub.feed(inputs.SettingsChanged(Settings(low_disk=True)))
    out = hub.ask(client, 5, "session/new", {"cwd": "/p"}, fresh=OTHER)
    assert answers(out) == [(1, 5, (-32603, "store"))]
    # its worker knows whether the turn was asked for before
    assert len(passed_on(hub.ask(client, 6, "session/prompt", PROMPT))) == 1


# ── tidying, and what was deleted beside the hub ────────────────────────────────────────────────


def test_the_utility_worker_is_started_to_tidy_and_told_so_once(hub: Routing) -> None:
    out = hub.feed(inputs.TidyDue())
    assert out[0] == effects.Start("utility", UTILITY)
    assert hub.feed(inputs.TidyDue()) == []
    joined = frames(hub.feed(inputs.UtilityJoined(70)))
    assert joined == [(UTILITY, kinds.SETTINGS), (UTILITY, kinds.TIDY)]
    assert frames(hub.feed(inputs.TidyDue())) == [(UTILITY, kinds.TIDY)]


def test_tidying_that_met_the_utility_worker_leaving_is_the_next_ones(hub: Routing) -> None:
    hub.feed(inputs.UtilityJoined(70))
    hub.feed(inputs.LeavingSaid(UTILITY))
    assert hub.feed(inputs.TidyDue()) == []
    assert effects.Start("utility", UTILITY) in hub.feed(inputs.ProcessEnded(UTILITY, 0))
    # one that cannot be started is not tried for ever
    hub.feed(inputs.ProcessEnded(UTILITY, 1))
    assert hub.router.table.channels == {}


def test_nothing_is_tidied_while_everything_ends(hub: Routing) -> None:
    hub.feed(inputs.UtilityJoined(70))
    hub.feed(inputs.LeavingSaid(UTILITY))
    hub.feed(inputs.TidyDue())
    hub.feed(inputs.StopAsked("it is stopped"))
    assert hub.feed(inputs.TidyDue()) == []
    hub.feed(inputs.ProcessEnded(UTILITY, 0))
    assert hub.router.table.channels == {}


def test_the_instance_alone_hears_of_what_others_deleted(hub: Routing) -> None:
    hub.client(1)
    link = hub.client(2, local=False)
    hub.client(3, local=False, lembas=False)
    hub.feed(inputs.ClientJoined(4, local=False))
    assert hub.feed(inputs.DeletesKept()) == [effects.SayDeleted(link)]
