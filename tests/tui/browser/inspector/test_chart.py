"""The chart of the timeline: a column shows the largest of its share, marks stand where they belong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from foldline.tui.browser.inspector import chart
from foldline.tui.browser.inspector.chart import ColumnLayout
from foldline.tui.browser.inspector.timeline import (
    TimelineData,
    chart_lines,
    panel_lines,
    rows_for,
)

sizes = st.lists(st.integers(0, 200_000), max_size=300)


def words(line: list[tuple[str, str]]) -> str:
    return "".join(text for text, _ in line)


@given(sizes, st.integers(0, 200_000), st.integers(1, 120))
def test_a_column_shows_the_largest_of_its_share_and_few_requests_have_several_each(
    values: list[int], latest: int, width: int
) -> None:
    layout = ColumnLayout(len(values) + 1, width)
    every = [*values, latest]
    shown = chart.heights(values, latest, layout)
    assert (
        len(shown)
        == layout.columns
        == min(len(every) * layout.columns_per_request, width)
    )
    of = [layout.column(slot) for slot in range(len(every))]
    assert of == sorted(of) and of[-1] == layout.columns - 1
    if layout.columns_per_request > 1:
        assert shown == [
            size for size in every for _ in range(layout.columns_per_request)
        ]
        return
    assert set(of) == set(range(layout.columns))
    for column, size in enumerate(shown):
        share = [every[slot] for slot in range(len(every)) if of[slot] == column]
        assert size == max(share)
        start, stop = layout.requests_at(column)
        assert every[start:stop] == share


@given(st.integers(0, 200_000), st.integers(1, 200_000), st.integers(1, 4))
def test_a_column_is_as_high_as_its_size_and_never_invisible(
    size: int, top: int, rows: int
) -> None:
    size = min(size, top)
    column = [chart.glyph(size, top, row, rows) for row in range(rows)]
    eighths = sum(chart.BLOCKS.index(block) for block in column)
    assert abs(eighths - size * rows * 8 / top) <= 1
    assert (eighths > 0) == (size > 0)
    assert sorted(column, key=chart.BLOCKS.index, reverse=True) == column, (
        "it stands on the axis"
    )


@given(
    st.lists(st.integers(0, 79), unique=True, max_size=12).map(sorted),
    st.integers(0, 79),
    st.none() | st.integers(0, 79),
)
def test_marks_stand_in_their_columns(
    columns: list[int], shown: int, marked: int | None
) -> None:
    compactions = [(1000 + column, column) for column in columns]
    line = words(chart.axis(80, compactions, shown, marked))
    assert len(line) == 80 and line[shown] == "▲"
    if marked is not None and marked != shown:
        assert line[marked] == "△"
    for column in columns:
        assert line[column] == "▼" or column in (shown, marked)
    for index, column in compactions:
        if str(index) in line:
            assert line.index(str(index)) == column - 5, "a name stands before its mark"


def test_a_compaction_is_named_where_there_is_room() -> None:
    assert (
        words(chart.axis(14, [(7, 1), (118, 6), (373, 8)], 13, None))
        == "─▼118─▼─▼────▲"
    )


@pytest.mark.parametrize(
    ("largest", "window", "top"),
    [
        (28_600, 131_072, 28_600),
        (80_000, 131_072, 80_000),
        (90_000, 131_072, 131_072),
        (200_000, 131_072, 200_000),
        (900, 0, 900),
        (0, 0, 1),
    ],
)
def test_the_scale_ends_at_the_largest_request_or_at_a_window_that_is_nearly_full(
    largest: int, window: int, top: int
) -> None:
    assert chart.top_of(largest, window) == top


def test_the_axis_is_labelled_as_in_the_picture() -> None:
    assert chart.labels(131_072, 3) == ["131k", " 87k", " 44k", "   0"]
    assert chart.labels(10_240, 3) == ["10.2k", " 6.8k", " 3.4k", "    0"]
    assert chart.labels(1_048_576, 1) == ["1.05M", "    0"]


@given(sizes, st.integers(3, 200))
def test_every_line_has_the_width_of_the_panel(values: list[int], width: int) -> None:
    data = TimelineData(
        values,
        10,
        131_072,
        len(values),
        ((3, 0),),
        None,
        ((("▲ 请求", "text"),),),
        "now",
    )
    for height in (4, 6):
        lines = panel_lines(data, width, height)
        assert len(lines) == height
    if width >= 20:
        assert {cell_len(words(line)) for line in lines} == {width}


def test_the_picture() -> None:
    values = [6_000, 16_000, 44_000, 92_000, 116_000, 27_000, 31_000]
    data = TimelineData(values, 28_600, 131_072, 7, ((118, 4),))
    assert [words(line).rstrip() for line in chart_lines(data, 17, 4)] == [
        " 131k ┤   ▁▅",
        "  87k ┤   ██",
        "  44k ┤▁▃███▅▆▅",
        "    0 └118─▼──▲",
    ]
    assert [words(line).rstrip() for line in chart_lines(data, 40, 4)][2:] == [
        "  44k ┤▁▁▁▁▃▃▃▃████████████▅▅▅▅▆▆▆▆▅▅▅▅",
        "    0 └───────────────118─▼───────────▲",
    ], "few requests use the free columns"


@pytest.mark.parametrize(
    ("height", "rows"), [(17, 2), (19, 2), (20, 4), (29, 4), (43, 4)]
)
def test_on_a_short_screen_the_chart_is_lower(height: int, rows: int) -> None:
    assert rows_for(height) == rows
