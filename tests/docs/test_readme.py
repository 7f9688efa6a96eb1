"""The README's five-minute tour in a real terminal: every key, command and line in it."""

import re
import shutil
from pathlib import Path

import pytest

from foldline.frontend.reduce import COMPACTION_CANCELLED
from foldline.tui.overlays.rewind import CONTEXT, TITLE
from support.terminal import Terminal, terminal

pytestmark = pytest.mark.slow
TOP = Path(__file__).parents[2]
_SECTION = re.compile(
    r"^## Five minutes to the first compaction\n(.*?)^## ", re.MULTILINE | re.DOTALL
)


def steps() -> list[set[str]]:
    """Return the code spans of each numbered step."""
    section = _SECTION.search((TOP / "README.md").read_text(encoding="utf-8"))
    assert section
    return [
        set(re.findall(r"`([^`]+)`", line))
        for line in re.findall(r"^\d\. .*", section[1], re.MULTILINE)
    ]


def shows(term: Terminal, line: str) -> None:
    """Build a pattern for this README line with any figures."""
    pattern = re.sub(
        r"\d[\d.]*(k|%)", r"\\d[\\d.]*\1", re.escape(line).replace(r"\.", ".")
    )
    term.until(lambda seen: re.search(pattern, seen.text))


def marks_of(term: Terminal) -> str:
    """Return the row of the meter."""
    return next(
        (row for row in reversed(term.rows) if "▐" in row and " of " in row), ""
    )


def compactions(term: Terminal) -> int:
    """Return the count shown in the side list."""
    counted = re.search(r"Compactions +(\d+)", term.text)
    return int(counted[1]) if counted else 0


def copy_sources(folder: Path) -> None:
    """Copy the sources that the walk reads."""
    for package in ("view", "text", "past"):
        shutil.copytree(
            TOP / "src/foldline" / package, folder / "src/foldline" / package
        )


def test_the_five_minute_tour_of_the_readme_works(tmp_path: Path) -> None:
    folder = tmp_path / "main"
    copy_sources(folder)
    first, ask, compacts, preview, inspector, back = steps()
    with terminal(folder, columns=120, rows=36, FOLDLINE_MODEL="") as term:
        assert first == {"make run", "Esc", "/model"}
        assert "run: .venv/ready\n\t@$(BIN)/foldline\n" in (TOP / "Makefile").read_text(
            encoding="utf-8"
        )
        for title in ("Choose a model", "Switch the model"):
            term.until(title)
            term.send("\x1b")
            term.until(lambda seen, title=title: title not in seen.text)
            term.until("Enter sends")
            if title == "Choose a model":
                term.send("/model\r")

        assert ask == {"read src/foldline/view/projection.py", "▓", "█", "┃"}
        term.ask("read src/foldline/view/projection.py")
        term.until(lambda seen: {"▓", "█", "┃"} <= set(marks_of(seen)))

        [line] = {each for each in compacts if "→" in each}
        assert compacts - {line} == {
            "┆",
            "Compacting",
            "Enter",
            "┣",
            "┃",
            "┊",
            "╏",
            "Esc",
        }
        term.until(lambda seen: "┆" in marks_of(seen))
        term.ask("read src/foldline/view/cut.py")
        shows(term, line)
        term.until(lambda seen: "\n ╏" in seen.text)
        for sign in ("▾─", "▸─"):  # Enter closes it again
            term.send("\r")
            term.until(sign)
        term.ask("read src/foldline/view/budget.py")
        term.send("/compact\r")
        term.until(lambda seen: compactions(seen) == 2)
        term.until(lambda seen: {" ┊", " ┣", " ┃"} <= {row[:2] for row in seen.rows})

        assert preview == {"F3", "Ctrl+S"}
        term.ask("read src/foldline/text/numbers.py")
        term.send("\x1bOR")
        term.until("not applied yet")
        term.send("\x13")
        term.until("Enter sends")
        term.until(lambda seen: "not applied yet" not in seen.text)

        assert inspector == {"F2"}
        term.send("\x1bOQ")
        term.until(
            lambda seen: all(
                title in seen.text for title in ("1 History", "2 LLM view")
            )
        )
        term.until(
            "Esc close"
        )  # the last row: the screen is complete, and Esc arrives as a separate key
        term.send("\x1b")
        term.until("Enter sends")

        assert back == {"/undo", "Enter", "/compact what matters to you", "Esc"}
        term.send("/undo\r")
        asks = "undo it all the same"
        term.until(lambda seen: "undone" in seen.text or asks in seen.text)
        if asks in term.text:
            term.lives_for(1.2)  # a question accepts no answer in its first second
            term.send("\r")
        term.until("undone")
        term.ask("read src/foldline/view/outline.py")
        before = compactions(term)
        term.send("/compact what matters to you\r")
        term.until(lambda seen: compactions(seen) == before + 1)
        term.send("\x1b\x1b")
        term.until(TITLE)
        term.send("\r")
        term.until(CONTEXT)


def test_esc_cancels_a_compaction_as_the_readme_shows(tmp_path: Path) -> None:
    readme = (TOP / "README.md").read_text(encoding="utf-8")
    assert "`Esc` cancels a compaction that is running" in readme
    folder, home = tmp_path / "main", tmp_path / "main-home"
    copy_sources(folder)
    home.mkdir()
    # At normal speed the embedded model finishes before a busy machine delivers the Esc.
    (home / "config.toml").write_text("[offline]\npace = 0.04\n")
    with terminal(folder, columns=120, rows=36) as term:
        term.until("Enter sends")
        for name in (
            "text/numbers",
            "past/stats",
        ):  # too little for an automatic compaction
            term.ask(f"read src/foldline/{name}.py")
        term.send("/compact\r")
        term.until("Compacting")
        term.send("\x1b")
        term.until(COMPACTION_CANCELLED)
        assert compactions(term) == 0
