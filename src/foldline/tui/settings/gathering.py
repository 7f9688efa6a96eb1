"""The settings as the screen lists them: from their declarations, the files, and what is in force."""

from collections.abc import Iterator, Mapping, Sequence

from foldline.agent.layers import BY_NAME, MODELS, config_file, dotted
from foldline.agent.settings import DEFAULT, KEYS, MODEL_KEYS, Settings
from foldline.agent.settings_edit import choices_of, field_of, kind_of, own_values, shown, unset_words
from foldline.agent.settings_schema import allowed, is_secret
from foldline.compaction.registry import BUILT_IN
from foldline.history.paths import with_tilde
from foldline.tui.keys.table import name_of
from foldline.tui.settings.keys import KEYS as SETTINGS_KEYS
from foldline.tui.settings.state import Effect, Kind, Names, Setting

_GENERAL = "General"
_AT_ONCE = frozenset({"theme", "model", "provider"})
_FROM_THE_START = frozenset({"embedding_model", "window"})
"""Of what folds: the last names of keys that are built into a running session."""
_CYCLED = 4
"""Values of which the next one is taken, instead of one from a list."""


def gathered(
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
    for key in MODEL_KEYS:
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
    return (
        f"one of {len(choices)}: {name_of(SETTINGS_KEYS, 'change')} lists them" if key == "theme" else words
    )


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
    folds = names[0] in ("compaction", MODELS) and names[-1] not in _FROM_THE_START
    return "now" if key in _AT_ONCE or folds else "start"
