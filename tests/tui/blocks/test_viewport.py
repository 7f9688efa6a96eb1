"""The arithmetic of positions, without a screen: heights are made up, and estimates are always wrong."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.tui.blocks.block import Block, BlockList
from foldline.tui.blocks.viewport import Viewport
from support.limits import examples


@dataclass(frozen=True, slots=True, eq=False)
class Fake(Block):
    height: int

    def estimate(self, width: int) -> int:
        return 2


def fake(index: int, height: int) -> Fake:
    return Fake((index, 0), height)


def real_height(block: Block) -> int:
    assert isinstance(block, Fake)
    return block.height


def viewport(heights: list[int], rows: int, follow: bool = True) -> Viewport:
    port = Viewport(BlockList(real_height), follow)
    port.resize(80, rows)
    port.replace_all([fake(index, height) for index, height in enumerate(heights)])
    return port


def screen(port: Viewport) -> list[tuple[int, int] | None]:
    """(entry, line) on every row, by walking down from the top with real heights."""
    found: list[tuple[int, int] | None] = []
    index, line = port.top
    while len(found) < port.height:
        if index >= len(port.block_list):
            found.append(None)
        elif line < real_height(port.block_list[index]):
            found.append((port.block_list[index].key[0], line))
            line += 1
        else:
            index, line = index + 1, 0
    return found


def by_offsets(port: Viewport) -> list[tuple[int, int] | None]:
    """The same by the tree of heights, which is how rows are drawn."""
    heights = port.block_list.heights
    found: list[tuple[int, int] | None] = []
    for row in range(port.height):
        at = port.position + row
        if at < heights.total:
            index, line = heights.locate(at)
            found.append((port.block_list[index].key[0], line))
        else:
            found.append(None)
    return found


def last_line(port: Viewport) -> tuple[int, int]:
    block = port.block_list[len(port.block_list) - 1]
    return block.key[0], real_height(block) - 1


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "append",
                "stream",
                "above",
                "insert",
                "remove",
                "resize",
                "filter",
                "scroll",
                "jump",
                "end",
                "home",
            ]
        ),
        st.integers(0, 10_000),
        st.integers(1, 9),
    ),
    max_size=30,
)


@settings(max_examples=examples(300))
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(1, 12), OPERATIONS
)
def test_only_the_reader_and_following_move_the_top_line(
    heights: list[int], rows: int, operations: list[tuple[str, int, int]]
) -> None:
    port = viewport(heights, rows)
    fresh = len(heights)
    for what, where, size in operations:
        at = where % len(port.block_list)
        before, followed = screen(port)[0], port.follow
        assert before is not None
        growing = False
        match what:
            case "append":
                port.splice(
                    len(port.block_list),
                    len(port.block_list),
                    [fake(fresh, size)],
                    follow=True,
                )
                fresh, growing = fresh + 1, True
            case "stream":
                tail = len(port.block_list) - 1
                key = port.block_list[tail].key[0]
                port.splice(
                    tail, tail + 1, [fake(key, size), fake(fresh, 1)], follow=True
                )
                fresh, growing = fresh + 1, True
            case "above":
                port.splice(
                    at, at + 1, [fake(port.block_list[at].key[0], size)], follow=False
                )
            case "insert":
                port.splice(at, at, [fake(fresh, size)], follow=False)
                fresh += 1
            case "remove" if len(port.block_list) > 1:
                port.splice(at, at + 1, [], follow=False)
            case "resize":
                port.resize(size, rows)
                growing = True
            case "filter":
                kept = [
                    block
                    for number, block in enumerate(port.block_list)
                    if (number + where) % 3 or number == at
                ]
                port.replace_all(kept)
                growing = True
            case "scroll":
                port.scroll_by(where % 41 - 20)
            case "jump":
                port.scroll_to(where % (port.virtual_height + 1))
            case "end":
                port.to_end()
            case "home":
                port.scroll_to(0)
        assert by_offsets(port) == screen(port)
        assert port.follow == (last_line(port) in screen(port))
        if what in ("end",) or (growing and followed):
            assert last_line(port) in screen(port)
        if what not in ("scroll", "jump", "end", "home") and not (growing and followed):
            index = port.block_list.find((before[0], 0))
            if index is not None:
                assert screen(port)[0] == (
                    before[0],
                    min(before[1], real_height(port.block_list[index]) - 1),
                )


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=30),
    st.integers(1, 12),
    st.lists(st.integers(-30, 30)),
)
def test_scrolling_moves_by_real_lines_whatever_the_estimates_were(
    heights: list[int], rows: int, moves: list[int]
) -> None:
    port = viewport(heights, rows, follow=False)
    lines = [
        (index, line) for index, height in enumerate(heights) for line in range(height)
    ]
    at = 0
    for move in moves:
        port.scroll_by(move)
        at = max(min(at + move, len(lines) - rows), 0)
        assert screen(port)[0] == lines[at]


def test_one_line_up_ends_following_and_the_end_resumes_it() -> None:
    port = viewport([1] * 50, 10)
    assert port.follow
    port.scroll_by(-1)
    assert not port.follow
    port.splice(50, 50, [fake(50, 3)], follow=True)
    assert screen(port)[0] == (39, 0)
    port.to_end()
    assert port.follow
    assert screen(port)[-1] == (50, 2)


def test_lines_that_came_below_are_counted_until_they_are_seen() -> None:
    port = viewport([1] * 50, 10)
    port.scroll_by(-5)
    assert port.new_below == 0
    port.splice(50, 50, [fake(50, 2), fake(51, 2)], follow=True)
    assert port.new_below == 4
    port.scroll_by(6)
    assert port.new_below == 3
    port.scroll_by(-20)
    assert port.new_below == 3
    port.splice(0, 1, [fake(0, 9)], follow=False)
    assert port.new_below == 3
    port.to_end()
    assert port.new_below == 0


def test_a_growing_last_block_counts_its_new_lines() -> None:
    port = viewport([1] * 50, 10)
    port.scroll_by(-3)
    port.splice(49, 50, [fake(49, 2), fake(50, 2)], follow=True)
    assert port.new_below == 3


def test_closing_the_last_entry_leaves_the_top_line_where_it_is() -> None:
    port = viewport([1] * 20 + [30], 10)
    port.scroll_to(0)
    port.scroll_by(18)
    port.splice(20, 21, [fake(20, 1)], follow=False)
    assert screen(port) == [(18, 0), (19, 0), (20, 0)] + [None] * 7
    port.scroll_by(-1)
    assert screen(port)[0] == (17, 0)
    port.scroll_by(5)
    assert screen(port)[0] == (17, 0)


def test_a_view_that_may_not_follow_stays_at_its_top() -> None:
    port = viewport([1] * 5, 10, follow=False)
    port.splice(5, 5, [fake(index, 1) for index in range(5, 50)], follow=True)
    assert screen(port)[0] == (0, 0)


def test_only_what_is_visible_is_measured() -> None:
    drawn: list[Block] = []

    def height_of(block: Block) -> int:
        drawn.append(block)
        return real_height(block)

    port = Viewport(BlockList(height_of), True)
    port.resize(80, 10)
    port.replace_all([fake(index, 3) for index in range(10_000)])
    assert len(drawn) <= 5
    drawn.clear()
    port.scroll_to(15_000)
    assert len(drawn) <= 9
