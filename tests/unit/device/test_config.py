"""config.yaml: defaults, warnings, errors with lines, and changes that keep comments."""

import os
from pathlib import Path

import msgspec
import pytest

from lembasd.device import private_file
from lembasd.device.config import (
    MIN_WORKER_MEMORY_BYTES,
    Config,
    HubConfig,
    LogConfig,
    load,
    set_value,
)
from lembasd.protocol.control import Remote
from lembasd.protocol.errors import BadValue, ConfigError
from lembasd.protocol.mcp import McpServer
from lembasd.protocol.permission import Rule
from lembasd.protocol.retention import Retention

_BYTES = f"a number of bytes from {MIN_WORKER_MEMORY_BYTES} on"
FULL = """\
# who we talk to
server: https://lembas.example.org  # set by login
connection: example
mode: edit
model: qwen
remote:
  enabled: true
  roots: [~/work, /srv]
  max_mode: unrestricted
  require_trust: false
  terminal: true
  terminal_integration: false
  approval_timeout: 10
hub:
  worker_idle: 5
  worker_memory: 200000000
  max_workers: 20
  log: {level: debug, format: json}
retention: {sessions: 90d, undo: never, size: 5GB}
agents: {}
mcp:
  files:
    command: srv
    args: [-v, 7]
    env: {TOKEN: t}
    cwd: sub
    timeout: 5
    trust_read_only: true
  web: {url: "https://x.example/mcp", headers: {Authorization: Bearer s}}
web:
  allow_hosts: [Intranet.local]
permission:
- allow: bash
  command: [make *, npm test]
- {deny: read, path: .env}
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_file_that_is_not_there_is_all_defaults(tmp_path: Path) -> None:
    loaded = load(tmp_path / "config.yaml")
    assert (loaded.config, loaded.warnings) == (Config(), [])


@pytest.mark.parametrize("text", ["", "# only a comment\n", "remote:\n"])
def test_an_empty_file_or_block_is_all_defaults(tmp_path: Path, text: str) -> None:
    assert load(write(tmp_path / "c.yaml", text)).config == Config()


def test_every_key_is_read(tmp_path: Path) -> None:
    loaded = load(write(tmp_path / "c.yaml", FULL))
    assert loaded.warnings == []
    assert loaded.config == Config(
        server="https://lembas.example.org",
        connection="example",
        model="qwen",
        mode="edit",
        remote=Remote(
            enabled=True,
            roots=["~/work", "/srv"],
            max_mode="auto",
            require_trust=False,
            terminal=True,
            terminal_integration=False,
            approval_timeout_s=10.0,
        ),
        hub=HubConfig(
            worker_idle_s=5.0,
            worker_memory_bytes=200_000_000,
            max_workers=20,
            log=LogConfig(level="debug", format="json"),
        ),
        retention=Retention(sessions_s=90 * 86_400.0, undo_s=None, max_bytes=5 * 10**9),
        mcp=[
            McpServer(
                name="files",
                command="srv",
                args=["-v", "7"],
                env={"TOKEN": "t"},
                cwd="sub",
                timeout_s=5.0,
                trust_read_only=True,
            ),
            McpServer(
                name="web",
                transport="http",
                url="https://x.example/mcp",
                headers={"Authorization": "Bearer s"},
            ),
        ],
        web_hosts=["intranet.local"],
        permission=[
            Rule("allow", "bash", command=("make *", "npm test")),
            Rule("deny", "read", path=".env"),
        ],
    )


def test_quoted_texts_are_texts_that_can_be_sent(tmp_path: Path) -> None:
    text = """model: "m"\neffort: 'e'\nmcp: {"a": {"command": "x", "env": {"K": "v"}}}\n"""
    config = load(write(tmp_path / "c.yaml", text)).config
    assert msgspec.json.decode(msgspec.json.encode(config), type=Config) == config


def test_an_unknown_key_is_a_warning_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path / "c.yaml", "mode: edit\nremote:\n  root: /srv\ncolour: blue\n")
    assert load(path).warnings == [
        f"{path}, line 3: remote.root is not a setting; remove it",
        f"{path}, line 4: colour is not a setting; remove it",
    ]


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("mode: wild\n", 1, "mode must be one of plan, manual, edit, auto"),
        ("\nmodel: 7\n", 2, "model must be a text"),
        ("share: yes\n", 1, "share must be one of never, ask, always"),
        ("remote: yes please\n", 1, "remote must be a block of settings"),
        ("remote:\n  enabled: 1\n", 2, "remote.enabled must be true or false"),
        ("remote:\n  roots: /srv\n", 2, "remote.roots must be a list of directories"),
        ("remote:\n  roots: [work]\n", 2, "remote.roots must be absolute or ~ paths, not 'work'"),
        ("retention:\n  logs: 30\n", 2, "retention.logs must be an age, as 30d, 12h or never"),
        ("retention:\n  undo: soon\n", 2, "retention.undo must be an age, as 30d, 12h or never"),
        ("retention:\n  size: 10\n", 2, "retention.size must be a size, as 10GB or 500MB"),
        ("hub:\n  worker_idle: 0\n", 2, "hub.worker_idle must be a number of seconds above 0"),
        ("hub:\n  worker_memory: 5\n", 2, f"hub.worker_memory must be {_BYTES}"),
        ("hub:\n  worker_memory: 1G\n", 2, f"hub.worker_memory must be {_BYTES}"),
        ("hub:\n  max_workers: 0\n", 2, "hub.max_workers must be a number from 1 to 10000"),
        ("hub:\n  worker_idle: true\n", 2, "hub.worker_idle must be a number of seconds above 0"),
        ("hub:\n  log: {level: loud}\n", 2, "hub.log.level must be one of debug"),
        ("mcp: [a]\n", 1, "mcp must be a block of servers"),
        ("permission: a\n", 1, "permission must be a list of rules"),
        ("permission:\n- allow: bash\n- deny: ' '\n", 1, "rule 2 must be a rule whose tool"),
        ("permission:" + "\n- allow: a" * 501, 1, "a list of at most 500 rules"),
        ("mcp:\n  a: {command: x}\n  b: {}\n", 3, "mcp.b must be given either a command or a url"),
        ("mcp:\n  <<: {b: {}}\n", 2, "mcp.b must be given either a command or a url"),
        ("remote:\n  <<: {terminal: 1}\n", 2, "remote.terminal must be true or false"),
        ("web:\n  allow_hosts: [1]\n", 2, "web.allow_hosts must be a list of host names"),
        ("- a\n", 1, "holds no settings"),
        ("mode: [\n", 2, "is not YAML"),
        ("a: 1\na: 2\n", 2, "is not YAML"),
    ],
)
def test_a_wrong_value_names_its_line_and_what_is_expected(
    tmp_path: Path, text: str, line: int, expected: str
) -> None:
    path = write(tmp_path / "c.yaml", text)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert (caught.value.line, expected in str(caught.value)) == (line, True), str(caught.value)


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_bytes(b"model: \xff\n")
    with pytest.raises(ConfigError, match="UTF-8"):
        load(tmp_path / "c.yaml")


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="over 64 KiB"):
        load(write(tmp_path / "c.yaml", "#" * (1024 * 1024 + 1)))


def test_a_directory_in_its_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path)


def test_a_change_keeps_comments_and_order(tmp_path: Path) -> None:
    path = write(tmp_path / "c.yaml", FULL)
    set_value(path, "server", "https://other.example.org")
    set_value(path, "remote.terminal", False)
    changed = FULL.replace("https://lembas", "https://other").replace(
        "  terminal: true", "  terminal: false"
    )
    kept = [line.split("#")[0].strip() for line in changed.splitlines()]
    assert [line.split("#")[0].strip() for line in path.read_text().splitlines()] == kept
    assert path.read_text().count("#") == FULL.count("#")


def test_a_change_makes_the_file_and_its_blocks_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.yaml"
    set_value(path, "remote.roots", ["/srv"])
    assert load(path).config.remote.roots == ["/srv"]
    assert path.stat().st_mode & 0o077 == 0
    set_value(path, "remote.roots", None)
    assert load(path).config == Config()


def test_a_change_of_the_wrong_type_leaves_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "c.yaml", FULL)
    with pytest.raises(BadValue) as refused:
        set_value(path, "mode", "wild")
    assert str(refused.value) == "mode must be one of plan, manual, edit, auto"
    assert (path.read_text(), [one.name for one in tmp_path.iterdir()]) == (FULL, ["c.yaml"])


def test_a_file_that_was_broken_before_is_named_with_its_line_until_that_is_mended(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "c.yaml", "model: x\nmode: wild\n")
    with pytest.raises(ConfigError) as refused:
        set_value(path, "model", "y")
    assert str(refused.value).startswith(f"{path}, line 2: mode must be one of")
    set_value(path, "mode", "plan")
    assert load(path).config == Config(model="x", mode="plan")


def test_a_change_that_cannot_be_written_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.mkdir()  # nobody can put a file there, not even root
    with pytest.raises(OSError, match="directory") as refused:
        private_file.write(path, b"x")
    assert (refused.value.filename, list(tmp_path.iterdir())) == (str(path), [path])


def test_a_change_below_what_is_no_block_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "c.yaml", "mode: edit\n")
    with pytest.raises(ConfigError, match="mode must be a block"):
        set_value(path, "mode.inner", 1)


def test_a_linked_file_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    real = write(tmp_path / "dotfiles" / "lembas.yaml", "mode: edit\n")
    link = tmp_path / "config.yaml"
    link.symlink_to(real)
    set_value(link, "mode", "plan")
    assert (link.is_symlink(), real.read_text()) == (True, "mode: plan\n")


@pytest.mark.parametrize("text", ["[" * 5000 + "]" * 5000, "remote: " + "[" * 5000])
def test_a_file_that_is_nested_too_deeply_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="correct"):
        load(write(tmp_path / "c.yaml", text))


def test_a_pipe_in_its_place_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "c.yaml")
    with pytest.raises(ConfigError, match="it is no file"):
        load(tmp_path / "c.yaml")


@pytest.mark.parametrize("value", [".inf", ".nan", "1e300"])
def test_a_time_without_end_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError, match="number of seconds"):
        load(write(tmp_path / "c.yaml", f"hub: {{worker_idle: {value}}}\n"))
