"""The README's five minutes, walked in a real terminal: each key, command and line they name."""

import re
import shutil
from pathlib import Path

import pytest

from support.terminal import Terminal, terminal

pytestmark = pytest.mark.slow
TOP = Path(__file__).parents[2]
_SECTION = re.compile(r"^## Five minutes to the first compaction\n(.*?)^## ", re.MULTILINE | re.DOTALL)


def steps() -> list[set[str]]:
    """Of each numbered step what it puts into code spans."""
    section = _SECTION.search((TOP / "README.md").read_text(encoding="utf-8"))
    assert section
    return [set(re.findall(r"`([^`]+)`", line)) for line in re.findall(r"^\d\. .*", section[1], re.MULTILINE)]


def shows(term: Terminal, line: str) -> None:
    """This line of the README, with any figures in place of its own."""
    pattern = re.sub(r"\d[\d.]*(k|%)", r"\\d[\\d.]*\1", re.escape(line).replace(r"\.", "."))
    term.until(lambda seen: re.search(pattern, seen.text))


def marks_of(term: Terminal) -> str:
    """The row of the meter."""
    return next((row for row in reversed(term.rows) if "▐" in row and " of " in row), "")


def compactions(term: Terminal) -> int:
    """How many the side list counts."""
    counted = re.search(r"Compactions +(\d+)", term.text)
    return int(counted[1]) if counted else 0


def test_the_five_minutes_of_the_readme(tmp_path: Path) -> None:
    folder = tmp_path / "main"
    shutil.copytree(TOP / "src/foldline/context", folder / "src/foldline/context")
    first, ask, compacts, preview, inspector, back = steps()
    with terminal(folder, columns=120, rows=36, FOLDLINE_MODEL="") as term:
        assert first == {"make run", "Esc", "/model"}
        assert "run: .venv/ready\n\t@$(BIN)/foldline\n" in (TOP / "Makefile").read_text(encoding="utf-8")
        for title in ("Choose a model", "Switch the model"):
            term.until(title)
            term.send("\x1b")
            term.until(lambda seen: "step 1 of 3" not in seen.text)
            term.until("Enter sends")
            if title == "Choose a model":
                term.send("/model\r")

        assert ask == {"read src/foldline/context/projection.py", "▓", "█", "┃"}
        term.ask("read src/foldline/context/projection.py")
        term.until(lambda seen: {"▓", "█", "┃"} <= set(marks_of(seen)))

        [line] = {each for each in compacts if "→" in each}
        assert compacts - {line} == {"┆", "Compacting", "Enter", "┣", "┃", "┊", "╏", "Esc"}
        term.until(lambda seen: "┆" in marks_of(seen))
        term.ask("read src/foldline/context/cut.py")
        shows(term, line)
        term.until(lambda seen: "\n ╏" in seen.text)
        for sign in ("▾─", "▸─"):  # what Enter opens, it closes
            term.send("\r")
            term.until(sign)
        term.ask("read src/foldline/context/budget.py")
        term.send("/compact\r")
        term.until(lambda seen: compactions(seen) == 2)
        term.until(lambda seen: {" ┊", " ┣", " ┃"} <= {row[:2] for row in seen.rows})

        assert preview == {"F3", "Ctrl+S"}
        term.ask("read src/foldline/context/numbers.py")
        term.send("\x1bOR")
        term.until("not applied yet")
        term.send("\x13")
        term.until("Enter sends")
        term.until(lambda seen: "not applied yet" not in seen.text)

        assert inspector == {"F2"}
        term.send("\x1bOQ")
        term.until(lambda seen: all(title in seen.text for title in ("1 History", "2 LLM view")))
        term.until("Esc close")  # the last row: all of the screen has come, and Esc is a key of its own
        term.send("\x1b")
        term.until("Enter sends")

        assert back == {"/undo", "Enter", "/compact what matters to you", "Esc"}
        term.send("/undo\r")
        asks = "undo it all the same"
        term.until(lambda seen: "undone" in seen.text or asks in seen.text)
        if asks in term.text:
            term.lives_for(1.2)  # for its first second a question takes no answer
            term.send("\r")
        term.until("undone")
        term.ask("read src/foldline/context/outline.py")
        before = compactions(term)
        term.send("/compact what matters to you\r")
        term.until(lambda seen: compactions(seen) == before + 1)
        term.send("\x1b\x1b")
        term.until("Rewind to right before")
        term.until("c context")


def test_esc_cancels_the_compaction_of_the_readme(tmp_path: Path) -> None:
    assert "(`Esc` while it compacts: nothing has happened" in (TOP / "README.md").read_text(encoding="utf-8")
    folder, home = tmp_path / "main", tmp_path / "main-home"
    shutil.copytree(TOP / "src/foldline/context", folder / "src/foldline/context")
    home.mkdir()
    # At its usual pace the embedded model has compacted before a busy machine brings the Esc.
    (home / "config.toml").write_text("[offline]\npace = 0.04\n")
    with terminal(folder, columns=120, rows=36) as term:
        term.until("Enter sends")
        for name in ("numbers", "stats"):  # little enough that nothing is compacted by itself
            term.ask(f"read src/foldline/context/{name}.py")
        term.send("/compact\r")
        term.until("Compacting")
        term.send("\x1b")
        term.until("nothing was compacted")
        assert compactions(term) == 0
