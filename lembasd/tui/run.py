"""Starting the terminal program and ending it."""

import gc
import os

from lembasd.device.paths import Paths
from lembasd.protocol.errors import EXIT_DONE
from lembasd.tui.core.chat import Chat
from lembasd.tui.ports import Ports


def run(paths: Paths, ports: Ports, cwd: str, session_id: str = "") -> int:
    """Until the person leaves. Raises LembasError when no hub can be reached or started."""
    # hundreds of modules make garbage of nothing: looking for some takes a tenth of the time to the first picture
    gc.disable()
    from lembasd.tui.app import LembasApp

    app = LembasApp(paths, ports, Chat(cwd, session_id), os.urandom)
    app.run()
    if app.failure is not None:
        raise app.failure
    return app.return_code or EXIT_DONE
