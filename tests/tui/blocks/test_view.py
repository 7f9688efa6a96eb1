import subprocess
import sys

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from textual.geometry import Offset
from textual.selection import Selection
from textual.theme import Theme
from textual.widget import Widget

from foldline.tui.blocks.block import Block
from foldline.tui.blocks.markdown import (
    StreamingMarkdown,
    markdown_blocks,
)
from foldline.tui.blocks.plain import RowBlock, RuleBlock, TextBlock
from foldline.tui.blocks.view import BlockView
from foldline.tui.look.cells import Spans
from support.limits import examples
from support.views import ViewApp, rows, tall

MANY = 100_000


def top_row(view: BlockView) -> str:
    return rows(view)[0]


def row(index: int, text: str = "row", stop: bool = True) -> RowBlock:
    return RowBlock(
        (index, 0), (("▸ ", "muted"),), ((f"{text} {index}", "text"),), stop=stop
    )


# --- The top line stays (rule 1) -----------------------------------------------------------------------


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "append",
                "replace",
                "collapse",
                "resize",
                "scroll",
                "page",
                "filter",
                "jump",
            ]
        ),
        st.integers(0, 500),
    ),
    min_size=4,
    max_size=12,
)


@settings(
    max_examples=examples(12),
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
@given(CHANGES)
async def test_the_top_line_stays_on_its_row_through_every_change(
    changes: list[tuple[str, int]],
) -> None:
    view = BlockView(
        [tall(index, 1 + index * 7 % 90) for index in range(200)], follow=False
    )
    app = ViewApp(view)
    fresh = 1000
    async with app.run_test(size=(60, 20)) as pilot:
        view.scroll_to(y=150)
        await pilot.pause()
        for what, number in changes:
            before = view.top
            assert before is not None
            block = view.block_at(number % view.count)
            match what:
                case "append":
                    view.append(tall(fresh, number % 50 + 1))
                case "replace":
                    view.replace(block.key, tall(block.key[0], number % 120 + 1))
                case "collapse" if block.key != before[0]:
                    view.remove_blocks([block.key])
                case "filter":
                    view.set_blocks(
                        [
                            each
                            for each in all_blocks(view)
                            if each.key[0] % 5 or each.key == before[0]
                        ]
                    )
                case "resize":
                    await pilot.resize_terminal(40 + number % 60, 10 + number % 20)
                case "scroll":
                    view.scroll_lines(number % 30 - 15)
                case "page":
                    view.scroll_pages(-1 if number % 2 else 1)
                case "jump":
                    view.scroll_to(y=number)
            fresh += 1
            await pilot.pause()
            assert round(view.scroll_y) == view._viewport.position
            top = view.top
            assert top is not None
            assert top_row(view).replace("▶", " ") == drawn_line(view, *top)
            if what in ("append", "collapse", "filter", "resize", "replace"):
                assert top[0] == before[0]
            if what in ("append", "collapse", "filter"):
                assert top == before


def all_blocks(view: BlockView) -> list[Block]:
    return [view.block_at(index) for index in range(view.count)]


def drawn_line(view: BlockView, key: tuple[int, int], line: int) -> str:
    block = view.block(key)
    assert block is not None
    strips = block.render(view.size.width - 1 - 3 - 1, view.roles)
    return ("   " + strips[line].text).rstrip()


async def test_an_opened_entry_grows_downwards_even_at_the_end() -> None:
    view = BlockView([row(index) for index in range(50)])
    async with ViewApp(view).run_test(size=(60, 10)) as pilot:
        await pilot.pause()
        assert rows(view)[-1].endswith("row 49")
        before = top_row(view)
        view.replace((45, 0), tall(45, 100))
        await pilot.pause()
        assert top_row(view) == before
        assert not view.follow


async def test_wrong_estimates_above_do_not_show_when_scrolling_up() -> None:
    view = BlockView([tall(index, 1 + index % 40) for index in range(300)])
    async with ViewApp(view).run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        for _ in range(60):
            before = rows(view)
            view.scroll_up(animate=False)
            await pilot.pause()
            assert rows(view)[1:] == before[:-1]


# --- Following is earned (rule 2) ----------------------------------------------------------------------


async def test_a_line_up_ends_following_new_lines_are_counted_and_end_resumes() -> None:
    view = BlockView([row(index) for index in range(50)])
    app = ViewApp(view)
    async with app.run_test(size=(60, 10)) as pilot:
        view.focus()
        await pilot.pause()
        view.append(row(50))
        assert view.follow
        assert rows(view)[-1].endswith("row 50")
        view.scroll_lines(-1)
        assert not view.follow
        shown = rows(view)
        view.append(row(51), row(52))
        await pilot.pause()
        assert rows(view) == shown
        assert view.new_below == 2
        assert app.below == [2]
        await pilot.press("end")
        assert view.follow
        assert view.new_below == 0
        assert rows(view)[-1].endswith("row 52")
        view.append(row(53))
        assert rows(view)[-1].endswith("row 53")


async def test_the_wheel_and_the_prompt_growing_below_do_not_break_following() -> None:
    view = BlockView([row(index) for index in range(50)])
    async with ViewApp(view).run_test(size=(60, 10)) as pilot:
        await pilot.pause()
        await pilot.resize_terminal(60, 6)
        await pilot.pause()
        assert view.follow
        assert rows(view)[-1].endswith("row 49")
        await pilot.resize_terminal(60, 14)
        await pilot.pause()
        assert rows(view)[-1].endswith("row 49")
        assert rows(view)[0].endswith("row 36")
        view.scroll_up(animate=False)
        await pilot.pause()
        assert not view.follow
        view.scroll_end(animate=False)
        await pilot.pause()
        assert view.follow


# --- Work, not time ------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_key_draws_at_most_what_becomes_visible_at_a_hundred_thousand_blocks() -> (
    None
):
    view = BlockView([tall(index, index % 30 + 1) for index in range(MANY)])
    app = ViewApp(view)
    async with app.run_test(size=(80, 24)) as pilot:
        view.focus()
        await pilot.pause()
        assert view.rendered <= 25
        widgets = len(list(app.screen.walk_children(Widget)))
        for key in ("up", "pageup", "up", "home", "down", "pagedown", "end", "k", "j"):
            before = view.rendered
            await pilot.press(key)
            assert view.rendered - before <= 25, key
        before = view.rendered
        view.scroll_to(y=60_000)
        await pilot.pause()
        assert view.rendered - before <= 49
        assert len(list(app.screen.walk_children(Widget))) == widgets


async def test_a_compaction_changes_all_gutters_without_drawing_a_block() -> None:
    compacted = False

    def gutter(key: tuple[int, int], line: int) -> Spans:
        return ((" ┊ ", "compacted"),) if compacted else ((" ┃ ", "live"),)

    view = BlockView([tall(index, 30) for index in range(100)], gutter=gutter)
    async with ViewApp(view).run_test(size=(60, 10)) as pilot:
        await pilot.pause()
        before, drawn = rows(view), view.rendered
        compacted = True
        view.refresh()
        await pilot.pause()
        assert view.rendered == drawn
        assert rows(view) == [line.replace("┃", "┊") for line in before]


@pytest.mark.slow
async def test_a_feed_tick_draws_at_most_two_blocks_and_makes_no_widget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = BlockView([row(index) for index in range(50)])
    answer = (
        "Some text that says `what` is done.\n\n" * 5
        + "```python\n"
        + "x = 'value'\n" * 100
        + "```\n\n"
        + "- item with **bold**\n" * 40
        + "\n| a | b |\n|---|---|\n"
        + "| 1 | two |\n" * 60
    )
    made: list[Widget] = []
    async with ViewApp(view).run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        init = Widget.__init__

        def counted(self: Widget, *args: object, **options: object) -> None:
            made.append(self)
            init(self, *args, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(Widget, "__init__", counted)
        stream = StreamingMarkdown(60)
        for start in range(0, len(answer), 12):
            before = view.rendered
            feed = stream.feed(answer[start : start + 12])
            if feed:
                view.replace_from(feed[0].key, feed)
            rows(view)
            assert view.rendered - before <= 2
            assert view.follow
        last = stream.finish()
        if last:
            view.replace_from(last[0].key, last)
        await pilot.pause()
        whole = BlockView(
            [row(index) for index in range(50)] + list(markdown_blocks(answer, 60))
        )
        assert made == [whole]
        assert [block.text() for block in all_blocks(view)] == [
            block.text() for block in all_blocks(whole)
        ]


async def test_streaming_repaints_from_the_first_changed_row_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = BlockView([row(index) for index in range(5)])
    async with ViewApp(view).run_test(size=(60, 20)) as pilot:
        await pilot.pause()
        painted: list[tuple[object, ...]] = []
        monkeypatch.setattr(
            view, "refresh", lambda *regions, **options: painted.append(regions)
        )
        view.append(row(5))
        ((region,),) = painted
        assert region.y == 5  # type: ignore[attr-defined]


# --- The cursor ----------------------------------------------------------------------------------------


async def test_the_cursor_moves_by_blocks_skips_headings_and_is_told() -> None:
    view = BlockView(
        [row(0, "head", stop=False), row(1), row(2, "head", stop=False), row(3)],
        follow=False,
    )
    app = ViewApp(view)
    async with app.run_test(size=(60, 10)) as pilot:
        view.focus()
        await pilot.pause()
        assert view.cursor == (1, 0)
        await pilot.press("down", "enter", "k", "home", "end")
        await pilot.pause()
        assert app.moved == [(1, 0), (3, 0), (1, 0), (3, 0)]
        assert app.opened == [(3, 0)]
        assert [line[:1] for line in rows(view)[:4]] == [" ", " ", " ", "▶"]


async def test_the_cursor_is_shown_in_reverse_and_only_with_the_focus() -> None:
    view = BlockView([row(0), row(1)], follow=False)
    async with ViewApp(view).run_test(size=(40, 10)) as pilot:
        view.focus()
        await pilot.pause()
        assert all(
            segment.style and segment.style.reverse for segment in view.render_line(0)
        )
        assert rows(view)[0].startswith("▶")
        view.blur()
        await pilot.pause()
        assert not any(
            segment.style and segment.style.reverse for segment in view.render_line(0)
        )
        assert not rows(view)[0].startswith("▶")


async def test_the_counterpart_has_its_own_mark_and_posts_nothing() -> None:
    view = BlockView([row(0), row(1)], follow=False)
    app = ViewApp(view)
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.pause()
        told = list(app.moved)
        view.counterpart = (0, 0)
        view.cursor_to((1, 0), quiet=True)
        await pilot.pause()
        assert [line[0] for line in rows(view)[:2]] == ["▷", "▶"]
        assert app.moved == told


async def test_the_cursor_stays_at_its_entry_when_rows_are_filtered_away() -> None:
    view = BlockView([row(index) for index in range(100)], follow=False)
    async with ViewApp(view).run_test(size=(40, 10)) as pilot:
        await pilot.pause()
        view.cursor_to((50, 0))
        view.set_blocks([row(index) for index in range(0, 100, 2)])
        assert view.cursor == (50, 0)
        view.set_blocks([row(index) for index in range(1, 100, 2)])
        assert view.cursor in ((49, 0), (51, 0))
        view.set_blocks(())
        assert view.cursor is None
        assert view.count == 0


async def test_a_block_taller_than_the_screen_is_scrolled_through() -> None:
    view = BlockView([row(0), tall(1, 200), row(2)], follow=False)
    async with ViewApp(view).run_test(size=(40, 10)) as pilot:
        view.focus()
        await pilot.press("down")
        assert view.cursor == (1, 0)
        await pilot.press(*["down"] * 4)
        assert view.cursor == (1, 0)
        await pilot.press(*["down"] * 60)
        assert view.cursor == (2, 0)
        assert rows(view)[-1].endswith("row 2")


async def test_scrolling_to_a_block_moves_as_little_as_possible() -> None:
    view = BlockView([row(index) for index in range(100)], follow=False)
    async with ViewApp(view).run_test(size=(40, 10)) as pilot:
        await pilot.pause()
        view.scroll_to_key((5, 0))
        assert view.top == ((0, 0), 0)
        view.scroll_to_key((12, 0))
        assert view.top == ((3, 0), 0)
        view.scroll_to_key((60, 0))
        assert view.top == ((51, 0), 0)
        view.scroll_to_key((20, 0), only_if_hidden=False)
        assert view.top == ((20, 0), 0)
        view.scroll_to_key((4, 0))
        assert view.top == ((4, 0), 0)


# --- Search, selection, foreign text -------------------------------------------------------------------


async def test_what_is_looked_for_is_shown_whatever_its_case() -> None:
    view = BlockView(
        [row(index, "Order" if index % 2 else "thing") for index in range(9)],
        follow=False,
    )
    async with ViewApp(view).run_test(size=(40, 10)) as pilot:
        await pilot.pause()
        drawn = view.rendered
        view.set_search("order")
        marked = [
            segment.text
            for segment in view.render_line(1)
            if segment.style and segment.style.underline
        ]
        assert marked == ["Order"]
        view.set_search("")
        assert not any(
            segment.style and segment.style.underline for segment in view.render_line(1)
        )
        assert view.rendered == drawn


async def test_a_mouse_selection_gives_text_without_gutter_and_decoration() -> None:
    def gutter(key: tuple[int, int], line: int) -> Spans:
        return ((" ┃ ", "live"),)

    answer = markdown_blocks(
        "First words.\n\n```\ncode here\nmore\n```\n\nLast words.", 1, indent=2, gap=0
    )
    view = BlockView(answer, gutter=gutter, follow=False)
    async with ViewApp(view).run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        await pilot.mouse_down(view, offset=(11, 0))
        await pilot.hover(view, offset=(8, 5))
        await pilot.mouse_up(view, offset=(8, 5))
        await pilot.pause()
        assert view.text_selection is not None
        selected = view.get_selection(view.text_selection)
        assert selected is not None
        assert selected[0].startswith("words.\n\ncode here\nmore\n\nLas")
        assert any(
            segment.style and segment.style.reverse for segment in view.render_line(2)
        )


async def test_selecting_everything_gives_what_the_blocks_stand_for() -> None:
    view = BlockView(
        markdown_blocks("**bold** text\n\n- a\n- b", 1, gap=0), follow=False
    )
    async with ViewApp(view).run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        assert view.get_selection(Selection(None, None)) == (
            "**bold** text\n\n- a\n- b",
            "\n",
        )
        assert view.get_selection(Selection(Offset(3, 0), Offset(7, 0))) == (
            "bold",
            "\n",
        )


async def test_markup_in_foreign_text_is_only_text() -> None:
    view = BlockView(
        [
            TextBlock((0, 0), "[/nope] [red]x[/red] list[str]"),
            RuleBlock((1, 0), "[/nope]"),
        ]
    )
    async with ViewApp(view).run_test(size=(60, 12)) as pilot:
        await pilot.pause()
        assert rows(view)[0].strip() == "[/nope] [red]x[/red] list[str]"
        assert "[/nope]" in rows(view)[1]


async def test_no_row_is_wider_than_the_view_with_wide_characters() -> None:
    view = BlockView(
        markdown_blocks("你好，世界" * 40 + "\n\n```\n" + "你好" * 60 + "\n```", 1),
        follow=False,
    )
    async with ViewApp(view).run_test(size=(31, 20)) as pilot:
        await pilot.pause()
        assert {view.render_line(y).cell_length for y in range(15)} == {30}


async def test_another_theme_draws_again_and_keeps_the_top_line() -> None:
    view = BlockView([tall(index, 40) for index in range(50)], follow=False)
    app = ViewApp(view)
    async with app.run_test(size=(60, 12)) as pilot:
        view.scroll_to(y=40)
        await pilot.pause()
        before, roles = (view.top, top_row(view)), view.roles
        app.register_theme(
            Theme(name="other", primary="red", variables={"role-text": "#101010"})
        )
        app.theme = "other"
        await pilot.pause()
        assert (view.top, top_row(view)) == before
        assert view.roles != roles


async def test_an_unknown_key_is_an_error_where_a_block_is_replaced() -> None:
    view = BlockView([row(0)])
    with pytest.raises(KeyError):
        view.replace((9, 9), row(9))
    view.cursor_to((9, 9))
    assert view.cursor is None


@pytest.mark.slow
def test_importing_the_blocks_costs_neither_pydantic_nor_the_protocol() -> None:
    code = (
        "import sys, foldline.tui.blocks.view\n"
        "late = {'pydantic', 'foldline.protocol', 'markdown_it', 'pygments.lexers', 'openai'}\n"
        "late &= set(sys.modules)\n"
        "sys.exit(repr(late) if late else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
