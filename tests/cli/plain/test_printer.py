"""Streamed text of a plain chat, in pieces."""

import pytest

from foldline.cli.plain.printer import SentenceBuffer


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_streamed_text_is_said_by_sentences_and_lines_and_none_is_lost(
    size: int,
) -> None:
    text = "One. Two is 1.5 long!\n- a list\n完了。次へ。" + "word " * 200 + "end"
    buffer = SentenceBuffer()
    pieces = [buffer.add(text[at : at + size]) for at in range(0, len(text), size)] + [
        buffer.remainder()
    ]
    assert "".join(pieces) == text
    assert all(piece[-1] in " \n。d" for piece in pieces if piece)
    if size == 1:
        assert [piece for piece in pieces if piece][:5] == [
            "One. ",
            "Two is 1.5 long!\n",
            "- a list\n",
            "完了。",
            "次へ。",
        ]
