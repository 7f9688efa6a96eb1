"""Writing a prompt in the reader's own editor."""

import re
from pathlib import Path

import pytest

from foldline.frontend.editor import EDITOR_FAILED, NO_EDITOR, edit_text

TEXT = "See [picture 1: a.png 8×9] and [pasted 120 lines, 4.1k characters]\n"


@pytest.mark.parametrize(
    ("script", "after"),
    [
        ('echo more >> "$1"', TEXT + "more"),
        (': > "$1"', ""),
        ("true", TEXT.rstrip("\n")),
    ],
)
def test_what_is_saved_comes_back_placeholders_and_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, after: str
) -> None:
    program = tmp_path / "my editor"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"'{program}'")
    assert edit_text(TEXT) == after


@pytest.mark.parametrize(
    ("editor", "words"),
    [
        ("false", EDITOR_FAILED.format(code=1)),
        ("/nowhere/ed -w", NO_EDITOR.format(program="/nowhere/ed")),
        ("", NO_EDITOR.format(program="vi")),
    ],
)
def test_what_goes_wrong_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, editor: str, words: str
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", editor)
    if not editor:
        monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ValueError, match=re.escape(words)):
        edit_text(TEXT)
