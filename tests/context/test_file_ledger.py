"""The ledger of files says what a look at all touches says, at the cost of what is new."""

from hypothesis import example, given
from hypothesis import strategies as st

from foldline.context.file_ledger import FileLedger, FileState
from foldline.context.files import tracked_files
from foldline.protocol import Compaction, FileImage, SystemMessage, Written, text_parts
from support.history import History, modified, read
from support.stories import Story


def agree(built: History) -> None:
    projection, ledger = History().projection(), FileLedger()
    for entry in built.entries:
        projection.append(entry)
        told = [
            FileState(file.path, file.modified, file.added, file.removed, file.presence)
            for file in tracked_files(projection)
        ]
        newest = ledger.newest(projection, 2)
        for modified_ones, kept, count in (
            (True, newest.modified, newest.all_modified),
            (False, newest.read, newest.all_read),
        ):
            wanted = [file for file in told if file.modified is modified_ones]
            assert (list(kept), count) == (wanted[:2], len(wanted)), entry


def image(path: str, before: int, after: int) -> FileImage:
    return FileImage(path=path, before=str(before), after=str(after))


WHAT = st.sampled_from(("read", "edit", "back", "hide", "drop", "pin", "fold", "clear", "undo", "take back"))


@example([("take back", 0), ("take back", 0)])  # of an undo of itself, written by hand
@given(st.lists(st.tuples(WHAT, st.integers(0, 2)), max_size=20))
def test_kept_up_to_date_it_says_what_all_touches_say(happened: list[tuple[str, int]]) -> None:
    """Reads and edits of three files, edits that are put back, and what changes the view in between."""
    built, held = History().user("go"), [0, 0, 0]
    for number, (what, which) in enumerate(happened):
        path = f"{which}.py"
        match what:
            case "read":
                built.step("read", "text", files=[read(path)])
            case "edit" | "back":
                after = 0 if what == "back" else held[which] + 1
                built.checkpoint(number, image(path, held[which], after))
                held[which] = after
                built.step("edit", "ok", files=[modified(path, 2, which)])
            case "fold":
                summary = SystemMessage(origin="summary", parts=text_parts("so far"))
                head = (Written(message=summary, covers=((0, built.last),)),)
                built.add(Compaction(first_kept_index=built.last + 1, head=head))
            case "undo":
                built.undo()
            case "take back":
                built.undo(max(1, built.last - which - 1))
            case "clear":
                built.clear()
            case _:
                built.edit(what, max(1, built.last - which))  # type: ignore[arg-type]
    agree(built)


def test_a_touch_costs_one_look_however_many_there_were() -> None:
    story = Story().user("go")
    for number in range(500):
        story.tool("read", "text", files=[read(f"src/f{number % 50}.py")], path=f"src/f{number % 50}.py")
    projection, ledger = story.projection(), FileLedger()
    first = ledger.newest(projection, 9)
    looked = ledger.looked_at
    assert ledger.newest(projection, 9) is first and ledger.looked_at == looked
    story.tool("read", "text", files=[read("src/f1.py")], path="src/f1.py")
    for entry in story.entries[-2:]:
        projection.append(entry)
    assert ledger.newest(projection, 9).read[0].path == "src/f1.py"
    assert ledger.looked_at == looked + 1


def test_an_edit_of_the_view_costs_a_look_at_the_touches_of_its_files() -> None:
    story = Story().user("go")
    for number in range(500):
        story.tool("read", "text", files=[read(f"src/f{number % 50}.py")], path=f"src/f{number % 50}.py")
    projection, ledger = story.projection(), FileLedger()
    ledger.newest(projection, 9)
    looked = ledger.looked_at
    story.edit("drop", story.last).edit("hide", 2)
    for entry in story.entries[-2:]:
        projection.append(entry)
    ledger.newest(projection, 9)
    assert ledger.looked_at == looked + 2 * 10
    projection.append(story.undo(story.last).entries[-1])
    ledger.newest(projection, 9)
    assert ledger.looked_at == looked + 3 * 10
