"""The bar of the context meter."""

from hypothesis import given
from hypothesis import strategies as st

from foldline.frontend.state import ContextUse, ViewWeights
from foldline.tui.look.meter import Part, bar, bar_spans

ORDER: list[Part] = ["system", "summaries", "compacting", "verbatim", "free"]

token = st.integers(0, 400_000)
mark = st.none() | token
rooms = st.builds(
    ContextUse,
    size=token,
    window=st.integers(0, 300_000),
    soft=mark,
    threshold=mark,
    cut=mark,
    weights=st.builds(ViewWeights, token, token, token, token),
)


def bar_text(room: ContextUse, cells: int) -> str:
    return f"▐{''.join(text for text, _ in bar_spans(room, cells))}▌"


def test_the_bar_of_picture_a() -> None:
    room = ContextUse(
        116_200, 131_072, 98_304, 114_688, 92_000, ViewWeights(6_400, 4_100, 0, 105_700)
    )
    assert bar_text(room, 32) == "▐▓▓▒███████████████████◆█┆███┃···▌"


def test_the_bar_of_picture_d() -> None:
    room = ContextUse(
        26_700, 131_072, 98_304, 114_688, None, ViewWeights(6_400, 4_800, 0, 15_500)
    )
    assert bar_text(room, 16) == "▐▓▒█▌········┆·┃·▌"


def test_the_cut_shows_only_from_the_soft_mark_on() -> None:
    below = ContextUse(
        90_000, 131_072, 98_304, 114_688, 60_000, ViewWeights(verbatim=90_000)
    )
    assert "◆" not in bar_text(below, 32)


def test_an_unknown_window_is_an_empty_bar() -> None:
    assert bar_text(ContextUse(size=5000), 4) == "▐····▌"


@given(rooms, st.integers(0, 80))
def test_the_bar_has_exactly_its_cells_in_order(room: ContextUse, cells: int) -> None:
    drawn = bar(room, cells)
    assert len(drawn) == cells
    parts = [ORDER.index(cell.part) for cell in drawn if cell.part in ORDER]
    assert parts == sorted(parts)


@given(rooms, st.integers(3, 80))
def test_every_mark_has_its_cell_in_the_order_of_its_value(
    room: ContextUse, cells: int
) -> None:
    values: dict[Part, int | None] = {
        "soft": room.soft,
        "threshold": room.threshold,
        "cut": room.cut if room.past_soft else None,
    }
    wanted = {
        part: value
        for part, value in values.items()
        if value is not None and room.window > 0
    }
    drawn = [cell.part for cell in bar(room, cells) if cell.part in values]
    assert sorted(drawn) == sorted(wanted)
    assert [wanted[part] for part in drawn] == sorted(wanted[part] for part in drawn)


@given(rooms, st.integers(8, 80))
def test_a_category_with_weight_is_seen_unless_a_mark_covers_it(
    room: ContextUse, cells: int
) -> None:
    bare = ContextUse(room.size, room.window, weights=room.weights)
    drawn = {cell.part for cell in bar(bare, cells)}
    if room.window > 0 and room.weights.total > 0:
        named: list[tuple[Part, int]] = [
            ("system", room.weights.system),
            ("summaries", room.weights.summaries),
            ("compacting", room.weights.compacting),
            ("verbatim", room.weights.verbatim),
        ]
        assert drawn - {"free"} == {part for part, weight in named if weight > 0}


@given(st.integers(1, 300_000), st.integers(1, 60))
def test_a_fuller_window_never_shows_less(window: int, cells: int) -> None:
    def filled(size: int) -> int:
        return sum(
            cell.part != "free"
            for cell in bar(
                ContextUse(size, window, weights=ViewWeights(verbatim=size)), cells
            )
        )

    counts = [filled(window * step // 20) for step in range(1, 25)]
    assert counts == sorted(counts)
    assert counts[-1] == cells
