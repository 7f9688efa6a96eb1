"""Roles become styles."""

import pytest

from foldline.tui.look.styles import ROLES, Styles, styles_from


def test_roles_come_from_the_theme() -> None:
    styles = styles_from({"role-live": "#00ff00"}, no_color=False)
    assert styles["live bold"].color is not None
    assert styles["live bold"].color.name == "#00ff00"
    assert styles["live bold"].bold
    assert styles["alert"].color is None


def test_without_colour_attributes_stay() -> None:
    styles = styles_from({f"role-{role}": "#00ff00" for role in ROLES}, no_color=True)
    assert all(styles[role].color is None for role in ROLES)
    assert styles["alert reverse bold"].reverse
    assert styles["alert reverse bold"].bold


def test_an_unknown_role_is_a_mistake_of_the_programmer() -> None:
    with pytest.raises(KeyError):
        Styles()["purple"]
