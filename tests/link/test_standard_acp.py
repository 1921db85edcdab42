"""link.md, "Standard ACP, as used here": what passes is judged by the official schema, in both directions.

Every client of these tests is judged as it goes; here it is looked at that the judge sees what it should.
"""

from tests.support.acp import Judge
from tests.support.linked_hub import LinkedHub, named
from tests.support.scripted_model import Reply


async def test_every_standard_message_passes_the_judge(hub: LinkedHub) -> None:
    hub.model.script(
        Reply(
            text="I look.",
            reasoning="look first",
            calls=[("bash", {"command": "echo a > a"}), ("read", {"path": "none"})],
        ),
        Reply(text="done"),
    )
    session = await hub.new(mode="manual")
    turn = hub.prompt(session, "t1", "go", {"type": "resource_link", "uri": "a", "name": "a"})
    hub.client.allow(await hub.client.card(session), feedback="none")
    await hub.client.answer(turn)
    await hub.client.ask("session/set_mode", named(session, modeId="plan"))
    hub.client.notify("session/cancel", named(session))
    await hub.status(session)
    assert hub.client.judge.seen == {
        *(f"answer of {method}" for method in ("initialize", "session/new", "session/prompt")),
        *("initialize", "session/new", "session/prompt", "session/set_mode", "session/cancel"),
        *("answer of session/set_mode", "session/update", "session/request_permission"),
        "answer of session/request_permission",
    }


def test_the_judge_finds_what_is_wrong_and_lets_pass_what_was_refused() -> None:
    judge = Judge(refused_may_be_wrong=True)
    judge("client", b'{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":7}}')
    judge("agent", b'{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}')
    judge("client", b"[")
    assert judge.faults == []
    judge("client", b'{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":7}}')
    judge("agent", b'{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s","extra":1}}')
    judge("agent", b'{"jsonrpc":"2.0","method":"session/prompt","params":{}}')
    judge("agent", b'{"id":3,"result":{}}')
    judge("agent", b"nothing")
    assert [fault.split(":")[0].split(" ")[0] for fault in judge.faults] == [
        "NewSessionRequest",
        "NewSessionRequest",
        "NewSessionResponse.extra",
        "session/prompt",
        "no",
        "no",
    ]
