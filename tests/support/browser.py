"""A headless Chromium, spoken to over its debugging protocol."""

import asyncio
import base64
import shutil
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec
from websockets.asyncio.client import ClientConnection, connect

#: what a loaded machine needs to start it, and for one thing on a page to come true
TIMEOUT_S: Final = 30.0
_LOOK_S: Final = 0.05
CHROMIUM: Final = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
_FLAGS: Final = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--remote-debugging-port=0",
    "--window-size=1100,800",
)


class Browser:
    """`async with Browser() as page`: one page. What it complains of is in `complaints`."""

    def __init__(self) -> None:
        self._profile = Path(tempfile.mkdtemp(prefix="lbc", dir="/tmp"))
        self._process: asyncio.subprocess.Process | None = None
        self._socket: ClientConnection
        self._reading: asyncio.Task[None]
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._count = 0
        self._session = ""
        self.complaints: list[str] = []

    async def __aenter__(self) -> Self:
        assert CHROMIUM is not None
        self._process = await asyncio.create_subprocess_exec(
            CHROMIUM,
            *_FLAGS,
            f"--user-data-dir={self._profile}",
            "about:blank",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        port, path = await self._address()
        self._socket = await connect(f"ws://127.0.0.1:{port}{path}", proxy=None, max_size=None)
        self._reading = asyncio.create_task(self._read())
        (page,) = [
            one
            for one in (await self.call("Target.getTargets"))["targetInfos"]
            if one["type"] == "page"
        ]
        attach = {"targetId": page["targetId"], "flatten": True}
        self._session = (await self.call("Target.attachToTarget", **attach))["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            await self.call(f"{domain}.enable")
        return self

    async def _address(self) -> tuple[str, str]:
        file = self._profile / "DevToolsActivePort"
        async with asyncio.timeout(TIMEOUT_S):
            # it tells nobody but this file
            while not (file.exists() and file.read_text().count("\n")):
                await asyncio.to_thread(_pause)
        port, path = file.read_text().split("\n")[:2]
        return port, path

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._socket.close()
        self._process.kill()
        await self._process.wait()
        shutil.rmtree(self._profile, ignore_errors=True)

    async def _read(self) -> None:
        async for message in self._socket:
            said = msgspec.json.decode(message)
            if "id" in said:
                self._waiting.pop(said["id"]).set_result(said)
            elif said["method"] == "Log.entryAdded":
                self.complaints.append(str(said["params"]["entry"]))
            elif said["method"] == "Runtime.exceptionThrown":
                self.complaints.append(str(said["params"]["exceptionDetails"]))

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One request of the protocol."""
        self._count += 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[self._count] = future
        asked = {"id": self._count, "method": method, "params": params}
        if self._session:
            asked["sessionId"] = self._session
        await self._socket.send(msgspec.json.encode(asked).decode())
        async with asyncio.timeout(TIMEOUT_S):
            said = await future
        assert "error" not in said, said
        result: dict[str, Any] = said["result"]
        return result

    async def open(self, url: str) -> None:
        await self.call("Page.navigate", url=url)

    async def value(self, script: str) -> Any:
        """What an expression of JavaScript comes to, awaited."""
        said = await self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in said, said
        return said["result"].get("value")

    async def until(self, script: str, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until an expression is true."""
        look = f"(() => {{ try {{ return Boolean({script}); }} catch {{ return false; }} }})()"
        try:
            async with asyncio.timeout(timeout_s):
                while not await self.value(look):
                    await asyncio.to_thread(_pause)
        except TimeoutError:
            text = await self.value("document.body.innerText")
            raise AssertionError(f"never true: {script}; the page:\n{text}") from None

    async def type(self, text: str) -> None:
        """Type as a person does; \\r is Enter."""
        for part in text.split("\r"):
            if part:
                await self.call("Input.insertText", text=part)
            if part is not text.split("\r")[-1]:
                await self.key("Enter", 13, text="\r")

    async def key(self, name: str, code: int, *, ctrl: bool = False, text: str = "") -> None:
        about = {"key": name, "code": name, "windowsVirtualKeyCode": code, "modifiers": 2 * ctrl}
        await self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    async def screenshot(self) -> bytes:
        return base64.b64decode((await self.call("Page.captureScreenshot"))["data"])


def _pause() -> None:
    time.sleep(_LOOK_S)
