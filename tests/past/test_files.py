"""File lists from the history: cumulative over compactions, shortened only when content is restored."""

from collections.abc import Callable

from hypothesis import example, given
from hypothesis import strategies as st

from foldline.past.files import FileLedger, FileState, file_lists
from foldline.past.rewind_points import restored_paths
from foldline.protocol import (
    Checkpoint,
    Compaction,
    CompactionDetails,
    FileImage,
    SystemMessage,
    Written,
    text_parts,
)
from foldline.view.projection import Projection
from support.history import History, history, modified, read
from support.stories import Story
from support.tracked_files import tracked_files


def small_session() -> History:
    """Read a and b, edit b and write c."""
    built = history().user("go").step("read", "text", files=[read("a.py")])
    built.step("read", "text", files=[read("b.py")]).step(
        "edit", "ok", files=[modified("b.py", 9, 6)]
    )
    return built.step("write", "ok", files=[modified("c.py", 20)])


def test_a_modified_file_is_not_listed_as_read() -> None:
    assert file_lists(small_session().projection()) == CompactionDetails(
        read_files=("a.py",), modified_files=("b.py", "c.py")
    )


def test_lists_accumulate_over_compactions_including_imported_ones() -> None:
    imported = CompactionDetails(
        read_files=("old.py", "c.py"), modified_files=("gone.py",)
    )
    compaction = Compaction(first_kept_index=99, details=imported)
    lists = file_lists(
        small_session()
        .add(compaction)
        .step("read", "x", files=[read("new.py")])
        .projection()
    )
    assert lists.read_files == ("old.py", "a.py", "new.py")
    assert lists.modified_files == ("gone.py", "b.py", "c.py")


def test_a_rewind_forgets_a_change_only_if_the_file_was_restored() -> None:
    there, back = (
        FileImage(path="b.py", before="old", after="new"),
        FileImage(path="b.py", before="new", after="old"),
    )
    changed = (
        history()
        .checkpoint(0)
        .checkpoint(1, there)
        .step("edit", "ok", files=[modified("b.py")])
    )
    assert file_lists(changed.revert(0).projection()).modified_files == ("b.py",)
    assert (
        file_lists(changed.checkpoint(2, back).revert(0).projection()).modified_files
        == ()
    )
    assert tracked_files(changed.projection()) == []


def test_a_compaction_does_not_list_a_restored_file_again() -> None:
    there, back = (
        FileImage(path="b.py", after="new"),
        FileImage(path="b.py", before="new"),
    )
    compaction = Compaction(
        first_kept_index=99, details=CompactionDetails(modified_files=("b.py", "c.py"))
    )
    changed = (
        history()
        .checkpoint(1, there)
        .step("write", "ok", files=[modified("b.py")])
        .add(compaction)
    )
    assert file_lists(changed.checkpoint(2, back).projection()).modified_files == (
        "c.py",
    )


def test_an_undone_compaction_contributes_no_lists() -> None:
    compaction = Compaction(
        first_kept_index=99, details=CompactionDetails(read_files=("old.py",))
    )
    assert file_lists(
        small_session().add(compaction).undo().projection()
    ).read_files == ("a.py",)


def test_each_file_shows_how_much_of_it_is_still_in_the_view() -> None:
    def presences(built: History) -> dict[str, str]:
        return {file.path: file.presence for file in tracked_files(built.projection())}

    assert presences(small_session()) == {
        "c.py": "part",
        "b.py": "whole",
        "a.py": "whole",
    }
    assert presences(small_session().edit("hide", 2)) == {
        "c.py": "part",
        "b.py": "whole",
        "a.py": "name",
    }
    assert presences(small_session().edit("drop", 2))["a.py"] == "none"


def test_the_newest_touch_comes_first_with_lines_added_and_removed() -> None:
    [newest, before, *_] = tracked_files(small_session().projection())
    assert (newest.path, newest.added, newest.modified) == ("c.py", 20, True)
    assert (before.path, before.added, before.removed, before.touches) == (
        "b.py",
        9,
        6,
        (4, 6),
    )


def assert_consistent(built: History, look: Callable[[int], bool]) -> None:
    """Check after every entry that is looked at."""
    projection, ledger = History().projection(), FileLedger()
    for number, entry in enumerate(built.entries):
        projection.append(entry)
        if not look(number):
            continue
        told = touches_from_scratch(projection)
        newest = ledger.newest(projection, 2)
        for modified_ones, kept, count in (
            (True, newest.modified, newest.all_modified),
            (False, newest.read, newest.all_read),
        ):
            wanted = [file for file in told if file.modified is modified_ones]
            assert (list(kept), count) == (wanted[:2], len(wanted)), entry
        if number % 3 == 0:
            assert list(ledger.files(projection)) == told, entry


def touches_from_scratch(projection: Projection) -> list[FileState]:
    """Return all touches, newest first; within one result, the last first."""
    restored = restored_paths(projection.images)
    counted = [
        t for _, t in projection.touches if t.action == "read" or t.path not in restored
    ]
    newest = {touch.path: place for place, touch in enumerate(counted)}
    return [
        FileState(file.path, file.modified, file.added, file.removed, file.presence)
        for file in sorted(
            tracked_files(projection), key=lambda file: newest[file.path], reverse=True
        )
    ]


def compaction_of_all(built: History) -> Compaction:
    summary = SystemMessage(origin="summary", parts=text_parts("so far"))
    head = (Written(message=summary, covers=((0, built.last),)),)
    return Compaction(first_kept_index=built.last + 1, head=head)


def image(path: str, before: int, after: int) -> FileImage:
    return FileImage(path=path, before=str(before), after=str(after))


EVENTS = st.sampled_from(
    (
        "read",
        "both",
        "edit",
        "back",
        "hide",
        "drop",
        "pin",
        "compaction",
        "clear",
        "rewind",
        "undo",
        "take back",
    )
)


@example(
    [("take back", 0), ("take back", 0)], 1
)  # an undo of itself: only in hand-edited files
@given(st.lists(st.tuples(EVENTS, st.integers(0, 2)), max_size=20), st.integers(1, 7))
def test_updated_touches_equal_touches_from_scratch(
    happened: list[tuple[str, int]], each: int
) -> None:
    """Reads, edits and restored edits of three files with view changes in between; looked
    at after `each` so many entries."""
    built, held = History().user("go"), [0, 0, 0]
    for number, (what, which) in enumerate(happened):
        path = f"{which}.py"
        match what:
            case "read":
                built.step("read", "text", files=[read(path)])
            case "both":
                built.step(
                    "run",
                    "ok",
                    files=[read(path), modified("0.py", 1, 1), read("1.py")],
                )
            case "rewind":
                marks = [
                    entry.id for entry in built.entries if isinstance(entry, Checkpoint)
                ]
                if marks:
                    built.revert(marks[-1 - which % len(marks)])
            case "edit" | "back":
                after = 0 if what == "back" else held[which] + 1
                built.checkpoint(number, image(path, held[which], after))
                held[which] = after
                built.step("edit", "ok", files=[modified(path, 2, which)])
            case "compaction":
                built.add(compaction_of_all(built))
            case "undo":
                built.undo()
            case "take back":
                built.undo(max(1, built.last - which - 1))
            case "clear":
                built.clear()
            case _:
                built.edit(what, max(1, built.last - which))  # type: ignore[arg-type]
    assert_consistent(built, lambda number: number % each == 0)


def test_the_newest_files_are_the_same_object_until_a_file_is_accessed() -> None:
    story = Story().user("go")
    story.tool("read", "text", files=[read("src/a.py")], path="src/a.py")
    projection, ledger = story.projection(), FileLedger()
    first = ledger.newest(projection, 9)
    assert ledger.newest(projection, 9) is first
    story.tool("read", "text", files=[read("src/b.py")], path="src/b.py")
    for entry in story.entries[-2:]:
        projection.append(entry)
    assert ledger.newest(projection, 9).read[0].path == "src/b.py"
