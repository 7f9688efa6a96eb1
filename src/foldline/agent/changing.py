"""Changing one of the user's own settings: checked as all settings are, and everything around it kept."""

from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from foldline.files import read_regular
from foldline.protocol import FoldlineError

from .checking import checked
from .choosing_model import changed_config
from .keys import write_private
from .layers import BY_NAME, Given, config_file, from_file
from .settings import KEYS, TABLES, Settings

TYPED = "What you typed"
"""Who gave a value, for the sentence that refuses it."""


def field_of(names: Sequence[str]) -> FieldInfo:
    """What is declared of a setting, by its key, name by name."""
    return TABLES[names[0]][names[-1]] if names[0] in BY_NAME else KEYS[".".join(names)]


def shown(value: object) -> str:
    """As a settings file says it; empty where none is set."""
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def unset_words(names: Sequence[str]) -> str:
    """What stands for the value of a setting that has none: `by window`, `as for all`, `none`."""
    if field_of(names).default is not None:
        return "none"
    return "as for all" if names[0] in BY_NAME else "by window"


def kind_of(field: FieldInfo) -> Any:
    """The type a setting has where it is set: without `None` and limits."""
    kind: Any = field.annotation
    if get_origin(kind) in (UnionType, Union):
        kind = next(each for each in get_args(kind) if each is not type(None))
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return kind


def choices_of(field: FieldInfo) -> tuple[str, ...]:
    """The values to choose from, where the declaration lists them."""
    kind = kind_of(field)
    if kind is bool:
        return ("true", "false")
    return tuple(map(str, get_args(kind))) if get_origin(kind) is Literal else ()


def in_toml(names: Sequence[str], text: str) -> bool | int | float | str:
    """What was typed, as a settings file says it.

    Raises:
        FoldlineError: it is not allowed; the sentence says what is.
    """
    text = text.strip()
    checked(Given(tuple(names), text, TYPED), KEYS, TABLES)
    kind = kind_of(field_of(names))
    if kind is bool:
        return text.lower() in ("true", "1", "yes", "on", "t", "y")
    if kind is float:
        return float(text)
    return text if kind is str or not text.isdecimal() else int(text)


def own_values(environ: Mapping[str, str]) -> dict[tuple[str, ...], object]:
    """What the user's own file sets, by key, name by name.

    Raises:
        FoldlineError: it cannot be read.
    """
    return {given.names: given.value for given in from_file(config_file(environ))}


def change(
    settings: Settings,
    cwd: Path | str,
    environ: Mapping[str, str],
    names: Sequence[str],
    value: bool | int | float | str | None,
) -> Settings:
    """Sets one of the user's own settings; None takes it out again. The settings in force then.

    Raises:
        FoldlineError: the file cannot be read or written, or would not be valid; it is as it was.
    """
    path = config_file(environ)
    from_file(path)  # Says what is wrong with it, if anything is.
    before = read_regular(path).decode() if path.exists() else None
    _write(environ, names, value)
    try:
        return settings.again(cwd, environ)
    except FoldlineError:
        if before is None:
            path.unlink(missing_ok=True)
        else:
            write_private(path, before)
        raise


def _write(environ: Mapping[str, str], names: Sequence[str], value: bool | int | float | str | None) -> None:
    import tomlkit

    with changed_config(environ) as document:
        table: MutableMapping[str, Any] = document
        for name in names[:-1]:
            spelled = _as_in(table, name)
            if spelled not in table:
                if value is None:
                    break
                table[spelled] = tomlkit.table(is_super_table=name in BY_NAME)
            table = table[spelled]
        else:
            if value is None:
                table.pop(names[-1], None)
            else:
                table[names[-1]] = value


def _as_in(table: Mapping[str, Any], name: str) -> str:
    """The name as the file spells it: upper and lower case do not tell models apart."""
    return next((each for each in table if each.lower() == name.lower()), name)
