"""Colour themes: TOML files that give the roles of text, and the background that they were chosen for."""

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
from foldline.tui.blocks.styles import ROLES

DEFAULT_THEME = "foldline-dark"
AUTO: Final = "auto"
"""The theme that follows the terminal: dark, light, or its own colours where it has only 16."""
LIGHT: Final = "foldline-light"
OWN_COLOURS: Final = "terminal"
_HEX: Final = re.compile("#[0-9a-fA-F]{6}")
_TERMINAL = "default"
"""The terminal's own foreground, as a theme file names it."""
_KEYS: Final = ("dark", "roles", "description", "background")
_OPTIONAL: Final = {"code": "accent"}
"""A role that a file may leave out, and the one whose colour it has then."""
_BACKGROUNDS: Final = (
    *("role-background", "ansi-background", "block-cursor-background", "scrollbar-background"),
    *("scrollbar-background-hover", "scrollbar-background-active"),
)
_NEAR_WHITE: Final = "#e0e0e0"
_NEAR_BLACK: Final = "#1f2328"
"""Text in the terminal's own colour, where the background is not the terminal's."""
_DARK_COLOURS: Final = frozenset({0, 1, 2, 3, 4, 5, 6, 8})
"""Of the 16 colours, those that rxvt and its heirs count as a dark background in COLORFGBG."""

ROLE_DEFAULTS: dict[str, str] = {
    "role-text": "ansi_default",
    "role-muted": "ansi_bright_black",
    "role-accent": "ansi_cyan",
    "role-live": "ansi_green",
    "role-altered": "ansi_yellow",
    "role-folded": "ansi_blue",
    "role-alert": "ansi_red",
    "role-code": "ansi_magenta",
    "role-background": "ansi_default",
}
"""Values of the role variables for themes that do not name them; for `App.get_theme_variable_defaults`."""


@dataclass
class RoleTheme(Theme):
    """A theme from a file, and what the file says of it."""

    description: str = ""
    own_background: str = ""
    """`#rrggbb`, for which its colours were chosen; painted only where the user wants it."""


def load_themes(
    user_folder: Path | None = None, *, dark: bool = True, few_colours: bool = False
) -> tuple[RoleTheme, ...]:
    """The shipped themes, then the user's own; one of the same name replaces a shipped one. `auto` is among
    them, and as `dark` as the terminal is. A broken file of the user's is left out: `theme_faults` says why.

    Raises:
        FoldlineError: a shipped theme file is broken.
    """
    found = {theme.name: theme for theme in map(read_theme, _files(data_dir("themes")))}
    found[AUTO] = automatic(found.values(), dark=dark, few_colours=few_colours)
    for path in _files(user_folder):
        if not isinstance(theme := _read(path), str):
            found[theme.name] = theme
    return tuple(found.values())


def load_theme(
    name: str, user_folder: Path | None = None, *, dark: bool = True, few_colours: bool = False
) -> RoleTheme | None:
    """The theme of that name, as `load_themes` has it, and no other file read: a start needs one of them.
    None where there is none of that name.

    Raises:
        FoldlineError: its file is broken.
    """
    for folder in filter(None, (user_folder, data_dir("themes"))):
        path = folder / f"{name}.toml"
        if path.parent == folder and path.is_file():
            return read_theme(path)
    if name != AUTO:
        return None
    shipped = (load_theme(like) for like in (DEFAULT_THEME, LIGHT, OWN_COLOURS))
    return automatic(filter(None, shipped), dark=dark, few_colours=few_colours)


def theme_faults(user_folder: Path | None) -> dict[str, str]:
    """What is wrong with each broken file of the user's, as a sentence, by the name of its theme."""
    read = {path.stem: _read(path) for path in _files(user_folder)}
    return {name: fault for name, fault in read.items() if isinstance(fault, str)}


def automatic(themes: Iterable[Theme], *, dark: bool, few_colours: bool = False) -> RoleTheme:
    """`auto` as it is on a dark terminal, a light one, or one with no more than 16 colours."""
    like = OWN_COLOURS if few_colours else DEFAULT_THEME if dark else LIGHT
    base = next(theme for theme in themes if theme.name == like)
    assert isinstance(base, RoleTheme), "made from a file"
    return replace(base, name=AUTO, description="Follows the terminal: dark or light")


def is_dark(environ: Mapping[str, str]) -> bool | None:
    """Whether the terminal is dark, by COLORFGBG (`15;0`, `0;default;15`); None where that says nothing."""
    last = environ.get("COLORFGBG", "").rpartition(";")[2]
    return int(last) in _DARK_COLOURS if last.isdecimal() else None


def painted(theme: Theme) -> dict[str, str]:
    """The variables with which a theme paints its own background; none where it has no such."""
    if not isinstance(theme, RoleTheme) or not theme.own_background:
        return {}
    variables = dict.fromkeys(_BACKGROUNDS, theme.own_background)
    if theme.variables["role-text"] == f"ansi_{_TERMINAL}":
        variables["role-text"] = variables["foreground"] = _NEAR_WHITE if theme.dark else _NEAR_BLACK
    return variables


def clash(theme: Theme, dark: bool | None) -> str:
    """That a theme is for other terminals than a dark one, or a light one, as a sentence. Empty where it is
    not, where nobody knows, and where its colours are the terminal's own."""
    fixed = any(theme.variables.get(f"role-{role}", "").startswith("#") for role in ROLES)
    if dark in (None, theme.dark) or not fixed:
        return ""
    return "For light terminals; yours is dark." if dark else "For dark terminals; yours is light."


def read_theme(path: Path) -> RoleTheme:
    """One theme file. Its name is the file's; it says `dark` and, under `[roles]`, a colour for each role.

    Raises:
        FoldlineError: with the file and what is wrong in it.
    """
    theme = _read(path)
    if isinstance(theme, str):
        # Imported here because the protocol costs pydantic, and themes are loaded before the first paint.
        from foldline.protocol import FoldlineError

        raise FoldlineError(theme)
    return theme


class _Fault(Exception):
    """What is wrong in a theme file, as the end of a sentence about it."""


def _read(path: Path) -> RoleTheme | str:
    """One theme file, or what is wrong with it."""
    try:
        stat = path.stat()
        return _read_once(path, stat.st_mtime_ns, stat.st_size)
    except _Fault as fault:
        return f"The theme {path} {fault}"
    except (OSError, ValueError) as error:  # also where it is not UTF-8, or not TOML
        return f"The theme {path} cannot be read: {error}. Mend or remove the file."


@lru_cache(maxsize=1_024)
def _read_once(path: Path, changed: int, size: int) -> RoleTheme:
    """A file as it was when it was `changed`, of this `size`: themes are listed again and again."""
    data = tomllib.loads(path.read_text("utf-8"))
    unknown = [key for key in data if key not in _KEYS]
    if unknown:
        raise _Fault(
            f"has an unknown key {unknown[0]!r}; it may have dark, description, background and [roles]."
        )
    dark, roles = data.get("dark", True), data.get("roles")
    if not isinstance(dark, bool):
        raise _Fault(f"says dark = {dark!r}; it must be true or false.")
    if not isinstance(roles, dict):
        raise _Fault(f"has no [roles]; it must give a colour for each of {', '.join(ROLES)}.")
    wrong = [f"an unknown role {role!r}" for role in roles if role not in ROLES]
    wrong += [f"no role {role!r}" for role in ROLES if role not in roles | _OPTIONAL]
    if wrong:
        raise _Fault(f"has {wrong[0]}; the roles are {', '.join(ROLES)}.")
    colors = {role: _color(role, value) for role, value in roles.items()}
    colors = {role: colors[like] for role, like in _OPTIONAL.items()} | colors
    background = str(data.get("background", ""))
    if background and not _HEX.fullmatch(background):
        raise _Fault(f"has the background {background!r}; write #rrggbb.")
    return replace(
        _theme(path.stem, dark, colors),
        description=str(data.get("description", "")),
        own_background=background,
    )


def _files(folder: Path | None) -> Iterator[Path]:
    if folder is not None and folder.is_dir():
        yield from sorted(folder.glob("*.toml"))


def _color(role: str, value: object) -> str:
    """A theme file's colour as Textual names it: `#rrggbb`, `default`, or one of the terminal's 16."""
    if not isinstance(value, str):
        raise _Fault(f"gives the role {role} no text; write a colour in quotes.")
    # Textual looks for similar names where there is none of this name: 1 ms for each colour.
    for spelled in (value,) if value.startswith("#") else (f"ansi_{value}", value):
        try:
            Color.parse(spelled)
        except ColorParseError:
            continue
        return spelled
    raise _Fault(
        f"gives the role {role} the colour {value!r}; write #rrggbb, {_TERMINAL}, "
        "or a terminal colour such as bright_blue."
    )


def _theme(name: str, dark: bool, roles: dict[str, str]) -> RoleTheme:
    accent, muted = roles["accent"], roles["muted"]
    return RoleTheme(
        name=name,
        dark=dark,
        # Native colours: the background stays the terminal's, and NO_COLOR leaves it alone too.
        ansi=True,
        primary=accent,
        secondary=roles["folded"],
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
    """Names of the themes that give the roles, the one that follows the terminal first."""
    names = sorted(theme.name for theme in themes if "role-text" in theme.variables)
    return sorted(names, key=lambda name: name != AUTO)


def described(themes: Iterable[Theme]) -> Sequence[tuple[str, str]]:
    """(name, what its file says of it) of the themes that give the roles."""
    by_name = {theme.name: theme for theme in themes}
    return [
        (name, theme.description if isinstance(theme := by_name[name], RoleTheme) else "")
        for name in own_themes(by_name.values())
    ]
