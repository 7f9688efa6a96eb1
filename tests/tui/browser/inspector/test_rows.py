"""The rows of History, LLM view and Files, drawn without a screen."""

from foldline.past.describe import call_title
from foldline.protocol import (
    Compaction,
    FileImage,
    Kept,
    Revert,
    ToolCallPart,
    UserMessage,
    text_parts,
)
from foldline.text import numbers
from foldline.tui.blocks.block import Block
from foldline.tui.blocks.diff import lines_of_diff
from foldline.tui.browser.inspector.files import FileBlock, file_table
from foldline.tui.browser.inspector.tables import ViewTable, new_items_of
from foldline.tui.browser.panels.bodies import body_blocks
from foldline.tui.browser.panels.entry_list import DIVIDER_KEY, EntryList, row_key
from foldline.tui.browser.panels.entry_rows import (
    SummaryPreview,
    history_rows,
    summary_preview,
    view_rows,
)
from foldline.tui.browser.panels.gutters import (
    gutter_width,
    history_gutter,
    view_gutter,
)
from foldline.tui.browser.panels.states import in_view
from foldline.tui.look.styles import Styles
from foldline.view.budget import Size
from foldline.view.projection import Projection
from support.history import call, history, modified, read
from support.stories import SERVICE, Story, chinese, shop

STYLES = Styles(no_color=True)


def drawn(block: Block, width: int = 60) -> list[str]:
    return [strip.text.rstrip() for strip in block.render(width, STYLES)]


def lines(blocks: list[Block], width: int = 60) -> dict[tuple[int, int], str]:
    return {block.key: drawn(block, width)[0] for block in blocks}


def marks(projection: Projection, index: int) -> str:
    news = new_items_of(projection)
    new_from = news.first_index if news else None
    width = gutter_width(projection.last_index)
    return "".join(
        text
        for text, _ in history_gutter(projection, new_from, row_key(index), 0, width)
    )


def test_a_message_shows_kind_first_words_and_tokens() -> None:
    rows = lines(
        history_rows(
            Story()
            .system("Be good.\nAlways.")
            .user("  \nDo this\nand that")
            .projection()
        )
    )
    assert rows[0, 0].split() == ["system", "Be", "good.", "~12"]
    assert rows[1, 0].startswith("user    Do this") and "and that" not in rows[1, 0]


def test_results_hang_under_their_call_with_its_title_and_outcome() -> None:
    calls = [call("edit", path="a/b.py"), call("bash", command="make\nx")]
    story = Story().user("go").assistant("two changes", calls=calls)
    story.answer("ok", brief="+9 −6").answer("ok", brief="exit 0")
    rows = lines(history_rows(story.projection()))
    assert rows[2, 0].startswith("├ edit  a/b.py   +9 −6")
    assert rows[3, 0].startswith("└ bash  make⏎x   exit 0")


def test_a_narrow_row_gives_up_the_path_before_name_and_outcome() -> None:
    story = Story().tool("read", path="a/very/long/path/to/service.py", brief="exit 1")
    row = drawn(history_rows(story.projection())[0], 34)[0]
    assert row.startswith("─ read  …") and "exit 1 ✗" in row


def test_asides_have_no_row_and_view_changes_are_rules() -> None:
    story = shop()
    rows = lines(history_rows(story.projection()))
    shown = {index for index, _ in rows}
    asides = {
        e.index for e in story.entries if e.type in ("request", "checkpoint", "edit")
    }
    assert asides and not asides & shown
    compaction = next(e.index for e in story.entries if e.type == "compaction")
    assert "compaction · threshold · 116.2k → 27.4k" in rows[compaction, 0]
    rewind = next(e.index for e in story.entries if e.type == "revert")
    assert f"{rewind} rewind · context back to" in rows[rewind, 0]


def test_letters_and_gutters_follow_the_fates() -> None:
    projection = shop().projection()
    seen = {
        marks(projection, entry.index)[1:3]
        for entry in projection.entries
        if entry.type != "compaction"
    }
    assert {"L┃", "S┊", "C╏", "H╏", "D ", "R ", "  "} <= seen
    assert marks(projection, 2)[1:4] == "L┃*"
    assert marks(projection, projection.last_index)[1:4] == "L┃+"


def test_an_undone_compaction_gives_the_gutters_back_and_says_so() -> None:
    story = shop()
    compaction = next(e.index for e in story.entries if e.type == "compaction")
    later = Story()
    later.entries, later._next = list(story.entries[: compaction + 1]), compaction + 1
    projection = later.undo(compaction).projection()
    assert marks(projection, 4)[1:3] == "L┃"
    assert "undone" in lines(history_rows(projection))[compaction, 0]


def test_in_a_narrow_panel_the_rule_of_a_compaction_keeps_its_sizes() -> None:
    story = shop()
    compaction = next(e.index for e in story.entries if e.type == "compaction")
    row = next(
        block
        for block in history_rows(story.projection())
        if block.key == (compaction, 0)
    )
    assert "compaction · threshold · 116.2k → 27.4k" in drawn(row, 60)[0]
    assert f"{compaction} compaction · 116.2k → 27.4k" in drawn(row, 40)[0]


def test_the_view_lists_its_items_in_order_with_the_summary_opened_a_little() -> None:
    projection = shop().projection()
    weight = round(2_800 * projection.meter.scale)
    rows = view_rows(
        projection, overhead=2_800, divider=(len(projection.view) - 2, "new below")
    )
    order = [block.key for block in rows if block.stop]
    assert order[1:] == [row_key(*item.key) for item in projection.view]
    assert "tool schemas" in drawn(rows[0])[0] and drawn(rows[0])[0].endswith(
        numbers.tokens(weight, estimated=True)
    )
    preview = next(block for block in rows if isinstance(block, SummaryPreview))
    assert (
        drawn(preview)[0] == "┊ ## Goal"
        and "more lines, Enter opens" in drawn(preview)[-1]
    )
    assert [block.key for block in rows][-3] == DIVIDER_KEY


def test_a_summary_says_what_it_stands_for() -> None:
    story = Story().system("s").turn("one", "1").turn("two", "2")
    story.compaction(3, "first", first=1)
    first = story.last
    story.turn("three", "3")
    story.compaction(6, "second", first=3, inputs=[first])
    rows = lines(view_rows(story.projection()))
    assert f"summary of {first} and 3–5, 2 entries" in rows[row_key(story.last)]


def test_a_preview_keeps_its_height_and_marks_the_lines_that_name_a_file() -> None:
    text = "\n".join(f"line {number}" for number in range(20)) + "\nlast names src/a.py"
    plain, naming = (
        summary_preview((5, 0), text, ()),
        summary_preview((5, 0), text, ("src/a.py",)),
    )
    assert len(drawn(plain)) == len(drawn(naming))
    assert not plain.marked and [naming.lines[at] for at in naming.marked] == [
        "last names src/a.py"
    ]
    (at,) = naming.marked
    assert "▷" in "".join(
        text for text, _ in view_gutter(naming, None, naming.key, at, 10)
    )


def test_hidden_and_clipped_items_weigh_what_is_sent_and_history_what_they_were() -> (
    None
):
    projection = shop().projection()
    hidden = next(item.index for item in projection.view if item.fate == "hidden")
    clipped = next(item.index for item in projection.view if item.fate == "clipped")
    sent, full = lines(view_rows(projection)), lines(history_rows(projection))
    assert (
        "[hidden: pytest -q, 31 passed]" in sent[hidden, 0]
        and "[hidden" not in full[hidden, 0]
    )
    narrow = lines(view_rows(projection), 44)[hidden, 0]
    assert "[hidden: " in narrow and "]" in narrow, "what is cut is what stands between"
    assert (
        "clipped" in sent[clipped, 0]
        and sent[clipped, 0].split()[-1] != full[clipped, 0].split()[-1]
    )


def test_many_entries_have_one_summary_as_their_counterpart_and_a_dropped_one_none() -> (
    None
):
    projection = shop().projection()
    compaction = projection.compactions()[0].index
    assert {in_view(projection, index).key for index in range(4, 10)} == {
        row_key(compaction)
    }
    dropped = next(
        e.index
        for e in projection.entries
        if projection.fate(e.index).kind == "dropped"
    )
    edit = projection.fate(dropped).by
    assert in_view(projection, dropped).key is None
    assert in_view(projection, dropped).words == f"{dropped}: dropped by you ({edit})"


def test_files_are_listed_by_section_with_gutters() -> None:
    projection = shop().projection()
    files = [
        block for block in file_table(projection).blocks if isinstance(block, FileBlock)
    ]
    assert {file.path: file.presence for file in files} == {
        SERVICE: "part",
        "migrations/0042.py": "part",
    }
    assert drawn(next(file for file in files if file.path == SERVICE), 40)[0].endswith(
        "+9 −6"
    )


def test_a_file_only_in_a_summary_has_the_gutter_of_its_name() -> None:
    files = [
        block
        for block in file_table(chinese().projection()).blocks
        if isinstance(block, FileBlock)
    ]
    assert len(files) == 6 and {file.presence for file in files} == {"name"}


def test_files_of_a_rewind_that_restored_them_have_a_section_of_their_own() -> None:
    story = (
        Story()
        .user("go")
        .checkpoint(0, FileImage(path="a.py", before="old", after="new"))
    )
    story.tool("edit", path="a.py", files=[modified("a.py")])
    story.checkpoint(1, FileImage(path="a.py", before="new", after="old"))
    story.add(Revert(checkpoint=0, files=True))
    story.tool("read", path="b.py", files=[read("b.py")])
    shown = [drawn(block, 40)[0] for block in file_table(story.projection()).blocks]
    assert shown[0].startswith("Modified, then restored") and "rewind 5" in shown[1]


def test_rows_never_exceed_their_width_in_chinese() -> None:
    projection = chinese().projection()
    for block in (
        *history_rows(projection),
        *view_rows(projection),
        *file_table(projection).blocks,
    ):
        for width in (12, 23, 40, 61):
            assert all(
                strip.cell_length <= width for strip in block.render(width, STYLES)
            ), block


def test_markup_and_control_sequences_are_text() -> None:
    nasty = "[red]x[/nope] \x1b[2J\x1b]0;t\x07 \u202eabc\ttab"
    story = (
        Story()
        .system(nasty)
        .user(nasty)
        .tool(nasty, nasty, brief=nasty, path=nasty, intro=nasty, diff=nasty)
    )
    story.compaction(3, nasty, first=1)
    projection = story.projection()
    rows = [*history_rows(projection), *view_rows(projection)]
    for entry in story.entries:
        rows += body_blocks(projection, entry, row_key(entry.index))
    text = "\n".join("\n".join(drawn(block, 300)) for block in rows)
    assert "[red]x[/nope]" in text
    assert not any(sign in text for sign in "\x1b\x07\u202e\t")


def test_an_opened_result_shows_arguments_diff_and_text() -> None:
    diff = "--- a.py\n+++ a.py\n@@ -118,2 +118,2 @@\n same\n--- old sql\n+new\n"
    story = Story().tool("edit", "done", path="a.py", old=["x"], diff=diff)
    shown = "\n".join(
        "\n".join(drawn(block))
        for block in body_blocks(story.projection(), story.entries[1], (1, 0))
    )
    for part in (
        "arguments of edit",
        "path: a.py",
        '"x"',
        "119 − -- old sql",
        "119 + new",
        "done",
    ):
        assert part in shown


def test_an_opened_answer_shows_thinking_text_and_calls() -> None:
    story = Story().assistant(
        "**Done**", thinking="let me think", calls=[call("ls", path=".")]
    )
    shown = "\n".join(
        "\n".join(drawn(block))
        for block in body_blocks(story.projection(), story.entries[0], (0, 0))
    )
    assert (
        "let me think" in shown
        and "Done" in shown
        and "calls ls" in shown
        and "path: ." in shown
    )


def test_a_huge_text_opens_in_pieces() -> None:
    story = Story().tool("bash", "x" * 500_000 + "\n" + "line\n" * 10_000, command="c")
    blocks = body_blocks(story.projection(), story.entries[1], (1, 0))
    assert len({block.key for block in blocks}) == len(blocks) > 100
    assert max(len(drawn(block)) for block in blocks[:20]) < 3_000


def test_numbers_written_into_a_foreign_diff_are_used() -> None:
    found = list(lines_of_diff("      ...\n   83   same\n-  87 old\n+  87 new\n"))
    assert [(line.kind, line.number, line.content) for line in found] == [
        ("skip", 0, ""),
        ("same", 83, "  same"),
        ("old", 87, "old"),
        ("new", 87, "new"),
    ]


def test_call_titles_come_from_the_arguments() -> None:
    def title(arguments: str) -> tuple[str, bool]:
        return call_title(
            ToolCallPart(call_id="1", name="t", arguments=arguments), "/w"
        )

    assert title('{"path": "/w/src/a.py"}') == ("src/a.py", True)
    assert title('{"command": "cd /w && pytest /w/tests"}') == ("pytest tests", False)
    assert title('{"path": ".", "pattern": "x"}') == ('"x"', False)
    assert title('{"command": "cd /w\\nmake\\nmake check"}') == (
        "make⏎make check",
        False,
    )
    assert title("not json") == ("", False)
    assert title('{"n": 3, "note": "hello"}') == ("hello", False)


def test_a_compaction_that_only_hid_is_called_by_what_it_hid() -> None:
    stub = Kept(ref=2, content="[hidden]", fate="hidden")
    story = (
        history()
        .user("go")
        .step("read", "all of it")
        .add(Compaction(first_kept_index=1, replaced=(stub,)))
    )
    compaction = story.entries[-1].index
    assert (
        in_view(story.projection(), compaction).words
        == f"{compaction}: 1 result hidden"
    )


def test_what_a_program_said_in_the_users_place_is_not_passed_off_as_typed() -> None:
    said = UserMessage(origin="machine", parts=text_parts("Called the Read tool"))
    rows = lines(history_rows(history().add(said).projection()))
    assert rows[0, 0].startswith("machine Called the Read tool")


def test_what_has_not_changed_is_a_part_of_the_whole_that_the_panel_names() -> None:
    projection = history().user("go").assistant("done").projection()
    sheet = ViewTable(EntryList(id="view"), 0, "")
    sheet.begin(projection)
    new = round(projection.view[-1].tokens * projection.meter.scale)
    for whole, first in (
        (52_100, numbers.tokens(52_100 - new, estimated=True)),
        (1, "~0"),
    ):
        foot = sheet.foot(
            None, Size(whole, estimated=False), active=False, from_history=False
        )
        assert foot == ("tokens ~ estimated", f"first {first} as in request 1")
