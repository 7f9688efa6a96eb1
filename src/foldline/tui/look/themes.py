"""Colour themes: TOML files with a colour for each role of text."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from textual.color import Color, ColorParseError
from textual.theme import Theme

from foldline.data import data_dir
from foldline.tui.look.styles import ROLES

DEFAULT_THEME = "foldline-dark"
AUTO: Final = "auto"
"""Name of the theme that follows the terminal: dark, light, or the terminal's 16 colours."""
LIGHT: Final = "foldline-light"
OWN_COLOURS: Final = "terminal"
_HEX: Final = re.compile("#[0-9a-fA-F]{6}")
_TERMINAL = "default"
"""Name of the terminal's own foreground in theme files."""
_KEYS: Final = ("dark", "roles", "description", "background")
_OPTIONAL: Final = {"code": "accent"}
"""Optional roles, each with the role whose colour is used by default."""
_BACKGROUNDS: Final = (
    "role-background",
    "ansi-background",
    "block-cursor-background",
    "scrollbar-background",
    "scrollbar-background-hover",
    "scrollbar-background-active",
)
_NEAR_WHITE: Final = "#e0e0e0"
_NEAR_BLACK: Final = "#1f2328"
"""Colours used in place of the terminal's own foreground on a painted background."""
FOR_LIGHT = "For light terminals; yours is dark."
FOR_DARK = "For dark terminals; yours is light."
BROKEN = "The theme {path} {fault}"
UNREADABLE = "The theme {path} cannot be read: {error}. Fix or delete the file."
UNKNOWN_KEY = (
    "has an unknown key {key!r}; allowed: dark, description, background and [roles]."
)
NOT_A_BOOLEAN = "sets dark = {value!r}; allowed: true or false."
NO_ROLES = "needs a table [roles] with a colour for each of {roles}."
WRONG_ROLE = "has {problem}; the roles are {roles}."
WRONG_BACKGROUND = "has the background {value!r}; use #rrggbb."
NOT_TEXT = "sets the role {role} to {value!r}; use a colour in quotes."
WRONG_COLOUR = (
    "sets the role {role} to {value!r}; use #rrggbb, default, "
    "or a terminal colour such as bright_blue."
)
_DARK_COLOURS: Final = frozenset({0, 1, 2, 3, 4, 5, 6, 8})
"""Values of the background in COLORFGBG that rxvt and its successors treat as dark."""

ROLE_DEFAULTS: dict[str, str] = {
    "role-text": "ansi_default",
    "role-muted": "ansi_bright_black",
    "role-accent": "ansi_cyan",
    "role-live": "ansi_green",
    "role-altered": "ansi_yellow",
    "role-compacted": "ansi_blue",
    "role-alert": "ansi_red",
    "role-code": "ansi_magenta",
    "role-background": "ansi_default",
}
"""Default values of the role variables, for `App.get_theme_variable_defaults`."""


@dataclass
class RoleTheme(Theme):
    """A theme that was read from a file."""

    description: str = ""
    own_background: str = ""
    """Background colour as `#rrggbb`. It is painted only with the setting `theme_background = "theme"`."""


def load_themes(
    user_folder: Path | None = None, *, dark: bool = True, few_colours: bool = False
) -> tuple[RoleTheme, ...]:
    """Return the shipped themes, `auto` and the user's themes.

    A user's theme replaces a shipped theme of the same name. Broken theme files of the user are skipped;
    `theme_faults` returns their errors.

    Raises:
        FoldlineError: A shipped theme file is broken.
    """
    themes = {
        theme.name: theme for theme in map(read_theme, _files(data_dir("themes")))
    }
    themes[AUTO] = automatic(themes.values(), dark=dark, few_colours=few_colours)
    for path in _files(user_folder):
        if not isinstance(theme := _read(path), str):
            themes[theme.name] = theme
    return tuple(themes.values())


def load_theme(
    name: str,
    user_folder: Path | None = None,
    *,
    dark: bool = True,
    few_colours: bool = False,
) -> RoleTheme | None:
    """Return the theme with this name, without reading the others.

    Returns None if the theme does not exist.

    Raises:
        FoldlineError: The theme file is broken.
    """
    for folder in filter(None, (user_folder, data_dir("themes"))):
        path = folder / f"{name}.toml"
        if path.parent == folder and path.is_file():
            return read_theme(path)
    if name != AUTO:
        return None
    shipped = (load_theme(base) for base in (DEFAULT_THEME, LIGHT, OWN_COLOURS))
    return automatic(filter(None, shipped), dark=dark, few_colours=few_colours)


def theme_faults(user_folder: Path | None) -> dict[str, str]:
    """Return the error message for each of the user's broken theme files.

    The messages are keyed by theme name.
    """
    return {
        path.stem: fault
        for path in _files(user_folder)
        if isinstance(fault := _read(path), str)
    }


def automatic(
    themes: Iterable[Theme], *, dark: bool, few_colours: bool = False
) -> RoleTheme:
    """Return the `auto` theme.

    It depends on the terminal's background and number of colours.
    """
    name = DEFAULT_THEME if dark else LIGHT
    if few_colours:
        name = OWN_COLOURS
    base = next(theme for theme in themes if theme.name == name)
    assert isinstance(base, RoleTheme), "made from a file"
    return replace(base, name=AUTO, description="Follows the terminal: dark or light")


def is_dark(environ: Mapping[str, str]) -> bool | None:
    """Return whether COLORFGBG (`15;0`, `0;default;15`) says that the terminal is dark; None if unknown."""
    last = environ.get("COLORFGBG", "").rpartition(";")[2]
    return int(last) in _DARK_COLOURS if last.isdecimal() else None


def painted(theme: Theme) -> dict[str, str]:
    """Return the variables that paint a theme's own background; empty if it has none."""
    if not isinstance(theme, RoleTheme) or not theme.own_background:
        return {}
    variables = dict.fromkeys(_BACKGROUNDS, theme.own_background)
    if theme.variables["role-text"] == f"ansi_{_TERMINAL}":
        variables["role-text"] = variables["foreground"] = (
            _NEAR_WHITE if theme.dark else _NEAR_BLACK
        )
    return variables


def clash(theme: Theme, dark: bool | None) -> str:
    """Return a warning if a theme is unsuitable for the terminal's background.

    The warning is empty if the theme is suitable, if the background is unknown, or if the theme uses the
    terminal's own colours.
    """
    fixed = any(
        theme.variables.get(f"role-{role}", "").startswith("#") for role in ROLES
    )
    if dark in (None, theme.dark) or not fixed:
        return ""
    return FOR_LIGHT if dark else FOR_DARK


def read_theme(path: Path) -> RoleTheme:
    """Read a theme file.

    The file contains `dark` and, under `[roles]`, a colour for each role.

    Raises:
        FoldlineError: The file is broken.
    """
    theme = _read(path)
    if isinstance(theme, str):
        # Imported here because it needs pydantic, and themes are loaded before the first paint.
        from foldline.protocol import FoldlineError

        raise FoldlineError(theme)
    return theme


class _Fault(Exception):
    """A broken theme file.

    The error's message completes the sentence `The theme PATH …`.
    """


def _read(path: Path) -> RoleTheme | str:
    """Read a theme file, or return the error if it is broken.

    The error is a message for the user.
    """
    try:
        stat = path.stat()
        return _read_once(path, stat.st_mtime_ns, stat.st_size)
    except _Fault as fault:
        return BROKEN.format(path=path, fault=fault)
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or not TOML
        return UNREADABLE.format(path=path, error=error)


@lru_cache(maxsize=1_024)
def _read_once(path: Path, changed: int, size: int) -> RoleTheme:
    """Read a theme file.

    Cached until its modification time or size changes.
    """
    data = tomllib.loads(path.read_text("utf-8"))
    unknown = [key for key in data if key not in _KEYS]
    if unknown:
        raise _Fault(UNKNOWN_KEY.format(key=unknown[0]))
    dark = data.get("dark", True)
    roles = data.get("roles")
    if not isinstance(dark, bool):
        raise _Fault(NOT_A_BOOLEAN.format(value=dark))
    if not isinstance(roles, dict):
        raise _Fault(NO_ROLES.format(roles=", ".join(ROLES)))
    wrong = [f"an unknown role {role!r}" for role in roles if role not in ROLES]
    wrong += [f"no role {role!r}" for role in ROLES if role not in roles | _OPTIONAL]
    if wrong:
        raise _Fault(WRONG_ROLE.format(problem=wrong[0], roles=", ".join(ROLES)))
    colors = {role: _color(role, value) for role, value in roles.items()}
    colors = {role: colors[default] for role, default in _OPTIONAL.items()} | colors
    background = str(data.get("background", ""))
    if background and not _HEX.fullmatch(background):
        raise _Fault(WRONG_BACKGROUND.format(value=background))
    return _theme(path.stem, dark, colors, str(data.get("description", "")), background)


def _files(folder: Path | None) -> Iterator[Path]:
    if folder is not None and folder.is_dir():
        yield from sorted(folder.glob("*.toml"))


def _color(role: str, value: object) -> str:
    """Convert a colour from a theme file to Textual's name.

    The file has `#rrggbb`, `default`, or one of the terminal's 16 colours.
    """
    if not isinstance(value, str):
        raise _Fault(NOT_TEXT.format(role=role, value=value))
    # For an unknown name, Textual searches for similar names, which takes 1 ms per colour.
    for spelled in (value,) if value.startswith("#") else (f"ansi_{value}", value):
        try:
            Color.parse(spelled)
        except ColorParseError:
            continue
        return spelled
    raise _Fault(WRONG_COLOUR.format(role=role, value=value))


def _theme(
    name: str, dark: bool, roles: dict[str, str], description: str, background: str
) -> RoleTheme:
    accent = roles["accent"]
    muted = roles["muted"]
    return RoleTheme(
        name=name,
        dark=dark,
        description=description,
        own_background=background,
        # Native colours keep the terminal's background, even with NO_COLOR.
        ansi=True,
        primary=accent,
        secondary=roles["compacted"],
        accent=accent,
        success=roles["live"],
        warning=roles["altered"],
        error=roles["alert"],
        variables={
            **{f"role-{role}": color for role, color in roles.items()},
            "foreground": roles["text"],
            "border": accent,
            "border-blurred": muted,
            "scrollbar": muted,
            "scrollbar-hover": accent,
            "scrollbar-active": accent,
            **dict.fromkeys(_BACKGROUNDS, "ansi_default"),
            "block-cursor-foreground": roles["text"],
            "block-cursor-text-style": "reverse",
            "footer-key-foreground": accent,
        },
    )


def own_themes(themes: Iterable[Theme]) -> list[str]:
    """Return the names of the themes that define roles, `auto` first."""
    names = sorted(theme.name for theme in themes if "role-text" in theme.variables)
    return sorted(names, key=lambda name: name != AUTO)


def described(themes: Iterable[Theme]) -> Sequence[tuple[str, str]]:
    """Return (name, description) of the themes that define roles."""
    by_name = {theme.name: theme for theme in themes}
    return [
        (name, getattr(by_name[name], "description", ""))
        for name in own_themes(by_name.values())
    ]
