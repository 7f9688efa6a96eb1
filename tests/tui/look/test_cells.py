from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len, split_graphemes

from foldline.tui.blocks.plain import RowBlock, RowColumn, RuleBlock, TextBlock
from foldline.tui.look.cells import chop_spans, cut_left, cut_right, wrap, wrap_spans
from foldline.tui.look.styles import Styles

PLAIN = Styles()
signs = st.sampled_from([*"ab c/.x你好，한글é", "e\u0301", "👨‍👩‍👧", "👧", "❤️", "🇩🇪"])
texts = st.lists(signs, max_size=60).map("".join)
widths = st.integers(2, 30)


def graphemes(text: str) -> list[str]:
    return [text[start:stop] for start, stop, _ in split_graphemes(text)[0]]


@given(texts, widths)
def test_cut_text_fits_and_is_made_of_whole_characters(text: str, width: int) -> None:
    right, left = cut_right(text, width), cut_left(text, width)
    assert cell_len(right) <= width
    assert cell_len(left) <= width
    if right != text:
        assert right.endswith("…")
        kept = graphemes(right[:-1])
        assert graphemes(text)[: len(kept)] == kept
    if left != text:
        assert left.startswith("…")
        assert text.endswith(left[1:])


def test_paths_are_cut_at_a_slash_and_keep_their_name() -> None:
    assert cut_left("src/shop/orders/service.py", 20) == "…/orders/service.py"
    assert cut_left("src/shop/orders/service.py", 15) == "…/service.py"
    assert cut_left("测试/订单服务/文件.py", 12) == "…/文件.py"


@given(texts, widths)
def test_wrapped_lines_fit_and_lose_only_spaces(text: str, width: int) -> None:
    lines = [text[start:stop] for start, stop in wrap(text, width)]
    assert all(cell_len(line) <= max(width, 2) for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


@given(texts, widths)
def test_chopped_code_loses_nothing(text: str, width: int) -> None:
    parts = [
        "".join(part for part, _ in line)
        for line in chop_spans([(text, "text")], width)
    ]
    assert "".join(parts) == text
    assert all(cell_len(part) <= max(width, 2) for part in parts)


def test_styles_survive_wrapping() -> None:
    lines = wrap_spans([("one two ", "text"), ("three four", "bold")], 9)
    assert lines == [[("one two", "text")], [("three", "bold")], [("four", "bold")]]


@given(texts, texts, st.integers(8, 60))
def test_every_line_of_every_block_fits_its_width(
    one: str, two: str, width: int
) -> None:
    row = RowBlock(
        (1, 0),
        (("▸ ", "muted"),),
        ((one, "text"), (two, "bold")),
        (
            RowColumn("exit 1", 8),
            RowColumn("0.5k", drop="last"),
            RowColumn("1.0 s", drop="first"),
        ),
        body=TextBlock((1, 0), two),
    )
    blocks = [
        row,
        RuleBlock((1, 0), one or "x"),
        RuleBlock((1, 0), two or "x", align="centre"),
    ]
    for block in blocks:
        assert all(
            strip.cell_length <= max(width, 12) for strip in block.render(width, PLAIN)
        )
        assert all(
            strip.cell_length == cell_len(strip.text)
            for strip in block.render(width, PLAIN)
        )


def row_at(width: int) -> str:
    row = RowBlock(
        (3, 0),
        (("▸ edit  ", "text"),),
        (("src/shop/orders/service.py", "text"),),
        (
            RowColumn("exit 1", 8),
            RowColumn("0.5k", 6, drop="last"),
            RowColumn("0.1 s", 6, drop="first"),
        ),
        cut="left",
    )
    return row.render(width, PLAIN)[0].text


def test_a_row_gives_up_seconds_then_path_then_tokens_and_never_name_or_status() -> (
    None
):
    assert row_at(70).split() == [
        "▸",
        "edit",
        "src/shop/orders/service.py",
        "exit",
        "1",
        "0.5k",
        "0.1",
        "s",
    ]
    assert row_at(55).split() == [
        "▸",
        "edit",
        "src/shop/orders/service.py",
        "exit",
        "1",
        "0.5k",
    ]
    assert row_at(40).split() == ["▸", "edit", "…/service.py", "exit", "1", "0.5k"]
    assert row_at(30).split()[-2:] == ["exit", "1"]
    assert "0.5k" not in row_at(28)
    assert row_at(18).split() == ["▸", "edit", "…", "exit", "1"] or row_at(18).split()[
        -2:
    ] == ["exit", "1"]


def test_rows_below_each_other_keep_their_columns_below_each_other() -> None:
    for width in range(20, 100):
        ends = set()
        for name in ("a", "a/long/path/to/some/file/name.py" * 2):
            columns = (
                RowColumn("0.5k", 6, drop="last"),
                RowColumn("0.1 s", 6, drop="first"),
            )
            row = RowBlock(
                (1, 0), (("▸ ", "muted"),), ((name, "text"),), columns, cut="left"
            )
            ends.add(row.render(width, PLAIN)[0].text[-16:].partition("0")[2])
        assert len(ends) == 1


def test_a_prompt_hangs_below_its_mark_and_keeps_its_time_at_the_right() -> None:
    block = TextBlock(
        (1, 0), "one two three four", "bold", (("❯ ", "accent"),), (("14:02", "muted"),)
    )
    assert [strip.text for strip in block.render(20, PLAIN)] == [
        "❯ one two      14:02",
        "  three four",
    ]


def test_a_rule_fills_its_width_around_its_label() -> None:
    rule = RuleBlock((1, 0), "116.2k → 27.4k", lead="▸─", right=(("14:31", "muted"),))
    assert rule.render(40, PLAIN)[0].text == "▸─ 116.2k → 27.4k ──────────────   14:31"
    assert (
        RuleBlock((1, 0), "x", align="centre").render(9, PLAIN)[0].text == "─── x ───"
    )
