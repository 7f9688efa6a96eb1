import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.tui.blocks.cutter import Code, Prose, TableRows
from foldline.tui.blocks.markdown import (
    MarkdownBlock,
    StreamingMarkdown,
    markdown_blocks,
)
from foldline.tui.look.styles import Styles
from support.limits import examples

PLAIN = Styles()


def shown(blocks: list[MarkdownBlock], width: int = 60) -> list[str]:
    lines: list[str] = []
    for block in blocks:
        lines += [""] * block.gap + [
            strip.text.rstrip() for strip in block.render(width, PLAIN)
        ]
    return lines


def drawn(blocks: list[MarkdownBlock]) -> list[tuple[object, ...]]:
    """Everything about blocks that can be seen."""
    return [
        (block.key, block.gap, block.text(), *block.render(50, PLAIN))
        for block in blocks
    ]


def streamed(chunks: list[str]) -> list[MarkdownBlock]:
    stream = StreamingMarkdown(7)
    blocks: list[MarkdownBlock] = []

    def take(changed: list[MarkdownBlock]) -> None:
        if changed:
            blocks[changed[0].key[1] :] = changed
        assert [block.key for block in blocks] == [
            (7, number) for number in range(len(blocks))
        ]

    for chunk in chunks:
        take(stream.feed(chunk))
    take(stream.finish())
    return blocks


LINES = st.sampled_from(
    [
        "",
        "",
        "text with **bold** and `code`",
        "- item",
        "  - nested",
        "    more of it",
        "1. one",
        "2. two",
        "   inside",
        "   ```py",
        "```python",
        "x = '''open",
        "```",
        "   ```",
        "~~~",
        "| a | b |",
        "|---|--:|",
        "| 1 | 2 |",
        "> quote",
        "# Head",
        "---",
        "===",
        "    code",
        "你好，世界",
        "[/nope] \x1b[31m",
        "-",
        "word " * 450,
        "\r",
        "a\rb",
    ]
)
ANSWERS = st.lists(
    st.one_of(
        LINES,
        st.tuples(LINES, st.integers(2, 45)).map(lambda p: "\n".join([p[0]] * p[1])),
    ),
    max_size=14,
)


@settings(max_examples=examples(150))
@given(ANSWERS.map("\n".join), st.data())
def test_a_streamed_answer_ends_as_the_blocks_of_the_whole(
    answer: str, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(answer)), max_size=30)))
    chunks = [
        answer[start:stop]
        for start, stop in zip([0, *cuts], [*cuts, len(answer)], strict=True)
    ]
    assert drawn(streamed(chunks)) == drawn(markdown_blocks(answer, 7))


@settings(max_examples=examples(150))
@given(ANSWERS.map("\n".join))
def test_no_word_of_an_answer_is_lost_in_cutting(answer: str) -> None:
    blocks = markdown_blocks(answer, 1)
    words = set(re.findall(r"\w+", answer)) - {"py", "python"}
    assert words <= {"31m", "m"} | set(
        re.findall(r"\w+", "\n".join(block.text() for block in blocks))
    )


@settings(max_examples=examples(60))
@given(ANSWERS.map("\n".join), st.integers(8, 70))
def test_every_line_fits(answer: str, width: int) -> None:
    for block in markdown_blocks(answer, 1):
        if not isinstance(block.content, TableRows):
            assert all(
                strip.cell_length <= width + block.indent + 24
                for strip in block.render(width, PLAIN)
            )


def test_a_long_fence_is_cut_in_pieces_without_gaps_and_coloured_with_what_is_before() -> (
    None
):
    code = "s = '''\n" + "text\n" * 100 + "'''\nx = 1"
    blocks = markdown_blocks(f"before\n\n```python\n{code}\n```\nafter", 1)
    fence = [block for block in blocks if isinstance(block.content, Code)]
    assert [block.gap for block in fence] == [1, 0, 0]
    assert "\n".join(block.text() for block in fence) == code
    styles = Styles((("live", "#00ff00"),))
    inside = fence[1].render(40, styles)[5]
    assert any(
        segment.style and segment.style.color
        for segment in inside
        if segment.text == "text"
    )


def test_an_open_fence_is_plain_until_its_piece_closes() -> None:
    stream = StreamingMarkdown(1)
    (opened,) = stream.feed("```python\nx = 'a'\n")
    assert isinstance(opened.content, Code)
    assert opened.content.fence.language == ""
    (closed,) = stream.feed("```\n")
    assert isinstance(closed.content, Code)
    assert closed.content.fence.language == "python"
    assert closed.key == opened.key


def test_a_long_list_is_cut_in_pieces_and_goes_on_counting() -> None:
    blocks = markdown_blocks("\n".join("1. item" for _ in range(30)), 1)
    assert [block.gap for block in blocks] == [1, 0, 0]
    lines = shown(blocks)
    assert lines[1].strip() == "1. item"
    assert lines[13].strip() == "13. item"
    assert lines[30].strip() == "30. item"


def test_a_fence_inside_a_list_stands_inside_it_and_the_list_goes_on() -> None:
    assert shown(
        markdown_blocks("1. one\n   ```\n   code\n   ```\n   after\n2. two", 1)
    ) == [
        "",
        "1. one",
        "   ▏ code",
        "   after",
        "2. two",
    ]


def test_the_pieces_of_a_table_share_their_columns() -> None:
    rows = "\n".join(f"| {number} | {'x' * (number % 9)} |" for number in range(60))
    blocks = markdown_blocks(f"| n | name |\n|--:|---|\n{rows}", 1)
    assert len(blocks) == 3
    assert all(isinstance(block.content, TableRows) for block in blocks)
    assert [block.gap for block in blocks] == [1, 0, 0]
    assert {line.index("x") for line in shown(blocks) if "x" in line} == {4}
    assert shown(blocks)[1:3] == [" n  name", "──  ────────"]


def test_a_table_too_wide_wraps_its_cells() -> None:
    lines = shown(
        markdown_blocks(
            "| a | b |\n|---|---|\n| one two three four | 你好世界你好世界你好世界 |", 1
        ),
        24,
    )
    assert all(len(line) <= 24 for line in lines)
    assert sum("你" in line for line in lines) > 1


@pytest.mark.parametrize(
    ("answer", "lines"),
    [
        ("# Head\ntext", ["", "Head", "text"]),
        ("text\n# Head", ["", "text", "", "Head"]),
        ("one\ntwo  \nthree", ["", "one two", "three"]),
        ("- a\n  - b\n- c", ["", "• a", "  ◦ b", "• c"]),
        ("- a\n\n- b", ["", "• a", "", "• b"]),
        ("3. a\n4. b", ["", "3. a", "4. b"]),
        ("> a\n> b", ["", "▎ a b"]),
        ("Head\n---\ntext", ["", "Head", "text"]),
        ("[a](http://b) <b>x</b>", ["", "a (http://b) <b>x</b>"]),
        ("[a]: http://b", ["", "[a]: http://b"]),
        ("a &#x202e;b", ["", "a �b"]),
        ("```\n```", ["", "▏"]),
        ("", []),
    ],
)
def test_markdown_is_drawn_as_plain_lines(answer: str, lines: list[str]) -> None:
    assert shown(markdown_blocks(answer, 1)) == lines


def test_without_colour_inline_code_keeps_its_backticks() -> None:
    (block,) = markdown_blocks("a `b`", 1)
    assert block.render(40, Styles(no_color=True))[0].text == "a `b`"


def test_markup_and_controls_are_only_text() -> None:
    (block,) = markdown_blocks("[/nope] [bold]x[/] list[str] \x1b[2J", 1)
    assert block.render(60, PLAIN)[0].text == "[/nope] [bold]x[/] list[str] ␛"


def test_the_start_of_a_line_that_may_become_anything_is_not_shown() -> None:
    stream = StreamingMarkdown(1)
    stream.feed("Some text\n")
    assert [block.text() for block in stream.feed("-")] == ["Some text"]
    assert [block.text() for block in stream.feed("--")] == ["Some text"]
    assert [type(block.content) for block in stream.feed(" a")] != []


def test_what_does_not_change_is_not_given_again() -> None:
    stream = StreamingMarkdown(1)
    first = stream.feed("A paragraph.\n\n- one\n")
    assert [block.key for block in first] == [(1, 0), (1, 1)]
    assert [block.key for block in stream.feed("- two")] == [(1, 1)]


def test_the_open_tail_stays_small_however_long_the_answer_gets() -> None:
    stream = StreamingMarkdown(1)
    for text in (
        "word " * 20_000,
        "\n- item" * 2_000,
        "\n\n```\n" + "code\n" * 5_000,
        "```\n|a|\n|-|\n" + "|x|\n" * 999,
    ):
        stream.feed(text)
        for block in stream.feed("y"):
            assert len(block.text()) < 90_000
            assert (
                not isinstance(block.content, Prose)
                or block.content.source.count("\n") < 80
            )
