"""Where settings come from: files and the environment, each a layer of keys with its origin.

Imports nothing that takes time: the chat needs its theme before the first paint, and all else after it.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from foldline.data import config_dir
from foldline.files import is_file, read_regular

from .discovery import up_to_top
from .trust import PROJECT_FILE, agreed_bytes

if TYPE_CHECKING:
    from foldline.protocol import FoldlineError

CONFIG_FILE = "config.toml"

MODELS = "models"
"""The section that holds one table for each model, by its name."""
PROVIDERS = "providers"
MCP = "mcp"
KEY_SETTINGS = "keys"
"""The section of the keys on the screens; it has a table for each screen, by its name."""
BY_NAME = (MODELS, PROVIDERS, MCP)
"""The sections whose tables have names of the user's choice."""

_ALIASES = {"FOLDLINE_CONTEXT_WINDOW": ("context", "window")}
_PREFIX = "FOLDLINE_"
_MOST = 1_000_000
"""Characters of a file of settings; one of a project may be anything."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")
"""What TOML takes as a key without quotes."""


@dataclass(frozen=True, slots=True)
class Given:
    """One value somebody set, not yet looked at."""

    names: tuple[str, ...]
    """Its key, name by name: the name of a model may hold dots."""
    value: object
    origin: str
    """The file, environment variable or option it was set by: for people."""
    by_project: bool = False
    """Whether it came with the project's files, which may be somebody else's."""
    for_this_run: bool = False
    """Whether it was set for this run only, by the environment or an option."""

    @property
    def key(self) -> str:
        return dotted(self.names)


def dotted(names: Sequence[str]) -> str:
    """A key as TOML writes it: `compaction.mode`, `models."gpt-4.1".window`."""
    return ".".join(name if _BARE.fullmatch(name) else _quoted(name) for name in names)


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def config_file(environ: Mapping[str, str]) -> Path:
    return config_dir(environ) / CONFIG_FILE


def project_file(cwd: Path) -> Path | None:
    """The nearest `.foldline.toml` up to the top of the git repository; outside of one, that in `cwd`."""
    files = (folder / PROJECT_FILE for folder in up_to_top(cwd))
    return next((file for file in files if is_file(file)), None)


def from_file(path: Path) -> list[Given]:
    """What a TOML file sets; nothing where there is no such file.

    Raises:
        FoldlineError: it cannot be read, or is not TOML.
    """
    try:
        return from_bytes(path, read_regular(path, 4 * _MOST + 4))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _problem(f"The settings in {path} cannot be read: {error.strerror}.") from None


def from_project(cwd: Path) -> list[Given]:
    """What the project's file sets, where there is one and the user has agreed to it.

    Raises:
        FoldlineError: as `from_file`.
    """
    path = project_file(cwd)
    if path is None:
        return []
    try:
        data = agreed_bytes(path)
    except OSError as error:
        raise _problem(f"The settings in {path} cannot be read: {error.strerror}.") from None
    return [] if data is None else from_bytes(path, data, by_project=True)


def from_bytes(path: Path, data: bytes, *, by_project: bool = False) -> list[Given]:
    """What a TOML file of this content sets.

    Raises:
        FoldlineError: it is not TOML.
    """
    try:
        text = data.decode()
        if len(text) > _MOST:
            raise _problem(f"The settings in {path} are longer than anybody wrote them: more than 1 MB.")
        table = tomllib.loads(text)
        return [Given(names, value, str(path), by_project) for names, value in _flat(table)]
    except UnicodeDecodeError:
        raise _problem(f"The settings in {path} are not UTF-8 text.") from None
    except ValueError as error:
        raise _problem(f"The settings in {path} are not valid TOML: {_reason(error)}.") from None
    except RecursionError:
        raise _problem(f"The settings in {path} are nested deeper than any that Foldline knows.") from None


def from_environment(environ: Mapping[str, str], top_level: Iterable[str]) -> list[Given]:
    """What the environment sets: `FOLDLINE_MODEL`, `FOLDLINE_SECTION__KEY`, `FOLDLINE_MODELS__NAME__KEY`.
    Empty values count as not set."""
    known: dict[str, tuple[str, ...]] = {f"{_PREFIX}{key.upper()}": (key,) for key in top_level}
    known |= _ALIASES
    given = []
    for variable, value in sorted(environ.items()):
        if variable in known:
            names = known[variable]
        elif variable.startswith(_PREFIX) and "__" in variable:
            names = _names(variable.removeprefix(_PREFIX).lower())
        else:
            continue
        if value.strip():
            given.append(Given(names, value.strip(), variable, for_this_run=True))
    return given


def _names(variable: str) -> tuple[str, ...]:
    """`section__key` by its names; of `models__NAME__KEY`, the name of the model may itself hold `__`."""
    section, _, rest = variable.partition("__")
    if section not in BY_NAME:
        return (section, *rest.split("__"))
    name, _, key = rest.rpartition("__")
    return (section, name, key) if name else (section, key)


def theme_name(cwd: Path, environ: Mapping[str, str]) -> str | None:
    """The theme that was chosen, before settings as a whole are looked at; None where none was.

    Raises:
        FoldlineError: a file of settings cannot be read.
    """
    given = from_file(config_file(environ))
    given += from_project(cwd)
    given += from_environment(environ, ("theme",))
    named = [item.value for item in given if item.names == ("theme",) and isinstance(item.value, str)]
    return named[-1] if named else None


def chosen_by_user(name: str, environ: Mapping[str, str]) -> str | None:
    """A setting with `on` and `off`, before settings as a whole are looked at; None where the user did not
    set it.

    Raises:
        FoldlineError: the file of settings cannot be read.
    """
    given = [*from_file(config_file(environ)), *from_environment(environ, (name,))]
    chosen = [item.value for item in given if item.names == (name,)]
    return on_or_off(chosen[-1]) if chosen else None


def on_or_off(value: object) -> str:
    """A choice with a third way, as people write it: `true`, `1` and `yes` are `on`."""
    word = str(value).strip().lower()
    return {"true": "on", "1": "on", "yes": "on", "false": "off", "0": "off", "no": "off"}.get(word, word)


def keys_given(environ: Mapping[str, str]) -> list[Given]:
    """What the user set of the keys on the screens, known before the first paint; a project has no say in it.

    Raises:
        FoldlineError: the file of settings cannot be read.
    """
    given = [*from_file(config_file(environ)), *from_environment(environ, ())]
    return [item for item in given if item.names[0] == KEY_SETTINGS]


def _flat(
    table: Mapping[str, object], before: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, (*before, name))
        else:
            yield (*before, name), value


def _reason(error: ValueError) -> str:
    text = str(error)
    return text[:1].lower() + text[1:]


def _problem(sentence: str) -> "FoldlineError":
    from foldline.protocol import FoldlineError

    return FoldlineError(sentence)
