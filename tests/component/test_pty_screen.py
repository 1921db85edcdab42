"""What a person sees of a terminal: judged by a terminal emulator, through any cuts, detachments and floods."""

import shutil
import sys
from collections.abc import Callable

import pyte
import pytest

from tests.component.test_pty_flow import attach, opened
from tests.component.test_pty_terminal import scene
from tests.support.terminal_hub import TerminalHub
from tests.support.terminal_scene import Scene

__all__ = ["scene"]

COLS, ROWS = 80, 24
#: text, wide characters, combining marks, colours, a title, a region, cursor moves
PICTURE = (
    "\x1b[2J\x1b[H\x1b]0;žluť 漢字 title\x07\x1b[31mred\x1b[0m plain\r\n"
    "漢字かな 한글 \x1b[1;4mbold\x1b[m e\u0301 😀 \x1b[38;2;1;2;3mtrue\x1b[0m\r\n"
    "\x1b[10;20Hhere\x1b[5;1H\x1b[K\x1b[3;10rregion\x1b[r\x1b[20;1Hlast line 終\r\n"
).encode()


class Emulator(pyte.Screen):
    """pyte takes a setting of xterm's keyboard for colours."""

    def select_graphic_rendition(self, *attributes: int, private: bool = False) -> None:
        if not private:
            super().select_graphic_rendition(*attributes)


class Screen:
    """An emulator that is fed what client 1 was sent from `start` on."""

    def __init__(self, hub: TerminalHub, start: int = 0) -> None:
        self.hub = hub
        self._fed = start
        self._screen = Emulator(COLS, ROWS)
        self._stream = pyte.ByteStream(self._screen)

    @property
    def lines(self) -> list[str]:
        output = self.hub.output()
        self._stream.feed(output[self._fed :])
        self._fed = len(output)
        return [line.rstrip() for line in self._screen.display]

    async def until(self, shows: Callable[[list[str]], bool]) -> list[str]:
        await self.hub.until(lambda: shows(self.lines))
        return self.lines


def pictured() -> list[str]:
    screen = pyte.Screen(COLS, ROWS)
    pyte.ByteStream(screen).feed(PICTURE)
    return [line.rstrip() for line in screen.display]


async def test_output_that_comes_byte_by_byte_is_the_same_screen(scene: Scene) -> None:
    (scene.project / "picture").write_bytes(PICTURE)
    program = "import os\nfor byte in open('picture', 'rb').read(): os.write(1, bytes([byte]))\n"
    (scene.project / "drip.py").write_text(program)
    await opened(scene)
    scene.hub.crediting = True
    scene.type(f"clear; {sys.executable} drip.py; read x\n")
    assert await Screen(scene.hub).until(lambda lines: "last line 終" in lines) == pictured()


async def test_a_picture_is_the_same_wherever_chunks_end(scene: Scene) -> None:
    # long enough that a chunk ends in each of its parts
    (scene.project / "pictures").write_bytes(PICTURE * 3000)
    await opened(scene)
    scene.hub.crediting = True
    scene.type("stty -opost; cat pictures; printf '\\033[23;1Hdo''ne'; read x\n")
    lines = await Screen(scene.hub).until(lambda lines: "done" in lines)
    assert [line for line in lines if line != "done"] == pictured()[:22] + pictured()[23:]


@pytest.mark.parametrize("program", ["vim -u NONE -N text", "less text"])
async def test_a_full_screen_program_is_there_again_after_a_detach(
    scene: Scene, program: str
) -> None:
    if shutil.which(program.split()[0]) is None:
        pytest.skip(f"{program.split()[0]} is not installed")
    (scene.project / "text").write_text("".join(f"line {number} 漢字\n" for number in range(300)))
    await opened(scene)
    scene.hub.crediting = True
    scene.type(f"{program}\n")
    first = Screen(scene.hub)
    await first.until(lambda lines: lines[0] == "line 0 漢字" and "line 20" in lines[20])
    scene.type("\x06")  # a page forward, in both
    seen = await first.until(lambda lines: lines[0].startswith("line 2") and lines[0] != "line 2")
    scene.hub.detach(1)
    start = len(scene.hub.output())
    place = await attach(scene.hub)
    assert place["redraw"]
    again = Screen(scene.hub, start)
    await again.until(lambda lines: lines[:20] == seen[:20])
    # shown again by the program too: less drops a key that comes while it takes in a change of size
    line = seen[20].encode()
    await scene.hub.until(lambda: scene.hub.output()[start:].count(line) > 1)
    scene.type("G")
    await again.until(lambda lines: "line 299 漢字" in lines)
    # its own screen is left behind when it ends
    scene.type(":q!\r" if program.startswith("vim") else "q")
    await scene.hub.until(lambda: b"\x1b[?1049l" in scene.hub.output()[start:])
    scene.type("echo b''ack\n")
    await scene.shows(b"back")
    redrawn = scene.hub.output()[start:]
    assert b"\x1b[?1049h" in redrawn
    assert redrawn.count(b"\x1b[?1049l") == 1


async def test_a_hundred_megabytes_arrive_byte_for_byte(scene: Scene) -> None:
    lines = b"".join(b"%08d\x1b[3%dm%s\n" % (n, n % 8, b"x" * 50) for n in range(10_000))
    data = lines * (100_000_000 // len(lines))
    (scene.project / "data").write_bytes(data)
    await opened(scene)
    scene.hub.crediting, scene.hub.keeps_output = True, False
    scene.type("stty -opost; printf 'beg''in'; cat data; exec printf 'e''nd'\n")
    assert await scene.exit() == 0
    output = scene.hub.output()
    start = output.index(b"begin") + len(b"begin")
    assert output[start : start + len(data)] == data
    assert output[start + len(data) :] == b"end"
