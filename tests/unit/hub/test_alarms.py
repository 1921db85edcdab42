"""Alarms: said once when they begin, once when they are over, and shown in between."""

import structlog
from structlog.testing import capture_logs

from lembasd.hub.alarms import Alarm, Alarms
from tests.support.routing import SESSION


def test_an_alarm_is_said_once_and_shown_until_it_is_over() -> None:
    alarms = Alarms(structlog.get_logger())
    with capture_logs() as lines:
        for _ in range(2):
            alarms.loop(SESSION, loops=True)
        alarms.loop("pty", loops=True)
        (session, terminals) = alarms.raised
        for _ in range(2):
            alarms.loop(SESSION, loops=False)
    assert session.channel == SESSION
    assert "closed until its next prompt" in session.text
    assert terminals.text.startswith("what starts terminals ends again and again")
    assert alarms.raised == [terminals]
    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("crash_loop", "error"),
        ("crash_loop", "error"),
        ("alarm_over", "info"),
    ]


def test_each_kind_of_alarm_has_an_event_of_its_own() -> None:
    alarms = Alarms(structlog.get_logger())
    with capture_logs() as lines:
        alarms.loop("utility", loops=True)
        alarms.begin("disk", "", "no room")
        alarms.begin("terminals", "", "most are in use")
    assert [line["event"] for line in lines] == ["crash_loop", "disk_low", "budget_low"]
    assert alarms.raised[1] == Alarm("disk", "", "no room")
