"""The seven colour roles of the screens as Rich styles, and nothing else that has a colour."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rich.color import Color as RichColor
from rich.style import Style
from textual.color import Color, ColorParseError

ROLES: Final = ("text", "muted", "accent", "live", "altered", "folded", "alert")
"""What a colour may mean; SCREENS.md, "Marks and colours"."""

_FALLBACK_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("foreground",),
    "muted": ("foreground-darken-3", "text-muted"),
    "accent": ("accent", "primary"),
    "live": ("success",),
    "altered": ("warning",),
    "folded": ("secondary", "primary"),
    "alert": ("error",),
}
"""Variables every Textual theme has, for themes that do not name our roles."""

_ATTRIBUTES: Final[Mapping[str, Style]] = {
    "bold": Style(bold=True),
    "italic": Style(italic=True),
    "underline": Style(underline=True),
    "strike": Style(strike=True),
    "dim": Style(dim=True),
    "reverse": Style(reverse=True),
    # Drawn, but no part of the text: left out when a selection is copied.
    "deco": Style(meta={"deco": True}),
}


@dataclass(frozen=True)
class Styles:
    """Colour roles as Rich styles. `styles["live bold"]` is the style of a space-separated specification
    of roles and attributes (bold, italic, underline, strike, dim, reverse, deco). Equal styles draw equally.
    """

    colors: tuple[tuple[str, str], ...] = ()
    """(role, colour as Rich understands it); a role without one is drawn in the terminal's own."""
    no_color: bool = False
    _known: dict[str, Style] = field(default_factory=dict, compare=False, repr=False)

    def __getitem__(self, spec: str) -> Style:
        style = self._known.get(spec)
        if style is None:
            style = self._known[spec] = self._combined(spec)
        return style

    def _combined(self, spec: str) -> Style:
        colors = dict(self.colors)
        style = Style(color=colors.get("text"))
        for word in spec.split():
            if word in _ATTRIBUTES:
                style += _ATTRIBUTES[word]
            elif word in ROLES:
                style += Style(color=colors.get(word))
            else:
                raise KeyError(f"{word!r} is neither a colour role nor an attribute")
        return style


def styles_from(variables: Mapping[str, str], no_color: bool) -> Styles:
    """The styles of a theme's CSS variables (`role-muted` …), falling back to what every Textual theme has.

    With `no_color` no role has a colour; marks, bold and reverse stay.
    """
    if no_color:
        return Styles(no_color=True)
    colors: list[tuple[str, str]] = []
    for role in ROLES:
        for name in (f"role-{role}", *_FALLBACK_VARIABLES[role]):
            if (color := _rich_color(variables.get(name))) is not None:
                colors.append((role, color))
                break
    return Styles(tuple(colors))


def _rich_color(value: str | None) -> str | None:
    """A CSS colour as a Rich colour name, or None where it says nothing about one (`auto 87%`, empty)."""
    if not value:
        return None
    try:
        color: RichColor = Color.parse(value).rich_color
    except ColorParseError:
        return None
    return color.name
