"""The ledger of files says what a look at all touches says, at the cost of what is new."""

from hypothesis import given
from hypothesis import strategies as st

from foldline.context.file_ledger import FileLedger
from foldline.context.files import tracked_files
from foldline.protocol import Compaction, FileImage, SystemMessage, Written, text_parts
from support.history import History, modified, read
from support.stories import Story


def agree(built: History) -> None:
    projection, ledger = History().projection(), FileLedger()
    for entry in built.entries:
        projection.append(entry)
        told = [
            (file.path, file.modified, file.added, file.removed, file.presence)
            for file in tracked_files(projection)
        ]
        kept = [
            (file.path, file.modified, file.added, file.removed, file.presence)
            for file in ledger.files(projection)
        ]
        assert kept == told, entry


def image(path: str, before: int, after: int) -> FileImage:
    return FileImage(path=path, before=str(before), after=str(after))


WHAT = st.sampled_from(("read", "edit", "back", "hide", "pin", "fold", "undo"))


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
            case _:
                built.edit(what, max(1, built.last - which))  # type: ignore[arg-type]
    agree(built)


def test_a_touch_costs_one_look_however_many_there_were() -> None:
    story = Story().user("go")
    for number in range(500):
        story.tool("read", "text", files=[read(f"src/f{number % 50}.py")], path=f"src/f{number % 50}.py")
    projection, ledger = story.projection(), FileLedger()
    first = ledger.files(projection)
    looked = ledger.looked_at
    assert ledger.files(projection) is first and ledger.looked_at == looked
    story.tool("read", "text", files=[read("src/f1.py")], path="src/f1.py")
    for entry in story.entries[-2:]:
        projection.append(entry)
    assert ledger.files(projection)[0].path == "src/f1.py"
    assert ledger.looked_at == looked + 1
