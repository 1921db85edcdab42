"""What the model may change of its session with the `settings` tool (decisions.md, "The settings tool")."""

from collections.abc import Collection
from typing import Any, Final, assert_never, get_args

from lembasd.harness.loader import LOOP
from lembasd.protocol.acp import MODES, lowered, read_mode
from lembasd.protocol.control import Mode, SettingKey
from lembasd.protocol.limits import MAX_TITLE_CHARS

KEYS: Final[tuple[SettingKey, ...]] = get_args(SettingKey)
#: levels of a model of which nothing is known
ANY_EFFORTS: Final = ("default", "low", "medium", "high")


def read(args: dict[str, Any], widest: Mode, efforts: list[str] | None) -> tuple[SettingKey, str]:
    """The setting and its new value. `efforts`: the model's levels, None where they are not known.

    Raises ValueError: one sentence for the model.
    """
    said, value = args.get("key"), str(args.get("value", "")).strip()
    key = next((one for one in KEYS if one == said), None)
    match key:
        case None:
            raise ValueError(f"{said!r} is no setting; there are {', '.join(KEYS)}.")
        case "mode":
            return key, _mode(value, widest)
        case "effort":
            return key, _one_of(value, efforts or ANY_EFFORTS, key)
        case "verbosity":
            return key, _one_of(value, LOOP.verbosity, key)
        case "title":
            return key, _title(value)
        case _:
            assert_never(key)


def _mode(value: str, widest: Mode) -> Mode:
    mode = read_mode(value)
    if mode is None:
        raise ValueError(f"{value!r} is no mode; choose one of {', '.join(MODES)}.")
    if lowered(mode, widest) != mode:
        raise ValueError(f"The person set the mode to {widest}; it cannot be wider than that.")
    return mode


def _one_of(value: str, choices: Collection[str], key: str) -> str:
    if value not in choices:
        raise ValueError(f"{value!r} is no {key}; choose one of {', '.join(choices)}.")
    return value


def _title(value: str) -> str:
    # a list of sessions, or a terminal's, shows nothing that it does not say
    title = " ".join("".join(one if one.isprintable() else " " for one in value).split())
    if not 0 < len(title) <= MAX_TITLE_CHARS:
        raise ValueError(f"A title has 1 to {MAX_TITLE_CHARS} characters.")
    return title


def told(key: SettingKey, value: str) -> str:
    """What the model is answered once it is changed."""
    text = f"{key} is now {value}."
    return f"{text} {LOOP.verbosity[value]}" if key == "verbosity" else text
