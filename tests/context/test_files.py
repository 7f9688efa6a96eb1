"""File lists: from the history, cumulative over compactions, forgotten only when the content was restored."""

from collections.abc import Callable

from hypothesis import example, given
from hypothesis import strategies as st

from foldline.context.files import FileLedger, FileState, file_lists
from foldline.context.projection import Projection
from foldline.context.rewind_points import restored_paths
from foldline.protocol import (
    Checkpoint,
    Compaction,
    CompactionDetails,
    FileImage,
    SystemMessage,
    Written,
    text_parts,
)
from support.history import History, history, modified, read
from support.stories import Story
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


def test_lists_accumulate_over_compactions_also_those_of_an_imported_one() -> None:
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


def test_a_compaction_in_between_does_not_bring_back_the_name_of_a_restored_file() -> None:
    there, back = FileImage(path="b.py", after="new"), FileImage(path="b.py", before="new")
    fold = Compaction(first_kept_index=99, details=CompactionDetails(modified_files=("b.py", "c.py")))
    changed = history().checkpoint(1, there).step("write", "ok", files=[modified("b.py")]).add(fold)
    assert file_lists(changed.checkpoint(2, back).projection()).modified_files == ("c.py",)


def test_an_undone_compaction_brings_no_lists() -> None:
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


def agree(built: History, look: Callable[[int], bool]) -> None:
    """After every entry that is looked at."""
    projection, ledger = History().projection(), FileLedger()
    for number, entry in enumerate(built.entries):
        projection.append(entry)
        if not look(number):
            continue
        told = all_touches_say(projection)
        newest = ledger.newest(projection, 2)
        for modified_ones, kept, count in (
            (True, newest.modified, newest.all_modified),
            (False, newest.read, newest.all_read),
        ):
            wanted = [file for file in told if file.modified is modified_ones]
            assert (list(kept), count) == (wanted[:2], len(wanted)), entry
        if number % 3 == 0:
            assert list(ledger.files(projection)) == told, entry


def all_touches_say(projection: Projection) -> list[FileState]:
    """Newest touch first; of what one result touched, the last."""
    restored = restored_paths(projection.images)
    counted = [t for _, t in projection.touches if t.action == "read" or t.path not in restored]
    newest = {touch.path: place for place, touch in enumerate(counted)}
    return [
        FileState(file.path, file.modified, file.added, file.removed, file.presence)
        for file in sorted(tracked_files(projection), key=lambda file: newest[file.path], reverse=True)
    ]


def fold_of_all(built: History) -> Compaction:
    summary = SystemMessage(origin="summary", parts=text_parts("so far"))
    head = (Written(message=summary, covers=((0, built.last),)),)
    return Compaction(first_kept_index=built.last + 1, head=head)


def image(path: str, before: int, after: int) -> FileImage:
    return FileImage(path=path, before=str(before), after=str(after))


WHAT = st.sampled_from(
    ("read", "both", "edit", "back", "hide", "drop", "pin", "fold", "clear", "rewind", "undo", "take back")
)


@example([("take back", 0), ("take back", 0)], 1)  # of an undo of itself, written by hand
@given(st.lists(st.tuples(WHAT, st.integers(0, 2)), max_size=20), st.integers(1, 7))
def test_kept_up_to_date_it_says_what_all_touches_say(happened: list[tuple[str, int]], each: int) -> None:
    """Reads and edits of three files, edits that are put back, and what changes the view in between; looked
    at after `each` so many entries."""
    built, held = History().user("go"), [0, 0, 0]
    for number, (what, which) in enumerate(happened):
        path = f"{which}.py"
        match what:
            case "read":
                built.step("read", "text", files=[read(path)])
            case "both":
                built.step("run", "ok", files=[read(path), modified("0.py", 1, 1), read("1.py")])
            case "rewind":
                marks = [entry.id for entry in built.entries if isinstance(entry, Checkpoint)]
                if marks:
                    built.revert(marks[-1 - which % len(marks)])
            case "edit" | "back":
                after = 0 if what == "back" else held[which] + 1
                built.checkpoint(number, image(path, held[which], after))
                held[which] = after
                built.step("edit", "ok", files=[modified(path, 2, which)])
            case "fold":
                built.add(fold_of_all(built))
            case "undo":
                built.undo()
            case "take back":
                built.undo(max(1, built.last - which - 1))
            case "clear":
                built.clear()
            case _:
                built.edit(what, max(1, built.last - which))  # type: ignore[arg-type]
    agree(built, lambda number: number % each == 0)


def test_a_touch_costs_one_look_however_many_there_were() -> None:
    story = Story().user("go")
    for number in range(500):
        story.tool("read", "text", files=[read(f"src/f{number % 50}.py")], path=f"src/f{number % 50}.py")
    projection, ledger = story.projection(), FileLedger()
    first = ledger.newest(projection, 9)
    looked = ledger.looked_at
    assert ledger.newest(projection, 9) is first and ledger.looked_at == looked
    story.tool("read", "text", files=[read("src/f49.py")], path="src/f49.py")
    for entry in story.entries[-2:]:
        projection.append(entry)
    assert ledger.newest(projection, 9).read[0].path == "src/f49.py"
    assert ledger.looked_at == looked + 1


def test_a_change_of_the_view_costs_a_look_at_the_files_that_are_shown() -> None:
    story = Story().user("go")
    for number in range(500):
        story.tool("read", "text", files=[read(f"src/f{number % 50}.py")], path=f"src/f{number % 50}.py")
    projection, ledger = story.projection(), FileLedger()
    ledger.newest(projection, 9)

    def cost_of(changed: History) -> int:
        before = ledger.looked_at
        for entry in changed.entries[len(projection.entries) :]:
            projection.append(entry)
        ledger.newest(projection, 9)
        return ledger.looked_at - before

    assert cost_of(story.edit("drop", story.last).edit("hide", 2)) == 2  # f49 has one that was read before
    assert cost_of(story.undo(story.last)) == 0  # f0 is not shown
    assert cost_of(story.add(fold_of_all(story))) == 9 * 10
    assert cost_of(story.undo(story.last)) == 8 + 2
