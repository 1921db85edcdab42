"""`settings`: what the model changes of its own session."""

from typing import Any

from lembasd.engine.api import Host
from lembasd.engine.native.core import wishes
from lembasd.engine.native.tools.outcome import Outcome


def settings(host: Host, args: dict[str, Any], efforts: list[str] | None) -> Outcome:
    """Have args["key"] set to args["value"]."""
    try:
        # judged again: the person may have narrowed the mode while the card was open
        key, value = wishes.read(args, host.widest_mode, efforts)
    except ValueError as why:
        return Outcome(str(why), is_error=True)
    host.wish(key, value)
    return Outcome(wishes.told(key, value))
