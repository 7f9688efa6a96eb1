"""Branches in a real terminal: left by an edit and by a rewind, gone to, compared, come back to."""

from pathlib import Path

import pytest

from foldline.context.invariants import broken
from foldline.history import Session
from support.server import running_server
from support.terminal import Terminal, terminal

pytestmark = pytest.mark.slow
ANSWERS = {"first": "One it is.", "second": "Two it is.", "other": "Three it is.", "last": "Four it is."}
SCRIPT = [{"when": {"content": f"^{said}"}, "answer": {"text": text}} for said, text in ANSWERS.items()]


def replace(term: Terminal, before: str, text: str) -> None:
    """Another prompt in place of the one in the editor."""
    term.until(f"❯ {before}")
    term.send("\x15")
    term.until(lambda now: f"❯ {before}" not in now.text.rpartition("prompt")[2])
    term.ask(text)


def confirmed(term: Terminal) -> None:
    """Enter, to the question it asks as well; what is typed ahead is no answer."""
    term.send("\r")
    term.until("/undo takes it back.")
    while "/undo takes it back." in term.text:
        term.send("\x13")
        term.lives_for(0.3)
    term.until("Enter sends")


def tree(term: Terminal, mark: str) -> None:
    """The tree, with the mark on the turn of this prompt."""
    term.send("/tree\r")
    term.until("what going there does")
    while not any("▶" in row and f"❯ {mark}" in row for row in term.rows):
        term.send("\x1b[A")
        term.settle()


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40)])
def test_branches_are_gone_to_compared_copied_from_and_come_back_to(
    tmp_path: Path, columns: int, rows: int
) -> None:
    with running_server(script=SCRIPT) as server:
        env = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "a-key", "FOLDLINE_MODEL": server.model}
        with terminal(tmp_path / "shop", columns=columns, rows=rows, **env) as term:
            term.until("Enter sends")
            term.ask("first prompt")
            term.ask("second prompt")
            term.send("\t")
            term.until("Esc to the prompt")
            term.send("[e")
            term.until("editing prompt 2")
            replace(term, "second", "other prompt")
            term.until("Three it is.")
            term.send("\x1b\x1b")
            term.until("Rewind to right before")
            term.until("c context")
            term.send("c")
            confirmed(term)
            replace(term, "other", "last prompt")
            term.until("Four it is.")

            tree(term, "second")
            for row in ("❯ first prompt", "├─❯ second prompt", "├─❯ other prompt", "❯ last prompt"):
                assert row in term.text
            assert "Enter go there" in term.text and "a copy answer" in term.text
            term.until("2 items leave the view, 1 prompt among them, 2")
            confirmed(term)
            term.until("on the branch of “second prompt”")

            tree(term, "other")
            term.send("d")
            term.until("▸ Compare requests")
            term.until("branch up to")
            term.until("− 2 gone")
            assert "other prompt" in term.text and "second prompt" in term.text
            term.send("\x1b")
            term.until("what going there does")
            term.send("a")
            term.until("is copied to the model here")
            term.send("\x1b")
            term.until("Copied by the user from another branch")

            tree(term, "last")
            confirmed(term)
            term.until("on the branch of “last prompt”")
            term.send("/exit\r")
            assert term.ended() == 0 and term.not_restored() == []
    (path,) = (tmp_path / "shop-home").rglob("events.jsonl")
    session = Session.open(path)
    assert broken(session.projection) == []
    said = [item.message.text for item in session.projection.view if not item.is_preamble]
    assert said == ["first prompt", "One it is.", "last prompt", "Four it is."]
    copied = "\n\nThree it is."
    assert [each for each in session.entries if each.type == "developer" and each.text.endswith(copied)]
