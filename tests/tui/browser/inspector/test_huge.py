"""Entries of any size: opened, only what is seen of them is looked at."""

import pytest

from foldline.tui.blocks.markdown import MarkdownBlock
from foldline.tui.browser.panels import bodies
from foldline.tui.browser.panels.bodies import body_blocks
from foldline.tui.look.styles import Styles
from support.history import history

SIZE = 200_000
SCREEN = 8_500
"""Characters that one piece may take to draw: a screen or two."""
TEXTS = {
    "one line": "x" * SIZE,
    "one line of words": "word " * (SIZE // 5),
    "short lines": "a line\n" * (SIZE // 7),
    "empty lines": "\n" * (SIZE // 10) + "end",
    "colours": "\x1b[31mred\x1b[0m and so on\n" * (SIZE // 24),
    "line ends of all kinds": "a\r\nb\rc\n" * (SIZE // 8),
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", TEXTS)
def test_opening_an_entry_cleans_nothing_and_cuts_it_in_pieces_of_a_screen(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = TEXTS[name]
    story = history().system("s").user(text)
    cleaned: list[int] = []
    clean = bodies.clean
    monkeypatch.setattr(
        bodies, "clean", lambda text: cleaned.append(len(text)) or clean(text)
    )
    blocks = body_blocks(story.projection(), story.entries[1], (1, 0))
    assert not cleaned
    first, last = blocks[0], blocks[-1]
    assert (
        len(first.render(80, Styles())) <= 80 and len(last.render(80, Styles())) <= 80
    )
    assert max(cleaned) <= SCREEN
    if "\r" not in text:
        whole = clean(text.rstrip("\n")).replace("\n", "")
        assert "".join(block.text() for block in blocks).replace("\n", "") == whole


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", TEXTS)
def test_a_huge_answer_is_cut_in_pieces_of_a_screen(name: str) -> None:
    story = history().system("s").user("go").assistant(TEXTS[name])
    blocks = body_blocks(story.projection(), story.entries[2], (2, 0))
    texts = [block.text() for block in blocks if isinstance(block, MarkdownBlock)]
    assert max(map(len, texts)) <= 2 * SCREEN
