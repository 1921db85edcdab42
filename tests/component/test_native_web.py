"""`web_fetch` against real servers on loopback, and what it must not reach."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from lembasd.engine.api import CardRequest, Decision, TurnOutcome
from lembasd.engine.native.tools.outcome import Outcome
from lembasd.engine.native.tools.web_fetch import MAX_BYTES, MAX_CHARS, Fetcher
from lembasd.protocol import events
from lembasd.protocol.control import Mode
from tests.support.recorder_host import RecorderHost
from tests.support.scripted_model import Reply, ScriptedModel

DONE = TurnOutcome(stop_reason="end_turn")
HTML = b"""<html><head><title>T</title><script>alert(1)</script></head>
<body><h1>Hello</h1><p>See <a href="/next">this</a> <img src="a.png"></p></body></html>"""


class Site:
    """A web server. `answer` gives the bytes to send for a request's head."""

    def __init__(self) -> None:
        self.answer: Callable[[str], bytes] = lambda _head: page(HTML)
        self.heads: list[str] = []
        self.port = 0
        #: the connection is closed once this is set
        self.hold: asyncio.Event | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        writer.write(self.answer(head))
        try:
            await writer.drain()
        except ConnectionError:
            pass  # who asked has enough
        if self.hold is not None:
            await self.hold.wait()
        writer.close()


def page(
    body: bytes, content_type: str = "text/html", status: str = "200 OK", **headers: str
) -> bytes:
    lines = [f"HTTP/1.1 {status}", "Connection: close", f"Content-Length: {len(body)}"]
    lines += [f"Content-Type: {content_type}"] if content_type else []
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with serving() as one:
        yield one


@asynccontextmanager
async def serving() -> AsyncIterator[Site]:
    one = Site()
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    one.port = server.sockets[0].getsockname()[1]
    async with server:
        yield one


async def fetch(site: Site, path: str = "/", allowed: str = "127.0.0.1") -> Outcome:
    fetcher = Fetcher(lambda: [allowed])
    return await fetcher.fetch({"url": f"http://127.0.0.1:{site.port}{path}"})


async def test_a_page_becomes_markdown_with_whole_links(site: Site) -> None:
    outcome = await fetch(site)
    assert not outcome.is_error
    assert "# Hello" in outcome.output
    assert f"[this](http://127.0.0.1:{site.port}/next)" in outcome.output
    assert "alert" not in outcome.output


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        (page(b'{"a": 1}', "application/json"), '{"a": 1}'),
        (page("é".encode("latin-1"), "text/plain; charset=latin-1"), "é"),
        (page(b"", "text/plain"), "[the page has no text]"),
        (page(gzip.compress(b"small"), "text/plain", Content_Encoding="gzip"), "small"),
        (page(b"plain", ""), "plain"),
    ],
)
async def test_text_stays_as_it_is(site: Site, answer: bytes, output: str) -> None:
    site.answer = lambda _head: answer
    assert await fetch(site) == Outcome(output)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (page(b"%PDF", "application/pdf"), "is no text (application/pdf, 4 bytes)"),
        (page(b"\0\0", ""), "is no text (binary, 2 bytes)"),
        (page(b"x", "text/plain", Content_Encoding="br"), "comes packed as br"),
        (page(b"not packed", "text/plain", Content_Encoding="gzip"), "packed in a way"),
        (page(gzip.compress(b"x")[:9], "text/plain", Content_Encoding="gzip"), "in its middle"),
        (page(b"gone", "text/plain", "404 Not Found"), "answered with HTTP 404]\ngone"),
        (page(b"", status="302 Found", Location="http://other.example/x"), "call web_fetch with"),
        (page(b"", status="302 Found", Location="file:///etc/passwd"), "only http"),
        (page(b"", status="302 Found", Location="/"), "leads on more than 5 times"),
        (b"nonsense\r\n\r\n", "cannot be had"),
    ],
)
async def test_what_is_not_to_be_had_is_told(site: Site, answer: bytes, says: str) -> None:
    site.answer = lambda _head: answer
    outcome = await fetch(site)
    assert outcome.is_error
    assert says in outcome.output


async def test_a_redirect_on_its_host_is_followed(site: Site) -> None:
    site.answer = lambda head: (
        page(b"there", "text/plain")
        if head.startswith("GET /b")
        else page(b"", status="301 Moved Permanently", Location="/b?c=d")
    )
    assert await fetch(site, "/a") == Outcome("there")
    assert [head.split("\r\n")[0] for head in site.heads] == [
        "GET /a HTTP/1.1",
        "GET /b?c=d HTTP/1.1",
    ]


async def test_what_follows_a_packed_page_is_not_waited_for(site: Site) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\n\r\n"
    site.answer = lambda _head: head + gzip.compress(b"small") + b"more"
    site.hold = asyncio.Event()
    assert await asyncio.wait_for(fetch(site), 10) == Outcome("small")
    site.hold.set()


@pytest.mark.parametrize("packed", [False, True])
async def test_a_page_over_the_bound_is_cut(site: Site, packed: bool) -> None:
    body = b"x" * (MAX_BYTES + 100_000)
    site.answer = lambda _head: (
        page(gzip.compress(body), "text/plain", Content_Encoding="gzip")
        if packed
        else page(body, "text/plain")
    )
    outcome = await fetch(site)
    assert outcome.output == "x" * MAX_CHARS + "\n[the rest of the page is left out]"


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]"]
)
async def test_this_machine_is_not_asked_by_any_spelling(site: Site, host: str) -> None:
    outcome = await Fetcher(list).fetch({"url": f"http://{host}:{site.port}/"})
    assert outcome.is_error
    assert "is on this machine or its network" in outcome.output
    assert site.heads == []


async def test_a_name_that_means_this_machine_is_not_asked(site: Site) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1", "169.254.169.254"]

    outcome = await Fetcher(list, resolve).fetch({"url": f"http://evil.test:{site.port}/"})
    assert "evil.test is on this machine or its network" in outcome.output
    assert site.heads == []


async def test_the_address_that_was_judged_is_the_one_that_is_asked(site: Site) -> None:
    """A name that means something else at each look-up is looked up once for each request."""
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    fetcher = Fetcher(lambda: ["allowed.test"], resolve)
    outcome = await fetcher.fetch({"url": f"http://allowed.test:{site.port}/"})
    assert not outcome.is_error
    assert asked == ["allowed.test"]
    assert f"Host: allowed.test:{site.port}\r\n" in site.heads[0]


async def test_the_next_address_is_asked_where_one_cannot_be_reached(site: Site) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["::1", "127.0.0.1"]

    outcome = await Fetcher(lambda: ["allowed.test"], resolve).fetch(
        {"url": f"http://allowed.test:{site.port}/"}
    )
    assert not outcome.is_error
    assert len(site.heads) == 1


async def test_a_redirect_is_judged_anew(site: Site) -> None:
    answers = [["127.0.0.1"], ["10.0.0.1"]]

    async def resolve(host: str, port: int) -> list[str]:
        return answers.pop(0)

    allowed = [["moving.test"], []]
    site.answer = lambda _head: page(b"", status="302 Found", Location="/b")
    fetcher = Fetcher(lambda: allowed.pop(0), resolve)
    outcome = await fetcher.fetch({"url": f"http://moving.test:{site.port}/a"})
    assert "moving.test is on this machine or its network" in outcome.output
    assert len(site.heads) == 1


async def test_a_host_that_nobody_knows_is_told() -> None:
    outcome = await Fetcher(list).fetch({"url": "http://no-such-host.invalid/"})
    assert "no-such-host.invalid is not known here" in outcome.output


# ── through the engine ──────────────────────────────────────────────────────────────────────────


@pytest.fixture
def host(tmp_path: Path, model: ScriptedModel) -> RecorderHost:
    return RecorderHost(tmp_path.resolve(), model.base_url)


@pytest.mark.parametrize("mode", ["plan", "manual", "edit", "auto"])
async def test_each_site_is_asked_for_once_in_every_mode(
    host: RecorderHost, model: ScriptedModel, site: Site, mode: Mode
) -> None:
    host.settings = replace(host.settings, web_hosts=["127.0.0.1", "localhost"])
    host.decisions = [Decision(outcome="session"), Decision(outcome="deny")]
    url = f"http://127.0.0.1:{site.port}/"
    args = {"url": url, "purpose": "To read it."}
    model.script(
        Reply(calls=[("web_fetch", args)]),
        Reply(calls=[("web_fetch", {"url": f"{url}more"})]),
        Reply(calls=[("fetch", {"url": f"http://localhost:{site.port}/"})]),
        Reply(calls=[("web_fetch", {"url": "ftp://127.0.0.1/"})]),
    )
    engine = host.engine(mode)
    assert await asyncio.wait_for(host.turn(engine), 20) == DONE
    await engine.aclose()
    start = await host.until(events.ToolStart)
    assert host.cards[0] == CardRequest(
        tool_call_id=start.toolCallId,
        name="web_fetch",
        title=f"web_fetch {url}",
        kind="fetch",
        args=args,
        reason="it asks 127.0.0.1 on the web",
        purpose="To read it.",
        always="every page of 127.0.0.1",
    )
    assert [one.name for one in host.cards] == ["web_fetch"] * 2
    assert "# Hello" in host.results()[1].output
    assert host.results()[2].output == "The person denied this call"
    assert (
        host.results()[3].output == "ftp://127.0.0.1/ is not asked: only http:// and https:// are."
    )
    assert len(site.heads) == 2


async def test_settings_are_read_before_the_person_is_asked_and_a_mode_is_asked_each_time(
    host: RecorderHost, model: ScriptedModel
) -> None:
    host.widest_mode = "edit"
    host.decisions = [Decision(outcome="session"), Decision(outcome="session")]
    calls = [
        {"key": "mode", "value": "auto"},
        {"key": "title", "value": "A title"},
        {"key": "mode", "value": "plan"},
        {"key": "mode", "value": "manual"},
        {"key": "colour", "value": "red"},
    ]
    model.script(*(Reply(calls=[("settings", one)]) for one in calls))
    engine = host.engine("auto")
    assert await asyncio.wait_for(host.turn(engine), 20) == DONE
    await engine.aclose()
    assert host.wishes == [("title", "A title"), ("mode", "plan"), ("mode", "manual")]
    assert [(one.title, one.reason, one.always) for one in host.cards] == [
        ("settings mode plan", "this is asked each time", None),
        ("settings mode manual", "this is asked each time", None),
    ]
    assert [one.output for one in host.results()] == [
        "The person set the mode to edit; it cannot be wider than that.",
        "title is now A title.",
        "mode is now plan.",
        "mode is now manual.",
        "'colour' is no setting; there are mode, effort, title, verbosity.",
    ]


async def test_a_mode_that_the_person_narrowed_while_the_card_was_open_is_not_widened(
    host: RecorderHost, model: ScriptedModel
) -> None:
    class Narrowing(RecorderHost):
        async def ask(self, card: CardRequest) -> Decision:
            self.widest_mode = "plan"
            return Decision(outcome="once")

    host = Narrowing(host.root, model.base_url)
    model.script(Reply(calls=[("settings", {"key": "mode", "value": "edit"})]))
    engine = host.engine("auto")
    assert await asyncio.wait_for(host.turn(engine), 20) == DONE
    await engine.aclose()
    assert (host.wishes, host.results()[0].is_error) == ([], True)


async def test_what_starts_in_the_next_session_is_asked_for_in_every_mode(
    host: RecorderHost, model: ScriptedModel
) -> None:
    host.decisions = [Decision(outcome="session"), Decision(outcome="deny")]
    write = ("write", {"path": "./.mcp.json", "content": "{}"})
    model.script(Reply(calls=[write]), Reply(calls=[write]))
    engine = host.engine("auto")
    assert await asyncio.wait_for(host.turn(engine), 20) == DONE
    await engine.aclose()
    assert [(one.reason, one.always) for one in host.cards] == [
        ("it says what this project's next sessions start", None)
    ] * 2
    assert (host.root / ".mcp.json").read_text() == "{}"


async def test_a_patch_is_asked_for_by_the_strictest_of_its_files(
    host: RecorderHost, model: ScriptedModel
) -> None:
    def patch(*names: str) -> Reply:
        added = "".join(f"*** Add File: {name}\n+{{}}\n" for name in names)
        return Reply(calls=[("apply_patch", {"patch": f"*** Begin Patch\n{added}*** End Patch"})])

    host.protected = [host.root / "secret"]
    host.decisions = [Decision(outcome="session"), Decision(outcome="deny")]
    outside = "../outside"
    model.script(
        patch("a"),
        patch("b", outside),  # a yes for the session holds for what is outside
        patch("c", outside + "2", ".mcp.json"),  # and for nothing that is asked each time
        patch("d", "secret/e"),
    )
    engine = host.engine("edit")
    assert await asyncio.wait_for(host.turn(engine), 20) == DONE
    await engine.aclose()
    assert [(one.reason, one.always) for one in host.cards] == [
        ("it writes outside the project", f"apply_patch {host.root.parent}/outside"),
        ("it says what this project's next sessions start", None),
    ]
    assert sorted(one.name for one in host.root.iterdir()) == ["a", "b"]
    assert [one.denied_by for one in host.results()] == [None, None, "person", "floor"]
    assert [one.name for one in host.root.parent.glob("outside*")] == ["outside"]
