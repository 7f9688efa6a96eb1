"""What the Settings screen shows, and where the reader is in it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from foldline.agent.layers import dotted

Names = tuple[str, ...]
"""A key, name by name: the name of a model may hold dots."""

Kind = Literal["cycle", "pick", "text", "model", "provider", "file"]
"""How a value is changed: the next of a few, one of a list, typed, on the screen that chooses models or
providers, or only in the file."""

Effect = Literal["now", "start", "sessions"]
"""When a change counts: at once, with the next start, in new sessions."""

UNCONFIRMED: Final = ("approvals.mode", "all")
"""The one value that is asked for twice, as on the Approvals screen."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, as it is in force and as the user's own file has it."""

    names: Names
    group: str
    meaning: str
    allowed: str
    """What it may be, in words."""
    kind: Kind
    effect: Effect
    value: str = ""
    """In force, as a settings file says it; empty where none is."""
    unset: str = ""
    """What stands for it where none is."""
    origin: str = ""
    """Who set it; empty where nobody did."""
    default: str = ""
    own: str | None = None
    """What the user's file says; None where nothing."""
    overruled_by: str = ""
    """Who goes before the user's file; empty where nobody does."""
    choices: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return dotted(self.names)

    @property
    def is_typed(self) -> bool:
        """Whether it can be written in a field."""
        return self.kind == "text" or (self.kind == "pick" and self.names != ("theme",))

    @property
    def next_choice(self) -> str:
        """The value after the one in the user's file, or after the one in force; the first after the last."""
        now = self.value if self.own is None else self.own
        at = self.choices.index(now) if now in self.choices else -1
        return self.choices[(at + 1) % len(self.choices)]

    def holds(self, words: Sequence[str]) -> bool:
        """Whether all these words, in small letters, are in what is seen of it."""
        text = f"{self.group} {self.key} {self.value} {self.origin} {self.meaning}".lower()
        return all(word in text for word in words)


@dataclass(frozen=True, slots=True)
class SettingsState:
    """All settings, the mark among those that match, and what is being typed."""

    settings: tuple[Setting, ...]
    file: str = "config.toml"
    """The user's own file, as people are told of it."""
    query: str = ""
    searching: bool = False
    """Whether the search field has the focus."""
    marked: Names = ()
    editing: bool = False
    """Whether the value of the marked one is being typed."""
    fault: str = ""
    """Why what is typed is no value, or why the last change was not kept."""
    news: str = ""
    """What became of the last change."""
    confirming: bool = False
    """Whether the value that is asked for twice was asked for once."""

    @property
    def shown(self) -> tuple[Setting, ...]:
        """Those that hold all words searched for."""
        words = self.query.lower().split()
        return tuple(each for each in self.settings if each.holds(words)) if words else self.settings

    @property
    def at(self) -> int:
        """The place of the mark among those shown."""
        return next((at for at, each in enumerate(self.shown) if each.names == self.marked), 0)

    @property
    def setting(self) -> Setting | None:
        """The marked one."""
        shown = self.shown
        return shown[self.at] if shown else None

    def moved(self, step: int) -> "SettingsState":
        """The mark so many rows further."""
        shown = self.shown
        if not shown or self.editing:
            return self
        at = min(max(self.at + step, 0), len(shown) - 1)
        return replace(self.quiet(), marked=shown[at].names)

    def quiet(self) -> "SettingsState":
        """Nothing told of what was done before."""
        return replace(self, fault="", news="", confirming=False)

    def searched(self, query: str) -> "SettingsState":
        """What holds these words; the mark goes to the key that is named like them, else stays, else goes to
        the first key they are in."""
        found = replace(self.quiet(), query=query)
        words, shown = query.lower().split(), found.shown
        named = [each for each in shown if words and each.names[-1].lower() == "".join(words)]
        stays = [each for each in shown if each.names == self.marked]
        in_key = [each for each in shown if all(word in each.key.lower() for word in words)]
        best = next(iter((*named, *stays, *in_key, *shown)), None)
        return replace(found, marked=best.names if best is not None else ())

    def refreshed(self, settings: Sequence[Setting]) -> "SettingsState":
        """The settings as they are now; the mark stays with its key."""
        return replace(self, settings=tuple(settings))

    def edit(self) -> "SettingsState":
        return replace(self.quiet(), editing=True, searching=False)

    def left(self) -> "SettingsState":
        """No field has the focus any more."""
        return replace(self, editing=False, searching=False, fault="")


def begin(settings: Sequence[Setting], file: str) -> SettingsState:
    """With the mark at the first one."""
    return SettingsState(tuple(settings), file, marked=settings[0].names if settings else ())
