"""The prompt in a real terminal: keys that arrive in one read."""

from pathlib import Path

import pytest

from support.terminal import Terminal, terminal

pytestmark = pytest.mark.slow


def empty_box(term: Terminal) -> bool:
    """Whether the list of completions stands there with nothing in it."""
    rows = [line.strip() for line in term.rows]
    titles = ("┌─ commands", "┌─ files", "┌─ choices")
    tops = [at for at, line in enumerate(rows[:-1]) if line.startswith(titles)]
    return any(
        not rows[at + 1].strip("│ ") or rows[at + 1].startswith("└") for at in tops
    )


def said(term: Terminal) -> str:
    """What stands in the prompt."""
    lines = [line.strip("┃ ") for line in term.rows if line.startswith("┃")]
    return "\n".join(line.removeprefix("❯").strip() for line in lines if line)


@pytest.mark.parametrize(
    ("burst", "sent", "left"),
    [
        ("@proj", "", "@proj"),
        ("@proj\r", "@proj", ""),
        ("@proj\t", "", "@proj"),
        ("/appr\t", "", "/appr"),
        ("/xyzzy\r", "", "/xyzzy"),
        ("@proj" + "\x7f" * 5 + "hi\r", "hi", ""),
        ("/the" + "\x7f" * 4, "", ""),
        ("one @proj two\r", "one @proj two", ""),
        ("@pr\x15all\r", "all", ""),
    ],
)
def test_a_burst_inserts_nothing_that_was_not_shown_and_leaves_no_empty_list(
    tmp_path: Path, burst: str, sent: str, left: str
) -> None:
    folder = tmp_path / "shop"
    (folder / "projects").mkdir(parents=True)
    (folder / "projects" / "a.py").touch()
    with terminal(folder) as term:
        term.until("Enter sends")
        term.send(burst)
        if sent:
            term.until(f"\n ┃ ❯ {sent}")
            term.until("Enter sends")
        else:
            term.until(lambda term: left in said(term))
        boxes = []
        term.until(lambda term: boxes.append(empty_box(term)) or len(boxes) > 10)
        assert not any(boxes), term.text
        term.until(
            lambda term: (
                said(term).startswith(left)
                and (left or "Ask for" in term.text or not said(term))
            )
        )
        # A busy machine may draw a list between two keys of the burst: what was in it may be inserted.
        shown = term.raw.decode(errors="replace")
        assert "projects/a.py" not in said(term) or "┌─ files" in shown
        assert "/approvals" not in said(term) or "┌─ commands" in shown


@pytest.mark.parametrize(
    "newline", ["\x1b\r", "\n", "\\\r", "\x1b[13;2u", "\x1b[13;3u"]
)
def test_each_way_to_a_new_line_begins_one(tmp_path: Path, newline: str) -> None:
    """Alt+Enter, Ctrl+J, a backslash and Enter, and Shift+Enter and Alt+Enter by the keyboard protocol."""
    with terminal(tmp_path / "shop") as term:
        term.until("Enter sends")
        term.send(f"first{newline}second")
        term.until(lambda term: said(term) == "first\nsecond")
        term.send("\r")
        term.until("\n ┃ ❯ first")
        term.until("\n ┃   second")
