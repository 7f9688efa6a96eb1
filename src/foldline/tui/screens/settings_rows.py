"""The settings as rows: what each is, what the files say of it, and what is in force."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from foldline.agent.layers import BY_NAME, MODELS, config_file, dotted
from foldline.agent.settings import DEFAULT, Settings
from foldline.agent.settings_edit import own_values, shown, unset_words
from foldline.agent.settings_schema import KEYS, TABLES, allowed, choices_of, field_of, is_secret, kind_of
from foldline.compaction.registry import BUILT_IN
from foldline.history.paths import with_tilde

Names = tuple[str, ...]
"""A key, name by name: the name of a model may hold dots."""

Kind = Literal["cycle", "pick", "text", "model", "provider", "file"]
"""How a value is changed: the next of a few, one of a list, typed, on the screen that chooses models or
providers, or only in the file."""

Effect = Literal["now", "start", "sessions"]
"""When a change counts: at once, with the next start, in new sessions."""


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


_GENERAL = "General"
_AT_ONCE = frozenset({"theme", "model", "provider"})
_FROM_THE_START = frozenset({"embedding_model", "window"})
"""Of compaction: the last names of keys that are built into a running session."""
_CYCLED = 4
"""Values of which the next one is taken, instead of one from a list."""


def list_settings(
    now: Settings, environ: Mapping[str, str], *, model: str, themes: Sequence[str]
) -> tuple[Setting, ...]:
    """All settings, by groups; what may be set for the session's model, and what was set for others.

    Raises:
        FoldlineError: the user's file cannot be read.
    """
    own = {_low(names): value for names, value in own_values(environ).items()}
    found = now.values()
    file = str(config_file(environ))
    return tuple(
        _setting(names, group, now, found, own, file, themes) for names, group in _listed(now, own, model)
    )


def _listed(now: Settings, own: Mapping[Names, object], model: str) -> Iterator[tuple[Names, str]]:
    """Every key, name by name, and the group it stands in: of tables with names, what was set."""
    for key in KEYS:
        section = key.rpartition(".")[0]
        yield tuple(key.split(".")), section.capitalize() or _GENERAL
    here = model.lower()
    for key in TABLES[MODELS]:
        yield (MODELS, here, key), f"This model: {model}"
    for section in BY_NAME:
        tables = {name: list(table.model_fields_set) for name, table in getattr(now, section).items()}
        for names in own:
            if names[0] == section and len(names) == 3 and names[2] not in tables.setdefault(names[1], []):
                tables[names[1]].append(names[2])
        for name, keys in tables.items():
            if (section, name) != (MODELS, here):
                yield from (((section, name, key), f"{_TITLES[section]} {name}") for key in sorted(keys))


_TITLES = {"models": "Model", "providers": "Provider", "mcp": "MCP server"}


def _setting(
    names: Names,
    group: str,
    now: Settings,
    found: Mapping[str, object],
    own: Mapping[Names, object],
    file: str,
    themes: Sequence[str],
) -> Setting:
    key, field = dotted(names), field_of(names)
    origin = now.origin(key)
    choices = choices_of(field)
    if key == "theme":
        choices = tuple(themes)
    elif key == "compaction.strategy":
        choices = tuple(BUILT_IN)
    ours = own.get(_low(names))
    before = "" if origin in (DEFAULT, file) else origin
    if ours is not None and names[0] == MODELS and key not in found:
        # What is said for all models for this run goes before what a file says for one.
        origin = before = now.origin(f"{'context' if names[-1] == 'window' else 'compaction'}.{names[-1]}")
    return Setting(
        names,
        group,
        meaning=(field.description or "").replace("\n", " ").replace("`", ""),
        allowed=_allowed(key, allowed(field), choices),
        kind=_kind(names, key, kind_of(field), choices),
        effect=_effect(names, key),
        value=shown(found.get(key)),
        unset=unset_words(names),
        origin="" if origin == DEFAULT else with_tilde(origin),
        default=shown(field.default),
        own=None if ours is None else "(set)" if is_secret(names) else shown(ours),
        overruled_by=with_tilde(before),
        choices=choices,
    )


def _low(names: Names) -> Names:
    """Servers do not tell models and providers apart by upper and lower case."""
    return (names[0], names[1].lower(), *names[2:]) if names[0] in BY_NAME and len(names) > 2 else names


def _allowed(key: str, words: str, choices: Sequence[str]) -> str:
    return f"one of {len(choices)}, listed by Enter" if key == "theme" else words


def _kind(names: Names, key: str, kind: object, choices: Sequence[str]) -> Kind:
    if key in ("model", "provider"):
        return "model" if key == "model" else "provider"
    if kind not in (str, int, float, bool) and not choices and "Amount" not in str(kind):
        return "file"
    if is_secret(names):
        return "file"
    if choices:
        return "cycle" if len(choices) <= _CYCLED and key != "theme" else "pick"
    return "text"


def _effect(names: Names, key: str) -> Effect:
    if key == "approvals.mode":
        return "sessions"
    compaction = names[0] in ("compaction", MODELS) and names[-1] not in _FROM_THE_START
    return "now" if key in _AT_ONCE or compaction else "start"
