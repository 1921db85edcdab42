"""link.md, "initialize"."""

import msgspec
import pytest

from lembasd import __version__
from tests.support.fake_instance import TOKEN
from tests.support.linked_hub import LinkedHub

CAPABILITIES = {
    *("sessions", "status", "turns", "compact", "steer", "files", "commands", "attachments"),
    *("configure", "title", "delete", "rewind", "model", "context", "library", "prototypes"),
    *("directories", "terminal"),
}


@pytest.mark.spec(
    "initialize: protocolVersion",
    "initialize: loadSession false",
    "initialize: promptCapabilities",
    "initialize: mcpCapabilities",
    "initialize: authMethods",
    "initialize: agentInfo",
    "initialize: harness_spec",
    "initialize: limits on the link",
    "initialize: connection",
    "capability sessions",
    "capability status",
    "capability turns",
    "capability compact",
    "capability steer",
    "capability configure",
    "capability delete",
    "capability title",
    "capability files",
    "capability commands",
    "capability attachments",
    "capability model",
    "capability rewind",
    "capability context",
    "capability prototypes",
    "capability library",
    "capability terminal",
    "capability directories",
)
async def test_the_result_is_the_one_of_the_spec(hub: LinkedHub) -> None:
    about = hub.client.about
    listed = about["_meta"]["lembas"].pop("capabilities")
    spec = about["_meta"]["lembas"].pop("harness_spec")
    assert msgspec.json.encode(about).decode() == (
        '{"protocolVersion":1,"agentCapabilities":{"loadSession":false,'
        '"promptCapabilities":{"image":true,"audio":false,"embeddedContext":true},'
        '"mcpCapabilities":{"http":false,"sse":false}},"authMethods":[],'
        f'"agentInfo":{{"name":"LLeMbas CLI","version":"{__version__}"}},"_meta":{{"lembas":{{"protocol":3,'
        f'"limits":{{"roots":["{hub.install.base}"],"max_mode":"auto","scheduled":false}},"connection":"moria"}}}}}}'
    )
    # what others add to this build may be listed beside these
    assert set(listed) >= CAPABILITIES
    assert len(listed) == len(set(listed))
    assert spec == hub.client.hello["harness_spec"]
    assert spec.split(".")[0] == "3"


@pytest.mark.spec("capabilities: of those the spec names alone")
async def test_a_capability_is_of_those_the_spec_names(hub: LinkedHub) -> None:
    known = {
        *CAPABILITIES,
        *("ask", "plan", "shell", "plan_state", "show", "jobs", "progress", "agents", "tree"),
        "scheduled",
    }
    listed = (await hub.client.value("initialize", '{"protocolVersion":1}'))["_meta"]["lembas"]
    assert set(listed["capabilities"]) <= known


@pytest.mark.spec("initialize: limits null elsewhere")
async def test_a_client_on_this_machine_has_no_limits(hub: LinkedHub) -> None:
    local = await hub.install.client()
    about = (await local.initialize())["_meta"]["lembas"]
    assert about["limits"] is None
    assert about["connection"] == "moria"
    local.hub.close()


@pytest.mark.spec("initialize: connection")
async def test_a_login_whose_connection_has_no_name_says_null_and_terminals_are_not_listed_while_off(
    own_hub: LinkedHub,
) -> None:
    own_hub.install.configure(terminal=False)
    own_hub.install.log_in(own_hub.instance.url, model="plain", token=TOKEN)
    client = await own_hub.linked()
    while "terminal" in client.about["_meta"]["lembas"]["capabilities"]:
        client = await own_hub.linked()  # one change of two was seen first
    about = client.about["_meta"]["lembas"]
    assert about["connection"] is None
    assert "shell" not in about["capabilities"]
