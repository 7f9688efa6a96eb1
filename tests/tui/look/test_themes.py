"""Theme files."""

import re
from pathlib import Path

import pytest
from rich.color import ColorSystem
from textual.color import Color
from textual.screen import Screen

from foldline.protocol import FoldlineError
from foldline.tui.base_app import BaseApp
from foldline.tui.look import themes as themes_module
from foldline.tui.look.styles import ROLES
from foldline.tui.look.themes import (
    AUTO,
    DEFAULT_THEME,
    FOR_DARK,
    FOR_LIGHT,
    NO_ROLES,
    NOT_A_BOOLEAN,
    ROLE_DEFAULTS,
    UNKNOWN_KEY,
    WRONG_BACKGROUND,
    WRONG_COLOUR,
    RoleTheme,
    automatic,
    clash,
    is_dark,
    load_theme,
    load_themes,
    own_themes,
    painted,
    read_theme,
)
from foldline.tui.overlays.dialogs import pick_theme
from support.chat_app import screen_text

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
    assert own_themes(themes) == [AUTO, *sorted(names - {AUTO})]
    assert set(ROLE_DEFAULTS) == {
        "role-background",
        *(f"role-{role}" for role in ROLES),
    }


def _luminance(color: Color) -> float:
    def linear(value: float) -> float:
        return value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4

    red, green, blue = color.normalized
    return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)


def _contrast(one: Color, other: Color) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


FIXED = [theme for theme in load_themes() if theme.own_background]


@pytest.mark.parametrize("theme", FIXED, ids=lambda theme: theme.name)
def test_every_role_can_be_read_on_the_themes_own_background(theme: RoleTheme) -> None:
    """WCAG 2.1, 1.4.3: text 4.5, what only accompanies it 3. Also where the terminal has 256 colours."""
    behind, strong = Color.parse(theme.own_background), theme.name == "high-contrast"
    for role in ROLES:
        color = Color.parse((theme.variables | painted(theme))[f"role-{role}"])
        nearest = Color(
            *color.rich_color.downgrade(ColorSystem.EIGHT_BIT).get_truecolor()
        )
        least = 10.0 if strong else 3.0 if role == "muted" else 4.5
        assert _contrast(color, behind) >= least, role
        assert _contrast(nearest, behind) >= min(least, 7.0) - 0.9 * (
            role != "muted"
        ), role


@pytest.mark.parametrize("theme", FIXED, ids=lambda theme: theme.name)
def test_roles_do_not_differ_by_red_and_green_alone(theme: RoleTheme) -> None:
    """As somebody sees them whose eyes have no green: what the fates mean stays apart."""
    seen = {
        role: _without_green(Color.parse(theme.variables[f"role-{role}"]))
        for role in ("live", "alert")
    }
    assert (
        max(abs(a - b) for a, b in zip(seen["live"], seen["alert"], strict=True)) > 0.1
    )


def _without_green(color: Color) -> tuple[float, float, float]:
    """Deuteranopia (Viénot, Brettel, Mollon 1999), on linear values."""
    red, green, blue = (value**2.2 for value in color.normalized)
    yellow = 0.29275 * red + 0.70725 * green
    return yellow, yellow, -0.02234 * red + 0.02234 * green + blue


@pytest.mark.parametrize(
    ("environ", "dark"),
    [
        ({}, None),
        ({"COLORFGBG": "15;0"}, True),
        ({"COLORFGBG": "0;15"}, False),
        ({"COLORFGBG": "0;default;15"}, False),
        ({"COLORFGBG": "15;8"}, True),
        ({"COLORFGBG": "default;default"}, None),
    ],
)
def test_what_the_environment_says_of_the_terminal(
    environ: dict[str, str], dark: bool | None
) -> None:
    assert is_dark(environ) is dark


@pytest.mark.parametrize(
    ("dark", "few", "like"),
    [
        (True, False, "foldline-dark"),
        (False, False, "foldline-light"),
        (True, True, "terminal"),
        (False, True, "terminal"),
    ],
)
def test_auto_is_as_the_terminal_is(dark: bool, few: bool, like: str) -> None:
    themes = {theme.name: theme for theme in load_themes()}
    auto = automatic(themes.values(), dark=dark, few_colours=few)
    assert auto.name == AUTO and auto.variables == themes[like].variables
    assert own_themes(themes.values())[0] == AUTO


async def test_a_theme_file_is_read_again_when_it_is_chosen_and_a_broken_one_says_why(
    tmp_path: Path,
) -> None:
    app = BaseApp[None](themes_dir=tmp_path)
    async with app.run_test() as pilot:
        (tmp_path / "mine.toml").write_text(GOOD)
        app.use_theme("mine")
        await pilot.pause()
        assert app.theme_variables["role-text"] == "#102030"
        (tmp_path / "mine.toml").write_text(GOOD.replace("#102030", "#405060"))
        app.use_theme("mine")
        await pilot.pause()
        assert app.theme_variables["role-text"] == "#405060"
        (tmp_path / "mine.toml").write_text("dark = [")
        assert "mine.toml cannot be read" in app.theme_faults()["mine"]
        assert "mine" not in {theme.name for theme in load_themes(tmp_path)}


@pytest.mark.parametrize("theme", FIXED, ids=lambda theme: theme.name)
def test_code_within_a_sentence_has_a_tone_of_its_own(theme: RoleTheme) -> None:
    roles = [theme.variables[f"role-{role}"] for role in ROLES]
    assert len({*roles}) == len(ROLES)


def test_a_theme_is_for_other_terminals_only_where_the_terminal_is_known() -> None:
    themes = {theme.name: theme for theme in load_themes()}
    assert clash(themes["foldline-light"], True) == FOR_LIGHT
    assert clash(themes["dusk"], False) == FOR_DARK
    assert not clash(themes["dusk"], True) and not clash(themes["foldline-light"], None)
    assert not clash(themes["terminal"], False), "its colours are the terminal's own"


async def test_the_list_of_themes_says_which_are_for_other_terminals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLORFGBG", "15;0")
    (tmp_path / "paper.toml").write_text(GOOD.replace("dark = true", "dark = false"))
    app = BaseApp[None](themes_dir=tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        pick_theme(app, lambda _: None)
        await pilot.pause()
        rows = {
            row.split()[1].strip("▶"): row
            for row in screen_text(app)
            if len(row.split()) > 2
        }
        assert FOR_LIGHT in rows["paper"]
        painted_themes = (
            rows["catppuccin-latte"] + rows["dusk"] + rows["auto"] + rows["terminal"]
        )
        assert "terminals; yours" not in painted_themes
        await pilot.press("escape")
        assert "yours is dark" in app.theme_clash("paper")
        assert app.theme_clash("foldline-light") == ""


async def test_the_background_is_the_terminals_until_the_themes_own_is_wanted() -> None:
    app = BaseApp[None]("gruvbox")
    async with app.run_test() as pilot:
        assert app.theme_variables["role-background"] == "ansi_default"
        app.paint_background(True)
        await pilot.pause()
        assert app.theme_variables["role-background"] == "#282828"
        app.use_theme(DEFAULT_THEME)
        await pilot.pause()
        assert app.theme_variables["role-background"] == "#1e1e1e"
        assert app.theme_variables["role-text"] == "#e0e0e0", (
            "the terminal's own may be as dark"
        )
        app.paint_background(False)
        await pilot.pause()
        assert app.theme_variables["role-text"] == "ansi_default"


def test_the_theme_of_the_guide_is_one(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[3] / "docs/chat.md").read_text("utf-8")
    section = guide.partition("\n## Themes\n")[2]
    path = tmp_path / "mine.toml"
    path.write_text(section.partition("```toml\n")[2].partition("```")[0], "utf-8")
    assert read_theme(path).own_background


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
        ("dark = true\n", NO_ROLES.partition("{")[0]),
        ("roles = 3\n", NO_ROLES.partition("{")[0]),
        (
            GOOD.replace("dark = true", 'dark = "yes"'),
            NOT_A_BOOLEAN.format(value="yes"),
        ),
        (GOOD.replace("muted", "mauve"), "'mauve'"),
        (GOOD.replace('alert = "#102030"', ""), "no role 'alert'"),
        ('background = "black"\n' + GOOD, WRONG_BACKGROUND.format(value="black")),
        (GOOD.replace("#102030", "#12", 1), "'#12'"),
        (GOOD.replace('"#102030"', "7", 1), WRONG_COLOUR.format(role="text", value=7)),
        ("colour = 1\n" + GOOD, UNKNOWN_KEY.format(key="colour")),
    ],
)
def test_a_bad_theme_file_gets_one_sentence_that_names_it(
    tmp_path: Path, text: str, says: str
) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(FoldlineError, match=re.escape(says)) as caught:
        read_theme(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value).strip()


@pytest.mark.parametrize(
    ("worn", "reads"), [("mine", {"mine"}), (DEFAULT_THEME, {DEFAULT_THEME})]
)
def test_a_start_reads_the_theme_it_wears_and_a_list_of_them_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worn: str, reads: set[str]
) -> None:
    for name in ("mine", "other", "third"):
        (tmp_path / f"{name}.toml").write_text(GOOD)
    opened: list[str] = []
    once = themes_module._theme_in

    def read(path: Path) -> RoleTheme:
        opened.append(path.stem)
        return once(path)

    monkeypatch.setattr(themes_module, "_theme_in", read)
    app = BaseApp[None](worn, themes_dir=tmp_path)
    assert app.theme == worn and {*opened} == reads
    assert {"mine", "other", "third", DEFAULT_THEME, AUTO} <= {
        theme.name for theme in app.themes
    }


@pytest.mark.parametrize("name", ["../mine", "none", "a/b"])
def test_only_what_lies_in_the_folders_is_a_theme(tmp_path: Path, name: str) -> None:
    (tmp_path / "mine.toml").write_text(GOOD)
    (tmp_path / "own").mkdir()
    assert load_theme(name, tmp_path / "own") is None


async def test_every_app_paints_the_themes_background_behind_all_that_it_shows() -> (
    None
):
    app = BaseApp[None]("gruvbox")
    async with app.run_test() as pilot:
        app.paint_background(True)
        await app.push_screen(Screen[None]())
        await pilot.pause()
        assert app.screen.styles.background.hex.lower() == "#282828"


async def test_a_light_theme_paints_its_background_in_a_dark_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLORFGBG", "15;0")
    app = BaseApp[None]("foldline-light")
    async with app.run_test() as pilot:
        await pilot.pause()
        assert app.theme_variables["role-background"] == "#ffffff"
        assert app.theme_variables["role-text"].startswith("#"), (
            "the terminal's own is as light"
        )
        app.use_theme("dusk")
        await pilot.pause()
        assert app.theme_variables["role-background"] == "ansi_default"
