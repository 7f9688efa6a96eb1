"""File lists: from the history, cumulative over folds, forgotten only when the content was restored."""

import pytest

from foldline.cli.sources import read_source
from foldline.context.files import describe_compaction, file_lists
from foldline.context.moments import at_compaction
from foldline.protocol import (
    Compaction,
    CompactionDetails,
    FileImage,
    Kept,
    SystemMessage,
    Written,
    text_parts,
)
from foldline.tui.inspector.timeline import compaction_words as timeline_words
from foldline.tui.panels.entry_rows import summary_words
from support.history import History, history, modified, read
from support.recorded import SHARED, needs_recorded
from support.tracked_files import tracked_files


def worked() -> History:
    """Reads a and b, edits b and writes c."""
    built = history().user("go").step("read", "text", files=[read("a.py")])
    built.step("read", "text", files=[read("b.py")]).step("edit", "ok", files=[modified("b.py", 9, 6)])
    return built.step("write", "ok", files=[modified("c.py", 20)])


def test_a_modified_file_is_not_listed_as_read() -> None:
    assert file_lists(worked().projection()) == CompactionDetails(
        read_files=("a.py",), modified_files=("b.py", "c.py")
    )


def test_lists_accumulate_over_folds_also_those_of_an_imported_one() -> None:
    imported = CompactionDetails(read_files=("old.py", "c.py"), modified_files=("gone.py",))
    fold = Compaction(first_kept_index=99, details=imported)
    lists = file_lists(worked().add(fold).step("read", "x", files=[read("new.py")]).projection())
    assert lists.read_files == ("old.py", "a.py", "new.py")
    assert lists.modified_files == ("gone.py", "b.py", "c.py")


def test_a_rewind_forgets_a_change_only_where_the_file_was_put_back() -> None:
    there, back = (
        FileImage(path="b.py", before="old", after="new"),
        FileImage(path="b.py", before="new", after="old"),
    )
    changed = history().checkpoint(0).checkpoint(1, there).step("edit", "ok", files=[modified("b.py")])
    assert file_lists(changed.revert(0).projection()).modified_files == ("b.py",)
    assert file_lists(changed.checkpoint(2, back).revert(0).projection()).modified_files == ()
    assert tracked_files(changed.projection()) == []


def test_a_fold_in_between_does_not_bring_back_the_name_of_a_restored_file() -> None:
    there, back = FileImage(path="b.py", after="new"), FileImage(path="b.py", before="new")
    fold = Compaction(first_kept_index=99, details=CompactionDetails(modified_files=("b.py", "c.py")))
    changed = history().checkpoint(1, there).step("write", "ok", files=[modified("b.py")]).add(fold)
    assert file_lists(changed.checkpoint(2, back).projection()).modified_files == ("c.py",)


def test_an_undone_fold_brings_no_lists() -> None:
    fold = Compaction(first_kept_index=99, details=CompactionDetails(read_files=("old.py",)))
    assert file_lists(worked().add(fold).undo().projection()).read_files == ("a.py",)


def test_what_the_model_still_has_of_each_file() -> None:
    def presences(built: History) -> dict[str, str]:
        return {file.path: file.presence for file in tracked_files(built.projection())}

    assert presences(worked()) == {"c.py": "part", "b.py": "whole", "a.py": "whole"}
    assert presences(worked().edit("hide", 2)) == {"c.py": "part", "b.py": "whole", "a.py": "name"}
    assert presences(worked().edit("drop", 2))["a.py"] == "none"


def test_the_newest_touch_comes_first_with_lines_added_and_removed() -> None:
    [newest, before, *_] = tracked_files(worked().projection())
    assert (newest.path, newest.added, newest.modified) == ("c.py", 20, True)
    assert (before.path, before.added, before.removed, before.touches) == ("b.py", 9, 6, (4, 6))


SUMMARY = Written(message=SystemMessage(origin="summary", parts=text_parts("so far")), covers=((0, 2),))


def altered(ref: int, fate: str) -> Kept:
    return Kept.model_validate({"ref": ref, "content": "less", "fate": fate})


@pytest.mark.parametrize(
    ("head", "says"),
    [
        ((SUMMARY,), "3 entries compacted"),
        ((SUMMARY, altered(2, "hidden")), "3 entries compacted"),
        ((Kept(ref=0), altered(2, "hidden"), altered(4, "hidden")), "2 results hidden"),
        ((altered(2, "hidden"), altered(4, "clipped")), "1 result hidden, 1 result clipped"),
        ((), "older entries left out"),
    ],
)
def test_a_fold_is_told_by_what_it_did(head: tuple[Kept | Written, ...], says: str) -> None:
    built = history().user("go").step("read", "a").step("read", "b")
    assert describe_compaction(built.projection(), Compaction(first_kept_index=5, head=head)) == says


def test_what_had_left_the_view_before_is_no_entry_of_a_fold_nor_when_that_is_undone() -> None:
    built = history().user("go").step("read", "a").edit("drop", 1).user("on")
    built = built.add(Compaction(first_kept_index=4, head=(SUMMARY,)))
    assert (
        describe_compaction(built.projection(), built.projection().all_compactions[0]) == "1 entry compacted"
    )


@needs_recorded
def test_one_compaction_of_a_recorded_session_has_one_count_of_entries() -> None:
    found = read_source(str(SHARED / "pi" / "pimono-v1-2comp.jsonl"), None)
    projection = found.project()
    fold = projection.all_compactions[-1]
    [summary] = [item for item in projection.view if item.index == fold.index]
    assert describe_compaction(projection, fold) == "250 entries compacted", (
        "the 7 of failed requests were never sent"
    )
    assert summary_words(projection, summary).endswith(", 250 entries")
    moment = at_compaction(projection, fold.index)
    lines = [
        "".join(text for text, _ in line) for line in timeline_words(projection, moment, projection, "d")
    ]
    assert "250 entries → 1 summary" in lines


def test_a_result_that_was_altered_where_it_stands_counts_like_one_before_the_cut() -> None:
    fold = Compaction(first_kept_index=1, replaced=(altered(2, "hidden"),))
    assert describe_compaction(history().user("go").step("read", "a").projection(), fold) == "1 result hidden"
