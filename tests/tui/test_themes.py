"""Theme files."""

from pathlib import Path

import pytest
from textual.color import Color

from foldline.data import data_dir
from foldline.protocol import FoldlineError
from foldline.tui.blocks import ROLES
from foldline.tui.themes import DEFAULT_THEME, ROLE_DEFAULTS, load_themes, own_themes, read_theme

GOOD = "dark = true\n[roles]\n" + "".join(f'{role} = "#102030"\n' for role in ROLES)


def test_the_shipped_themes_give_all_roles_and_leave_the_background_alone() -> None:
    themes = load_themes()
    names = {theme.name for theme in themes}
    assert {DEFAULT_THEME, "foldline-light", "high-contrast"} <= names
    for theme in themes:
        variables = theme.to_color_system().generate()
        assert variables["background"] == "ansi_default"
        for role in ROLES:
            Color.parse(variables[f"role-{role}"])
    assert own_themes(themes) == sorted(names)
    assert set(ROLE_DEFAULTS) == {f"role-{role}" for role in ROLES}


def _luminance(color: Color) -> float:
    def linear(value: float) -> float:
        return value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4

    red, green, blue = color.normalized
    return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)


def _contrast(one: Color, other: Color) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    ("name", "behind", "least"),
    [
        ("foldline-dark", "#1e1e1e", 4.4),
        ("foldline-light", "#ffffff", 4.5),
        ("high-contrast", "#000000", 10.0),
        ("dusk", "#1e1e2e", 4.5),
    ],
)
def test_colours_can_be_read(name: str, behind: str, least: float) -> None:
    theme = read_theme(data_dir("themes") / f"{name}.toml")
    for role in ROLES:
        color = Color.parse(theme.variables[f"role-{role}"])
        if color.ansi is None:
            assert _contrast(color, Color.parse(behind)) >= least, role


def test_a_users_theme_replaces_a_shipped_one(tmp_path: Path) -> None:
    (tmp_path / f"{DEFAULT_THEME}.toml").write_text(GOOD)
    (tmp_path / "mine.toml").write_text(GOOD.replace('"#102030"', '"bright_blue"', 1))
    themes = {theme.name: theme for theme in load_themes(tmp_path)}
    assert themes[DEFAULT_THEME].variables["role-muted"] == "#102030"
    assert themes["mine"].variables["role-text"] == "ansi_bright_blue"


def test_a_missing_folder_of_the_user_is_no_error(tmp_path: Path) -> None:
    assert load_themes(tmp_path / "none")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("dark = [", "cannot be read"),
        ("dark = true\n", "no \\[roles\\]"),
        ("roles = 3\n", "no \\[roles\\]"),
        (GOOD.replace("dark = true", 'dark = "yes"'), "must be true or false"),
        (GOOD.replace("muted", "mauve"), "'mauve'"),
        (GOOD.replace('alert = "#102030"', ""), "no role 'alert'"),
        (GOOD.replace("#102030", "#12", 1), "'#12'"),
        (GOOD.replace('"#102030"', "7", 1), "in quotes"),
        ("colour = 1\n" + GOOD, "unknown key 'colour'"),
    ],
)
def test_a_bad_theme_file_gets_one_sentence_that_names_it(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(FoldlineError, match=says) as caught:
        read_theme(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value).strip()
