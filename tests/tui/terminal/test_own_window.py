"""What a program on a terminal takes from the settings before its first frame: signs, and how it calls."""

from pathlib import Path

import pytest

from foldline.agent.settings.settings import load_settings
from foldline.protocol import FoldlineError
from foldline.tui.terminal.app import TerminalApp, run_app
from foldline.tui.terminal.signs import AsciiFilter


@pytest.mark.parametrize(
    ("environ", "config", "is_ascii", "notify"),
    [
        ({}, "", False, "off"),
        ({"FOLDLINE_ASCII": "1", "FOLDLINE_NOTIFY": "bell"}, "", True, "bell"),
        ({}, 'ascii = true\nnotify = "desktop"', True, "desktop"),
        ({"FOLDLINE_ASCII": "off"}, 'ascii = "on"', False, "off"),
        ({"TERM": "linux"}, "", True, "off"),
    ],
)
def test_what_was_chosen_is_in_force(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str],
    config: str,
    is_ascii: bool,
    notify: str,
) -> None:
    for name in ("FOLDLINE_ASCII", "FOLDLINE_NOTIFY", "LANG", "LC_ALL", "LC_CTYPE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "TERM": "xterm",
        "FOLDLINE_HOME": str(tmp_path),
        **environ,
    }.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "config.toml").write_text(config)
    monkeypatch.setattr(TerminalApp, "run", lambda app: None)
    app = TerminalApp[None]()
    run_app(app)
    assert (
        any(isinstance(each, AsciiFilter) for each in app.get_line_filters())
        == is_ascii
    )
    assert app.notify_by == notify
    known = load_settings(tmp_path, {"FOLDLINE_HOME": str(tmp_path), **environ})
    assert (known.ascii == "on") == (is_ascii and "TERM" not in environ)
    assert known.notify == notify


def test_another_word_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FoldlineError, match="ascii"):
        load_settings(
            tmp_path, {"FOLDLINE_HOME": str(tmp_path), "FOLDLINE_ASCII": "perhaps"}
        )
