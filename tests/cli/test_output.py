"""Tables and texts as terminals and pipes get them."""

import pytest

from foldline.cli import output
from foldline.cli.output import Cell, Column, say_json, say_table
from foldline.text.harmless import with_signs
from foldline.text.shorten import cells


def test_columns_are_aligned_by_cells_not_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say_table(
        (Column("title"), Column("n", right=True)), [["修复登录", "7"], ["login", "12"]]
    )
    lines = capsys.readouterr().out.splitlines()
    assert {cells(line) for line in lines} == {cells("修复登录") + 2 + 2}


def test_what_does_not_fit_ends_in_an_ellipsis(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say_table((Column("a", most=6), Column("b")), [["abcdefghij", "x"]])
    assert capsys.readouterr().out.splitlines()[1] == "abcde…  x"


def test_a_pipe_gets_no_colour_and_a_terminal_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def drawn() -> str:
        say_table((Column("a"),), [[Cell("failed", "alert")]])
        return capsys.readouterr().out

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" not in drawn()
    monkeypatch.setattr(output, "_has_colours", lambda: True)
    assert "\x1b[31mfailed\x1b[0m" in drawn()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mb", "a␛[31mb"),
        ("a\r\nb\rc", "a\nb␍c"),
        ("a\tb\nc", "a\tb\nc"),
        ("\x9b31m\x7f", "�31m␡"),
        ("abc\u202egnp", "abc�gnp"),
        ("👩‍💻 ok", "👩‍💻 ok"),
    ],
)
def test_foreign_text_is_made_harmless(text: str, shown: str) -> None:
    assert with_signs(text) == shown


def test_json_keeps_its_text_and_acts_on_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    import json

    text = "你好 \x1b[2J \x9b31m \u202e \x7f"
    say_json({"text": text})
    out = capsys.readouterr().out
    assert json.loads(out) == {"text": text}
    assert "你好" in out
    assert not set(out) & set("\x1b\x9b\u202e\x7f")
