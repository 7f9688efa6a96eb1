"""Colour themes: TOML files that give the seven roles; the background is the terminal's."""

import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from textual.color import Color, ColorParseError
from textual.theme import Theme

from foldline.data import data_dir
from foldline.tui.blocks.styles import ROLES

if TYPE_CHECKING:
    from foldline.protocol import FoldlineError

DEFAULT_THEME = "foldline-dark"
_TERMINAL = "default"
"""The terminal's own foreground, as a theme file names it."""

ROLE_DEFAULTS: dict[str, str] = {
    "role-text": "ansi_default",
    "role-muted": "ansi_bright_black",
    "role-accent": "ansi_cyan",
    "role-live": "ansi_green",
    "role-altered": "ansi_yellow",
    "role-folded": "ansi_blue",
    "role-alert": "ansi_red",
}
"""Values of the role variables for themes that do not name them; for `App.get_theme_variable_defaults`."""


def load_themes(user_folder: Path | None = None) -> tuple[Theme, ...]:
    """The shipped themes, then the user's own; one of the same name replaces a shipped one.

    Raises:
        FoldlineError: a theme file cannot be read or says something wrong.
    """
    found: dict[str, Theme] = {}
    for folder in (data_dir("themes"), user_folder):
        for path in _files(folder):
            theme = read_theme(path)
            found[theme.name] = theme
    return tuple(found.values())


def read_theme(path: Path) -> Theme:
    """One theme file. Its name is the file's; it says `dark` and, under `[roles]`, a colour for each role.

    Raises:
        FoldlineError: with the file and what is wrong in it.
    """
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _error(f"The theme {path} cannot be read: {error}. Mend or remove the file.") from error
    unknown = [key for key in data if key not in ("dark", "roles", "description")]
    if unknown:
        raise _error(
            f"The theme {path} has an unknown key {unknown[0]!r}; it may have dark, description and [roles]."
        )
    dark = data.get("dark", True)
    if not isinstance(dark, bool):
        raise _error(f"The theme {path} says dark = {dark!r}; it must be true or false.")
    roles = data.get("roles")
    if not isinstance(roles, dict):
        raise _error(
            f"The theme {path} has no [roles]; it must give a colour for each of {', '.join(ROLES)}."
        )
    wrong = [role for role in roles if role not in ROLES]
    missing = [role for role in ROLES if role not in roles]
    if wrong or missing:
        problem = f"an unknown role {wrong[0]!r}" if wrong else f"no role {missing[0]!r}"
        raise _error(f"The theme {path} has {problem}; the roles are {', '.join(ROLES)}.")
    return _theme(path.stem, dark, {role: _color(path, role, value) for role, value in roles.items()})


def _files(folder: Path | None) -> Iterator[Path]:
    if folder is not None and folder.is_dir():
        yield from sorted(folder.glob("*.toml"))


def _color(path: Path, role: str, value: object) -> str:
    """A theme file's colour as Textual names it: `#rrggbb`, `default`, or one of the terminal's 16."""
    if not isinstance(value, str):
        raise _error(f"The theme {path} gives the role {role} no text; write a colour in quotes.")
    for spelled in (f"ansi_{value}", value):
        try:
            Color.parse(spelled)
        except ColorParseError:
            continue
        return spelled
    raise _error(
        f"The theme {path} gives the role {role} the colour {value!r}; write #rrggbb, {_TERMINAL}, "
        "or a terminal colour such as bright_blue."
    )


def _error(sentence: str) -> "FoldlineError":
    # Imported here because the protocol costs pydantic, and themes are loaded before the first paint.
    from foldline.protocol import FoldlineError

    return FoldlineError(sentence)


def _theme(name: str, dark: bool, roles: dict[str, str]) -> Theme:
    accent, muted = roles["accent"], roles["muted"]
    return Theme(
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
            "ansi-background": "ansi_default",
            "border": accent,
            "border-blurred": muted,
            "scrollbar": muted,
            "scrollbar-hover": accent,
            "scrollbar-active": accent,
            "scrollbar-background": "ansi_default",
            "scrollbar-background-hover": "ansi_default",
            "scrollbar-background-active": "ansi_default",
            "block-cursor-background": "ansi_default",
            "block-cursor-foreground": roles["text"],
            "block-cursor-text-style": "reverse",
            "footer-key-foreground": accent,
        },
    )


def own_themes(themes: Iterable[Theme]) -> list[str]:
    """Names of the themes that give the seven roles, in order."""
    return sorted(theme.name for theme in themes if "role-text" in theme.variables)
