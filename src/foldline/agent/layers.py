"""Where settings come from: files and the environment, each a layer of dotted keys with its origin.

Imports nothing that takes time: the chat needs its theme before the first paint, and all else after it.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from foldline.data import config_dir

if TYPE_CHECKING:
    from foldline.protocol import FoldlineError

PROJECT_FILE = ".foldline.toml"
CONFIG_FILE = "config.toml"

_ALIASES = {"FOLDLINE_CONTEXT_WINDOW": "context.window"}
_PREFIX = "FOLDLINE_"


@dataclass(frozen=True, slots=True)
class Given:
    """One value somebody set, not yet looked at."""

    key: str
    """Dotted: `compaction.mode`."""
    value: object
    origin: str
    """The file, environment variable or option it was set by: for people."""
    by_project: bool = False
    """Whether it came with the project's files, which may be somebody else's."""


def config_file(environ: Mapping[str, str]) -> Path:
    return config_dir(environ) / CONFIG_FILE


def project_file(cwd: Path) -> Path | None:
    """The nearest `.foldline.toml` up to the top of the git repository; outside of one, that in `cwd`."""
    folders = [cwd, *cwd.parents]
    top = next((place for place, folder in enumerate(folders) if (folder / ".git").exists()), 0)
    for folder in folders[: top + 1]:
        if (folder / PROJECT_FILE).is_file():
            return folder / PROJECT_FILE
    return None


def from_file(path: Path, *, by_project: bool = False) -> list[Given]:
    """What a TOML file sets; nothing where there is no such file.

    Raises:
        FoldlineError: it cannot be read, or is not TOML.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _problem(f"The settings in {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise _problem(f"The settings in {path} are not UTF-8 text.") from None
    except tomllib.TOMLDecodeError as error:
        raise _problem(f"The settings in {path} are not valid TOML: {_reason(error)}.") from None
    return [Given(key, value, str(path), by_project) for key, value in _flat(table)]


def from_environment(environ: Mapping[str, str], top_level: Iterable[str]) -> list[Given]:
    """What the environment sets: `FOLDLINE_MODEL`, `FOLDLINE_SECTION__KEY`. Empty values count as not set."""
    keys = {f"{_PREFIX}{key.upper()}": key for key in top_level}
    given = []
    for name, value in sorted(environ.items()):
        if name in _ALIASES or name in keys:
            key = _ALIASES.get(name) or keys[name]
        elif name.startswith(_PREFIX) and "__" in name:
            key = name.removeprefix(_PREFIX).lower().replace("__", ".")
        else:
            continue
        if value.strip():
            given.append(Given(key, value.strip(), name))
    return given


def theme_name(cwd: Path, environ: Mapping[str, str]) -> str | None:
    """The theme that was chosen, before settings as a whole are looked at; None where none was.

    Raises:
        FoldlineError: a file of settings cannot be read.
    """
    given = from_file(config_file(environ))
    project = project_file(cwd)
    given += from_file(project, by_project=True) if project else []
    given += from_environment(environ, ("theme",))
    named = [item.value for item in given if item.key == "theme" and isinstance(item.value, str)]
    return named[-1] if named else None


def _flat(table: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{before}{key}.")
        elif not isinstance(value, dict):
            yield f"{before}{key}", value


def _reason(error: tomllib.TOMLDecodeError) -> str:
    text = str(error)
    return text[:1].lower() + text[1:]


def _problem(sentence: str) -> "FoldlineError":
    from foldline.protocol import FoldlineError

    return FoldlineError(sentence)
