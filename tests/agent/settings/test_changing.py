"""Changing one setting: what the file says then, and what happens where it must not."""

from pathlib import Path

import pytest

from foldline.agent.settings.edit import TYPED, change, in_toml, shown
from foldline.agent.settings.settings import load_settings
from foldline.protocol import FoldlineError


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("context.dmail", "yes", True),
        ("compaction.soft_ratio", "0.5", 0.5),
        ("context.window", "32k", "32k"),
        ("context.window", " 65536 ", 65_536),
        ("compaction.threshold", "70%", "70%"),
        ("model", "gpt-5@openai", "gpt-5@openai"),
    ],
)
def test_what_was_typed_as_a_file_says_it(key: str, text: str, value: object) -> None:
    assert in_toml(key, text) == value


@pytest.mark.parametrize(
    ("value", "words"), [(50.0, "50"), (0.008, "0.008"), (True, "true"), (None, "")]
)
def test_a_value_in_force_is_shown_as_a_file_would_say_it(
    value: object, words: str
) -> None:
    assert shown(value) == words


def test_a_wrong_value_is_refused_in_the_words_of_the_settings() -> None:
    with pytest.raises(
        FoldlineError,
        match=rf"{TYPED}: compaction\.mode cannot be 'x'. Allowed: auto, ask",
    ):
        in_toml("compaction.mode", "x")


def test_one_line_of_the_file_changes_and_options_of_this_run_stay(
    tmp_path: Path,
) -> None:
    environ = {"FOLDLINE_HOME": str(tmp_path)}
    file = tmp_path / "config.toml"
    file.write_text(
        '[models."GPT-5"]\nwindow = 9000 # mine\n\n[context]\nwindow = 8000 # all\n'
    )
    settings = load_settings(tmp_path, environ, {"compaction.mode": "off"})
    now = change(settings, tmp_path, environ, "context.window", "80k")
    assert (
        file.read_text()
        == '[models."GPT-5"]\nwindow = 9000 # mine\n\n[context]\nwindow = "80k" # all\n'
    )
    assert (
        now.compaction.mode == "off" and now.origin("compaction.mode") == "command line"
    )
    change(now, tmp_path, environ, "context.window", None)
    assert "80k" not in file.read_text() and "9000" in file.read_text()
    change(now, tmp_path, environ, "offline.window", None)
    assert "offline" not in file.read_text()


def test_what_makes_the_whole_invalid_is_taken_back(tmp_path: Path) -> None:
    environ = {"FOLDLINE_HOME": str(tmp_path)}
    settings = load_settings(tmp_path, environ)
    with pytest.raises(FoldlineError, match="there is no provider nobody"):
        change(settings, tmp_path, environ, "provider", "nobody")
    assert not (tmp_path / "config.toml").exists()
