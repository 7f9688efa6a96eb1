"""The screens that have keys, by name: what `[keys.NAME]`, help, palette and docs know of them.

A table is imported when it is asked for: most screens are never opened, and none is before the first paint.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from foldline.tui.keys.command import CHAT
from foldline.tui.keys.table import ScreenKey

EVERYWHERE: Final = ("help", "palette", "interrupt")
"""The chat's commands that work on every screen."""

Table = Sequence[ScreenKey[Any]]


@dataclass(frozen=True, slots=True)
class KeyedScreen:
    """A screen as its keys see it."""

    title: str
    table: Callable[[], Table]
    """Its table."""


def _chat() -> Table:
    from foldline.tui.keys.commands import COMMANDS

    return COMMANDS


def _transcript() -> Table:
    from foldline.tui.reading.keys import KEYS

    return KEYS


def _inspector() -> Table:
    from foldline.tui.inspector.keys import KEYS

    return KEYS


def _difference() -> Table:
    from foldline.tui.inspector.diff_screen import KEYS

    return KEYS


def _filter() -> Table:
    from foldline.tui.inspector.filter_bar import KEYS

    return KEYS


def _preview() -> Table:
    from foldline.tui.preview.keys import KEYS

    return KEYS


def _context() -> Table:
    from foldline.tui.context_screen.opening import KEYS

    return KEYS


def _sessions() -> Table:
    from foldline.tui.sessions.keys import KEYS

    return KEYS


def _rewind() -> Table:
    from foldline.tui.rewind.screen import KEYS

    return KEYS


def _approvals() -> Table:
    from foldline.tui.approvals.screen import KEYS

    return KEYS


def _jobs() -> Table:
    from foldline.tui.jobs.screen import KEYS

    return KEYS


def _output() -> Table:
    from foldline.tui.jobs.output import KEYS

    return KEYS


def _settings() -> Table:
    from foldline.tui.settings.keys import KEYS

    return KEYS


def _picker() -> Table:
    from foldline.tui.choosing.picker import KEYS

    return KEYS


def _setup() -> Table:
    from foldline.tui.setup.keys import KEYS

    return KEYS


def _help() -> Table:
    from foldline.tui.help import KEYS

    return KEYS


def _tour() -> Table:
    from foldline.tui.demo.app import KEYS

    return KEYS


SCREENS: Final[dict[str, KeyedScreen]] = {
    CHAT: KeyedScreen("Chat", _chat),
    "transcript": KeyedScreen("Transcript", _transcript),
    "inspector": KeyedScreen("Inspector", _inspector),
    "difference": KeyedScreen("Inspector: difference", _difference),
    "filter": KeyedScreen("Inspector: filter", _filter),
    "preview": KeyedScreen("Compact preview", _preview),
    "context": KeyedScreen("Context", _context),
    "sessions": KeyedScreen("Sessions", _sessions),
    "rewind": KeyedScreen("Rewind", _rewind),
    "approvals": KeyedScreen("What runs unasked", _approvals),
    "jobs": KeyedScreen("Jobs", _jobs),
    "output": KeyedScreen("Output of a job", _output),
    "settings": KeyedScreen("Settings", _settings),
    "setup": KeyedScreen("Choosing a model", _setup),
    "picker": KeyedScreen("Choosing from a list", _picker),
    "help": KeyedScreen("Help", _help),
    "tour": KeyedScreen("Tour (foldline demo)", _tour),
}
