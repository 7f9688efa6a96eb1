"""Keys of the reader's own: what may be chosen, what is said of the rest, and that all of it is used."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from foldline.agent.settings.layers import RawSetting, key_settings
from foldline.agent.settings.settings import load_settings
from foldline.frontend.key_names import ALLOWED, listed
from foldline.frontend.keymap import Keymap, in_force, keymap_of, use
from foldline.protocol import FoldlineError
from foldline.tui.browser.keys import KEYS as BROWSER_KEYS
from foldline.tui.keys.bindings import bindings
from foldline.tui.keys.registry import (
    INVALID_KEY,
    NO_COMMAND,
    NO_SCREEN,
    SCREENS,
    check,
    table_of,
)
from support.live import Live, live
from support.trust import bring

pytestmark = pytest.mark.usefixtures("data_folder")

OWN = """
[keys.chat]
inspector = ["f5", "ctrl+e"]
newline = "ctrl+o"
open-tools = "F6"
send = "ctrl+d"
palette = "ctrl+k"
help = "f7"

[keys.inspector]
pin = "P"
close = "q"
"""


def given(text: str, folder: Path) -> list[RawSetting]:
    (folder / "config.toml").write_text(text)
    return key_settings({"FOLDLINE_HOME": str(folder)})


@pytest.fixture
def own(tmp_path: Path) -> Iterator[None]:
    """These keys are in force for one test."""
    before = in_force()
    set_here = given(OWN, tmp_path)
    check(set_here)
    use(keymap_of(set_here))
    yield
    use(before)


def commands_of(screen: str) -> str:
    return listed(key.id for key in table_of(screen) if not key.own)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[keys.chatt]\nhelp = "f5"', NO_SCREEN.format(screens=listed(SCREENS))),
        ('[keys]\nchat = "f5"', NO_SCREEN.format(screens=listed(SCREENS))),
        (
            '[keys.chat]\ninspektor = "f5"',
            NO_COMMAND.format(screen="chat", commands=commands_of("chat")),
        ),
        (
            '[keys.inspector]\nmove = "w"',
            NO_COMMAND.format(screen="inspector", commands=commands_of("inspector")),
        ),
        (
            '[keys.chat]\ninspector = "f99"',
            INVALID_KEY.format(name="f99", allowed=ALLOWED),
        ),
        ("[keys.chat]\ninspector = 5", INVALID_KEY.format(name=5, allowed=ALLOWED)),
    ],
)
def test_what_cannot_be_is_one_line_with_file_key_and_what_may_be(
    text: str, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(FoldlineError) as refused:
        check(given(text, tmp_path))
    said = str(refused.value)
    assert said.startswith(f"{tmp_path / 'config.toml'}: ")
    assert said.endswith(sentence) and "\n" not in said


@pytest.mark.parametrize(
    "text",
    [
        '[keys.chat]\ninspector = "f3"',
        '[keys.inspector]\npin = "x"\ndrop = "p"',
        '[keys.inspector]\nclose = ["f2", "escape"]',
        '[keys.inspector]\nhelp = "f1"',
        '[keys.chat]\nsend = "ctrl+j"\nnewline = "enter"',
        "",
    ],
)
def test_keys_may_change_places_or_replace_another(text: str, tmp_path: Path) -> None:
    check(given(text, tmp_path))


def test_a_variable_sets_one_too(tmp_path: Path) -> None:
    environ = {
        "FOLDLINE_HOME": str(tmp_path),
        "FOLDLINE_KEYS__INSPECTOR__PIN": "ctrl+y",
    }
    assert keymap_of(key_settings(environ)).chosen == {
        ("inspector", "pin"): ("ctrl+y",)
    }


def test_a_project_may_not_set_keys(tmp_path: Path) -> None:
    bring(tmp_path / ".foldline.toml", '[keys.chat]\ninspector = "f5"\n')
    environ = {"FOLDLINE_HOME": str(tmp_path / "home")}
    with pytest.raises(
        FoldlineError, match=r"a project cannot set keys\.chat\.inspector"
    ):
        load_settings(tmp_path, environ)
    assert key_settings(environ) == []


def test_what_was_set_is_among_the_settings(tmp_path: Path) -> None:
    given(OWN, tmp_path)
    settings = load_settings(tmp_path, {"FOLDLINE_HOME": str(tmp_path)})
    assert settings.values()["keys.inspector.pin"] == "P"
    assert settings.origin("keys.chat.send") == str(tmp_path / "config.toml")


def test_a_way_out_stays_whatever_is_chosen() -> None:
    keymap = Keymap({("inspector", "close"): ("q",)})
    assert keymap.keys_of("inspector", "close", ("escape", "f2")) == ("escape", "q")
    stays = [
        each for each in bindings(BROWSER_KEYS, "inspect") if "escape" in str(each)
    ]
    assert stays and all(not each.id for each in stays)  # type: ignore[union-attr]


def test_no_command_takes_a_way_out(tmp_path: Path) -> None:
    taken = given('[keys.inspector]\npin = ["escape", "f5"]\ndrop = "esc"', tmp_path)
    assert keymap_of(taken).chosen == {("inspector", "pin"): ("f5",)}


async def test_the_chosen_keys_work_and_ours_no_longer(
    own: None, tmp_path: Path
) -> None:
    async with live(tmp_path / "shop", "one") as running:
        await running.press("f2")
        assert "Inspector" not in running.screen[0]
        await running.type("first")
        await running.press("ctrl+o", "enter")
        assert running.editor_text == "first\n\n", (
            "Enter is text where it does not send"
        )
        await running.press("x", "ctrl+d")
        await running.until(lambda: len(running.entries) > 1)
        await running.at_rest()
        await running.press("ctrl+e")
        await running.until(lambda: "▸ Inspector" in running.screen[0])
        await running.press("q")
        await running.until(lambda: "▸ Inspector" not in running.screen[0])


@pytest.mark.slow
async def test_hints_sentences_help_and_palette_show_the_chosen_keys(
    own: None, tmp_path: Path
) -> None:
    async with live(tmp_path / "shop", size=(120, 50)) as running:
        shown = running.text
        assert (
            "F5 inspector" in shown
            and "F7 help" in shown
            and "Ctrl+K everything" in shown
        )
        assert "Ctrl+D sends · Ctrl+O new line" in shown
        await _opened(running, "f7", "Help · Chat")
        assert "F5 Ctrl+E" in running.text and "Ctrl+D" in running.text
        await running.press("escape")
        await _opened(running, "ctrl+k", "What do you want to do?")
        assert any("Inspector" in line and " F5 ┃" in line for line in running.screen)
        await running.press("escape")
        await _opened(running, "f5", "▸ Inspector")
        assert "P pin" in running.screen[-1] and "F7 help" in running.screen[0]
        await _opened(running, "f7", "Help · Inspector")


async def _opened(running: Live, key: str, words: str) -> None:
    await running.press(key)
    await running.until(lambda: words in running.text)
