"""The hints of the timeline and of an earlier moment: what works there. Pure."""

from typing import Final

from foldline.tui.inspector.keys import KEYS
from foldline.tui.keys.names import joined
from foldline.tui.keys.table import key_of, name_of

_PAST: Final = (
    (("older-request", "newer-request"), "request"),
    (("now",), "now"),
    (("fold-before", "fold-after"), "fold to fold"),
    (("diff",), "diff"),
    (("move",), "move"),
    (("open",), "open"),
    (("next-panel",), "panel"),
    (("search",), "search"),
    (("filter",), "filter"),
    (("help",), "keys"),
    (("close",), "close"),
)
_TIMELINE: Final = (
    (("along",), "one request"),
    (("fold-before", "fold-after"), "fold to fold"),
    (("open",), "its first entry"),
    (("now",), "now"),
    (("mark",), "mark"),
    (("diff",), "diff"),
    (("next-panel",), "panel"),
    (("help",), "keys"),
    (("close",), "close"),
)


def time_hints(*, on_timeline: bool) -> list[tuple[str, str]]:
    """(keys, word) of what works on the timeline, or in the other panels at an earlier moment."""
    return [(_names(commands), word) for commands, word in (_TIMELINE if on_timeline else _PAST)]


def scrubbing_words() -> str:
    """What the timeline's lower edge says: `, . one request · < > fold to fold · 0 back to now`."""
    steps = _names(("older-request", "newer-request")), _names(("fold-before", "fold-after"))
    return f"{steps[0]} one request · {steps[1]} fold to fold · {name_of(KEYS, 'now')} back to now"


def _names(commands: tuple[str, ...]) -> str:
    names = [name for command in commands if (name := _name(command))]
    return joined(names) if names else ""


def _name(command: str) -> str:
    key = key_of(KEYS, command)
    return "".join(key.names[:2]) if command == "along" else key.name
