"""Answers of every kind while they stream: what is finished stays, and the end is that of the whole."""

import random

import pytest
from textual.app import App, ComposeResult

from foldline.tui.blocks.block import Block
from foldline.tui.blocks.code import BEFORE
from foldline.tui.blocks.cutter import CODE_LINES
from foldline.tui.blocks.markdown import StreamingMarkdown, markdown_blocks
from foldline.tui.blocks.view import BlockView
from foldline.tui.look.styles import Styles
from support.answers import KINDS, split_chunks

LINES = {"fence": 500, "table": 150}
A_FRAME = 266
"""Characters of 2,000 tokens a second in a thirtieth of one."""
PLAIN = Styles()


class Shown(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.view = BlockView()

    def compose(self) -> ComposeResult:
        yield self.view


def blocks_of(view: BlockView) -> list[Block]:
    return [view.block_at(at) for at in range(view.count)]


def drawn(blocks: list[Block]) -> list[tuple[object, ...]]:
    return [
        (block.key, block.gap, *(strip.text for strip in block.render(76, PLAIN)))
        for block in blocks
    ]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_frame_of_a_fast_answer_draws_few_blocks_and_its_end_is_that_of_the_whole(
    kind: str,
) -> None:
    text = KINDS[kind](LINES.get(kind, 200))
    size = (
        A_FRAME // 4 if kind == "Chinese" else A_FRAME
    )  # a token is about one character
    app = Shown()
    async with app.run_test(size=(80, 24)):
        stream = StreamingMarkdown(1)
        most = 0
        for piece in split_chunks(text, size):
            before = app.view.rendered
            feed = stream.feed(piece)
            if feed:
                app.view.replace_from(feed[0].key, feed)
            most = max(most, app.view.rendered - before)
            assert app.view.follow
        assert most <= 3  # the last of a paragraph, its neighbour, and the open one
        last = stream.finish()
        if last:
            app.view.replace_from(last[0].key, last)
        whole = markdown_blocks(text, 1)
        shown = blocks_of(app.view)
        assert [block.text() for block in shown] == [block.text() for block in whole]
        assert drawn(shown[-6:]) == drawn(list(whole[-6:]))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_the_pieces_are_the_end_is_the_same(kind: str) -> None:
    text = KINDS[kind](60)
    chance = random.Random(kind)
    for _ in range(4):
        stream, blocks, at = StreamingMarkdown(1), list[Block](), 0
        while at < len(text):
            size = chance.choice((1, 2, 7, 40, 300))
            feed = stream.feed(text[at : at + size])
            at += size
            if feed:
                blocks[feed[0].key[1] :] = feed
        if feed := stream.finish():
            blocks[feed[0].key[1] :] = feed
        assert drawn(blocks) == drawn(list(markdown_blocks(text, 1)))


def test_no_piece_of_a_long_fence_waits_for_all_of_it_to_be_highlighted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from foldline.tui.blocks import code

    looked: list[int] = []
    highlighted = code.highlighted
    monkeypatch.setattr(
        code,
        "highlighted",
        lambda lines, name: looked.append(len(lines)) or highlighted(lines, name),
    )
    blocks = markdown_blocks(KINDS["fence"](5_000), 1)
    for block in (blocks[1], blocks[60], blocks[-2]):
        block.render(80, Styles((("accent", "blue"),)))
    assert len(looked) == 3 and max(looked) <= BEFORE + CODE_LINES
