"""Every command of the account against a real pocket instance, before and after its restart."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import httpx
import msgspec
import pytest

from lembasd.device import credentials
from tests.support.daemon import GONE_S, Install

pytestmark = pytest.mark.process

_PERSON = "import sys; from lembasd.cli.person import main; sys.exit(main())"


@pytest.fixture
async def person(short_tmp: Path) -> AsyncIterator[Install]:
    async with Install(short_tmp) as one:
        yield one


async def start(person: Install, port: int = 0) -> tuple[subprocess.Popen[bytes], int]:
    """An instance that approves each login, and its port."""
    child = person.spawn(_PERSON, "instance", "--port", str(port), "--approve")
    listening = await person.milestones.wait("instance.listening", pid=child.pid)
    return child, int(listening["port"])


async def end(child: subprocess.Popen[bytes]) -> None:
    child.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(child.wait, GONE_S) == 0


async def said(person: Install, *args: str, stdin: bytes | None = None) -> str:
    """What a command printed; it must end well and complain of nothing."""
    done = await person.run(*args, stdin=stdin)
    assert (done.returncode, done.stderr) == (0, b""), done
    return done.stdout.decode()


async def test_a_person_s_way_through_the_account_and_over_a_restart(person: Install) -> None:
    child, port = await start(person)
    server = f"http://127.0.0.1:{port}"
    assert "Logged in to Pocket instance.\n" in await said(person, "login", "--server", server)
    assert await said(person, "whoami") == (
        f"You <you@localhost> at Pocket instance ({server}), may do: models memory link\n"
    )
    assert await said(person, "models") == "* demo  Demo (scripted, no real model); 128k tokens\n"
    await said(person, "config", "set", "instructions", "Be brief: yes")
    login = credentials.load(person.paths.credentials_file)
    assert login is not None
    asked = {"model": "demo", "messages": [{"role": "user", "content": "hi"}]}
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {login.token}"}) as http:
        answer = await http.post(f"{server}/v1/chat/completions", json=asked)
    wrote = answer.json()["usage"]["completion_tokens"]
    used = await said(person, "usage")
    assert f", {wrote} out\n" in used
    assert "cost" not in used

    await end(child)
    away = await person.run("usage")
    assert (away.returncode, away.stdout, away.stderr.count(b"\n")) == (1, b"", 1)
    assert b"cannot be reached" in away.stderr
    child, _ = await start(person, port)

    assert await said(person, "usage") == used
    assert await said(person, "config", "get", "instructions") == "Be brief: yes\n"
    assert await said(person, "logout") == "Logged out.\n"
    # another program may hand over a token that it holds
    out = await said(
        person, "login", "--server", server, "--token-stdin", "--json", stdin=login.token.encode()
    )
    assert msgspec.json.decode(out) == {
        "event": "done",
        "fresh": True,
        "connection": "pocket",
        "base_url": server,
        "version": "2.0",
        "models": ["demo"],
        "changes": [],
    }
    assert credentials.load(person.paths.credentials_file) == login
    await end(child)


async def test_at_a_terminal_a_token_is_asked_for_and_not_shown(person: Install) -> None:
    child, port = await start(person)
    server = f"http://127.0.0.1:{port}"
    await said(person, "login", "--server", server)
    login = credentials.load(person.paths.credentials_file)
    assert login is not None
    await said(person, "logout")
    ours, theirs = os.openpty()
    asking = person.spawn(
        _PERSON,
        *("login", "--token-stdin"),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert asking.stderr is not None
    prompt = await asyncio.to_thread(asking.stderr.read, len(b"Token: "))
    os.write(ours, login.token.encode() + b"\n")
    out, _ = await asyncio.to_thread(asking.communicate, None, GONE_S)
    assert (prompt, asking.returncode) == (b"Token: ", 0)
    assert out.startswith(b"Logged in to Pocket instance.\n")
    assert credentials.load(person.paths.credentials_file) == login
    os.set_blocking(ours, False)
    with suppress(BlockingIOError):
        assert login.token.encode() not in os.read(ours, 4096)
    os.close(ours)
    os.close(theirs)
    await end(child)


async def test_a_terminal_that_cannot_show_a_sign_is_shown_another(person: Install) -> None:
    person.environment["PYTHONIOENCODING"] = "latin-1"
    assert await said(person, "config", "set", "connection", "Z€rich") == ""
    assert await said(person, "config", "get", "connection") == "Z?rich\n"


async def test_the_token_is_in_no_output_and_in_no_file_that_others_can_read(
    person: Install,
) -> None:
    child, port = await start(person)
    server = f"http://127.0.0.1:{port}"
    outputs = [
        (await person.run(*args)).stdout
        for args in (
            ("login", "--server", server, "--json"),
            ("whoami", "--json"),
            ("models", "--json"),
            ("usage", "--json"),
            ("config", "list", "--json"),
        )
    ]
    login = credentials.load(person.paths.credentials_file)
    assert login is not None
    token = login.token.encode()
    assert all(token not in out for out in outputs)
    holding = [
        file
        for file in person.base.rglob("*")
        if file.is_file() and not file.is_symlink() and token in file.read_bytes()
    ]
    assert holding == [person.paths.credentials_file]
    assert person.paths.credentials_file.stat().st_mode & 0o777 == 0o600
    await end(child)
