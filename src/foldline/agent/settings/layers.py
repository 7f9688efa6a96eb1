"""Reads settings from files and environment variables.

Each source is a layer: a list of values, each with its origin. Imports nothing slow, because the chat needs
its theme before the first paint.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from foldline.agent.project.trust import agreed_bytes, project_file
from foldline.data import config_dir
from foldline.files import read_regular

if TYPE_CHECKING:  # imported late: see above
    from foldline.protocol import FoldlineError

UNREADABLE = "The settings in {path} cannot be read: {reason}."
TOO_LARGE = "The settings in {path} are too large (over 1 MB)."
NOT_UTF_8 = "The settings in {path} are not UTF-8 text."
NOT_TOML = "The settings in {path} are not valid TOML: {reason}."
TOO_DEEP = "The settings in {path} are nested too deeply."

CONFIG_FILE = "config.toml"

MODELS = "models"
"""Name of the settings section with one table for each model."""
PROVIDERS = "providers"
MCP = "mcp"
KEY_SETTINGS = "keys"
"""Name of the settings section with the key bindings, one table per screen."""
BY_NAME = (MODELS, PROVIDERS, MCP)
"""Sections whose tables have names chosen by the user."""

_SEARCH_FILTERS = "the search of the Inspector finds `tool:bash` and `state:hidden`"
_INSPECTOR_KEYS = "comparisons and sizes are modes of the Inspector, with its keys"
_REWIND_LISTS = "`/rewind` lists the branches"
_PICKER = "this list uses the keys in [keys.picker]"
_SESSION_ACTIONS = [
    "resume",
    "read",
    "fork",
    "import",
    "rename",
    "archive",
    "delete",
    "search",
    "other",
]
REMOVED: Mapping[str, str] = {
    "vim": "Vim mode was removed; Ctrl+G opens the prompt in your editor",
    "keys.*.border-*": "borders between panels can no longer be moved",
    "keys.filter.*": _SEARCH_FILTERS,
    "keys.inspector.filter": _SEARCH_FILTERS,
    "keys.inspector.panel-4": "the key `timeline` shows and hides the timeline",
    "keys.chat.tree": _REWIND_LISTS,
    "keys.preview.mark": "in the preview, `p` pins one fact at a time",
    "keys.tree.*": _REWIND_LISTS,
    "keys.tour.*": "the demo has no tour",
    "compaction.idle": "Foldline no longer compacts because the provider's cache expires",
    **dict.fromkeys(
        (
            "models.*.threshold",
            "models.*.reserve_tokens",
            "models.*.keep_recent_tokens",
            "models.*.max_summary_tokens",
            "models.*.soft_ratio",
        ),
        "[compaction] is for all models, and its sizes may be a percentage of the window",
    ),
    "context.branch_note": "the model no longer gets a note about the branch that you left",
    "sandbox.shell": "in the sandboxed modes, `!` commands always run in the sandbox",
    "limits.subagent_tokens": "limits.subagent_steps limits subagents",
    "keys.chat.close": "`Del` in the list of open sessions (Ctrl+T) closes one",
    "keys.chat.logout": "/provider logout removes a key",
    "keys.chat.search": "/sessions QUERY searches all sessions",
    "keys.chat.cost": "/status shows the cost",
    "keys.chat.compact-first": "/compact compacts before the next request",
    "keys.difference.*": _INSPECTOR_KEYS,
    "keys.context.*": _INSPECTOR_KEYS,
    "keys.rewind.overwrite": "a rewind keeps files that were changed outside the session",
    "keys.help.*": _PICKER,
    "keys.jobs.*": _PICKER,
    "keys.output.*": "pages of text have the keys of [keys.page]",
    "keys.approvals.*": _PICKER,
    "keys.settings.*": _PICKER,
    "keys.setup.*": _PICKER,
    "keys.picker.end-session": "it is now keys.picker.remove",
    "keys.rewind.*": _PICKER,
    **dict.fromkeys(
        (f"keys.sessions.{name}" for name in _SESSION_ACTIONS),
        "Ctrl+O in the list of sessions lists these actions",
    ),
}
"""Settings from earlier versions, by dotted key, with the reason why they have no effect.

A key may contain `*`.
"""

_ALIASES = {"FOLDLINE_CONTEXT_WINDOW": ("context", "window")}
_PREFIX = "FOLDLINE_"
_MOST = 1_000_000
"""Maximum length of a settings file, in characters.

A longer file is an error. The limit exists because a project's file may contain anything.
"""
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
"""Matches TOML keys that need no quotes."""
_ON_OR_OFF = {
    "true": "on",
    "1": "on",
    "yes": "on",
    "false": "off",
    "0": "off",
    "no": "off",
}


@dataclass(frozen=True, slots=True)
class RawSetting:
    """One value from a source, before validation."""

    names: tuple[str, ...]
    """The parts of the key.

    They are kept apart because a model's name may contain dots.
    """
    value: object
    origin: str
    """File, environment variable or option that sets the value, for display."""
    by_project: bool = False
    """Whether the value is from a project's file, which other people may have written."""
    for_this_run: bool = False
    """Whether the value applies only to this run, because it is from the environment or an option."""

    @property
    def key(self) -> str:
        return dotted(self.names)

    @property
    def removal(self) -> str:
        """Why a setting from an earlier version has no effect.

        Empty for other settings.
        """
        reasons = (
            reason
            for pattern, reason in REMOVED.items()
            if fnmatchcase(self.key, pattern)
        )
        return next(reasons, "")


def dotted(names: Sequence[str]) -> str:
    """Return a key as written in TOML: `compaction.mode`, `models."gpt-4.1".window`."""
    return ".".join(
        name if _BARE_KEY.fullmatch(name) else _quoted(name) for name in names
    )


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


# --- files ------------------------------------------------------------------------------------------------


def config_file(environ: Mapping[str, str]) -> Path:
    return config_dir(environ) / CONFIG_FILE


def from_file(path: Path) -> list[RawSetting]:
    """Read settings from a TOML file.

    Returns no settings if the file is missing.

    Raises:
        FoldlineError: the file cannot be read, or is not valid TOML.
    """
    try:
        return from_bytes(path, read_regular(path, 4 * _MOST + 4))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _problem(UNREADABLE.format(path=path, reason=error.strerror)) from None


def from_project(cwd: Path) -> list[RawSetting]:
    """Read settings from the project's file, if the user has agreed to it.

    Raises:
        FoldlineError: as for `from_file`.
    """
    path = project_file(cwd)
    if path is None:
        return []
    try:
        data = agreed_bytes(path)
    except OSError as error:
        raise _problem(UNREADABLE.format(path=path, reason=error.strerror)) from None
    return [] if data is None else from_bytes(path, data, by_project=True)


def from_bytes(
    path: Path,
    data: bytes,
    *,
    by_project: bool = False,
) -> list[RawSetting]:
    """Parse the content of a TOML file.

    Raises:
        FoldlineError: the content is not valid TOML, or too large.
    """
    try:
        text = data.decode()
        if len(text) > _MOST:
            raise _problem(TOO_LARGE.format(path=path))
        table = tomllib.loads(text)
        return [
            RawSetting(names, value, str(path), by_project)
            for names, value in _flat(table)
        ]
    except UnicodeDecodeError:
        raise _problem(NOT_UTF_8.format(path=path)) from None
    except ValueError as error:
        reason = str(error)
        reason = reason[:1].lower() + reason[1:]
        raise _problem(NOT_TOML.format(path=path, reason=reason)) from None
    except RecursionError:
        raise _problem(TOO_DEEP.format(path=path)) from None


def _flat(
    table: Mapping[str, object], prefix: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, (*prefix, name))
        else:
            yield (*prefix, name), value


def _problem(sentence: str) -> "FoldlineError":
    from foldline.protocol import FoldlineError

    return FoldlineError(sentence)


# --- environment ------------------------------------------------------------------------------------------


def from_environment(
    environ: Mapping[str, str], top_level: Iterable[str]
) -> list[RawSetting]:
    """Read settings from environment variables. Empty variables count as unset.

    The forms are `FOLDLINE_MODEL`, `FOLDLINE_SECTION__KEY` and `FOLDLINE_MODELS__NAME__KEY`.

    Args:
        top_level: keys that belong to no section.
    """
    names_of: dict[str, tuple[str, ...]] = {
        f"{_PREFIX}{key.upper()}": (key,) for key in top_level
    }
    names_of |= _ALIASES
    settings = []
    for variable, value in sorted(environ.items()):
        names = names_of.get(variable)
        if names is None and variable.startswith(_PREFIX) and "__" in variable:
            names = _names(variable.removeprefix(_PREFIX).lower())
        if names is not None and value.strip():
            setting = RawSetting(names, value.strip(), variable, for_this_run=True)
            settings.append(setting)
    return settings


def _names(variable: str) -> tuple[str, ...]:
    """Split `section__key` into its parts.

    In `models__NAME__KEY`, the name may contain `__`.
    """
    section, _, path = variable.partition("__")
    if section not in BY_NAME:
        return (section, *path.split("__"))
    name, _, key = path.rpartition("__")
    return (section, name, key) if name else (section, key)


# --- settings needed early --------------------------------------------------------------------------------


def theme_name(cwd: Path, environ: Mapping[str, str]) -> str | None:
    """Return the chosen theme. Works before the settings are loaded.

    Raises:
        FoldlineError: a settings file cannot be read.
    """
    settings = [
        *from_file(config_file(environ)),
        *from_project(cwd),
        *from_environment(environ, ("theme",)),
    ]
    value = _newest(settings, "theme")
    return value if isinstance(value, str) else None


def chosen_by_user(name: str, environ: Mapping[str, str]) -> str | None:
    """Return an on-off setting from the user's file or the environment.

    Works before the settings are loaded.

    Raises:
        FoldlineError: the settings file cannot be read.
    """
    settings = [*from_file(config_file(environ)), *from_environment(environ, (name,))]
    value = _newest(settings, name)
    return None if value is None else on_or_off(value)


def _newest(settings: Sequence[RawSetting], name: str) -> object:
    values = [setting.value for setting in settings if setting.names == (name,)]
    return values[-1] if values else None


def on_or_off(value: object) -> str:
    """Normalise an on-off value: `true`, `1` and `yes` become `on`."""
    word = str(value).strip().lower()
    return _ON_OR_OFF.get(word, word)


def key_settings(environ: Mapping[str, str]) -> list[RawSetting]:
    """Return the user's key bindings, without those of removed commands.

    Works before the settings are loaded. Projects cannot set key bindings.

    Raises:
        FoldlineError: the settings file cannot be read.
    """
    settings = [*from_file(config_file(environ)), *from_environment(environ, ())]
    return [
        setting
        for setting in settings
        if setting.names[0] == KEY_SETTINGS and not setting.removal
    ]
