"""What may be chosen on the Rewind screen, and how its lines say it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.cells import cell_len

from foldline.agent.rewind import Outcome
from foldline.context.budget import Size
from foldline.context.rewind_points import FileChange, RewindPoint
from foldline.tui.screens.rewind import RewindScreen, What


def place(identity: int, kind: str = "turn", label: str = "do it", changes: int = 0) -> RewindPoint:
    return RewindPoint(identity, identity * 10, None, kind, label, changes, label)  # type: ignore[arg-type]


NOW, THEN = Size(2_000, estimated=False), Size(1_000, estimated=True)
WRITE = FileChange("a.py", "write", "new", "old")
CONFLICT = FileChange("b.py", "conflict", "mine", "old")
PLACES = (place(5, "step"), place(4), place(3, "step"), place(2, "step"), place(1))


async def nothing(_: object) -> Any:
    raise AssertionError("it is not mounted")


def begun(places: Sequence[RewindPoint] = PLACES) -> RewindScreen:
    return RewindScreen(places, nothing, nothing)


def looked_at(*files: FileChange, overwrite: bool = False, asked: What | None = None) -> RewindScreen:
    screen = begun()
    screen.outcome, screen.overwrite = Outcome(NOW, THEN, 4, 1, files), overwrite
    if asked is not None:
        screen.action_list(asked)
    return screen


def text(screen: RewindScreen, width: int = 100, height: int = 20) -> str:
    lines = screen.draw(width, height)
    assert len(lines) == height
    assert {sum(cell_len(words) for words, _ in line) for line in lines} == {width}
    return "\n".join("".join(words for words, _ in line) for line in lines)


def marked(screen: RewindScreen) -> int:
    assert screen.row is not None
    return screen.row.id


def test_it_begins_at_the_newest_turn_with_the_steps_out_of_the_way() -> None:
    assert marked(begun()) == 4 and [p.id for p in begun().rows] == [4, 1]


def test_the_mark_stays_within_the_list() -> None:
    screen = begun()
    for step, there in ((1, 1), (9, 1), (-9, 4)):
        screen.move(step)
        assert marked(screen) == there


def test_moving_on_forgets_what_was_found_out_and_what_was_to_be_overwritten() -> None:
    screen = looked_at(CONFLICT, overwrite=True)
    screen.move(1)
    assert screen.outcome is None and not screen.overwrite


def test_a_mark_on_a_step_goes_to_its_turn_when_the_steps_are_hidden() -> None:
    screen = begun()
    screen.action_list("steps")
    screen.move(1)
    assert marked(screen) == 3
    screen.action_list("steps")
    assert marked(screen) == 1


def test_nothing_can_be_chosen_before_the_files_were_looked_at() -> None:
    for screen in (begun(), begun(())):
        screen.action_list("context")
        assert screen.wanted is None


def test_one_item_leaves_and_several_leave() -> None:
    screen = looked_at()
    assert "4 items leave the view" in text(screen)
    screen.outcome = Outcome(NOW, THEN, 1)
    assert "1 item leaves the view" in text(screen)


def test_a_file_of_somebody_else_that_was_not_there_then_is_said_to_be_removed() -> None:
    said = text(looked_at(FileChange("b.py", "conflict", "mine", None), CONFLICT, overwrite=True))
    assert "is removed, /undo has it" in said and "is overwritten, /undo has it" in said


def test_files_only_where_there_are_some_to_put_back() -> None:
    assert looked_at(asked="files").wanted is None and looked_at(CONFLICT, asked="both").wanted is None
    asked = looked_at(WRITE, asked="files").wanted
    assert asked is not None and (asked.checkpoint, asked.context, asked.files) == (4, False, True)


def test_what_others_changed_is_named_in_the_operation_only_when_asked_for() -> None:
    both = looked_at(WRITE, CONFLICT, asked="both").wanted
    assert both is not None and both.overwrite == ()
    over = looked_at(WRITE, CONFLICT, overwrite=True, asked="both").wanted
    assert over is not None and over.overwrite == ("b.py",)


def test_the_lines_say_what_happens_to_each_file_conflicts_first() -> None:
    shown = text(looked_at(WRITE, CONFLICT))
    assert shown.index("b.py  ! changed by somebody else: stays") < shown.index("a.py  is put back")
    assert "o overwrite, too" in shown and "b both" in shown


def test_the_question_says_what_leaves_the_view_and_what_happens_to_each_file() -> None:
    many = [replace(WRITE, path=f"{number}.py") for number in range(6)]
    files = (*many, replace(WRITE, kind="remove", path="new.py"), CONFLICT)
    both = text(looked_at(*files, asked="both"))
    assert "Go back with context and files to right before “do it”?" in both
    assert "2.0k → ~1.0k tokens, 4 items leave the view, 1 prompt among them" in both
    for line in ("0.py  is put back", "5.py  is put back", "new.py  is removed again", "b.py  ! changed by"):
        assert line in both
    assert "more" not in both and "and 4 more" in text(looked_at(*files, asked="both"), height=10)
    context, only_files = text(looked_at(*files, asked="context")), text(looked_at(*files, asked="files"))
    assert "files    stay as they are" in context and "leave the view" in context
    assert "context  stays as it is" in only_files and "new.py  is removed again" in only_files


def test_lines_keep_their_width_in_any_script_and_size() -> None:
    odd = "把订单接口改成幂等的 [red]x[/nope] \x1b[2J 🧑‍🚀" * 4
    files = [replace(CONFLICT, path=odd), replace(WRITE, kind="unreadable", why=odd)] * 4
    for width, height in ((100, 30), (78, 20), (40, 14)):
        for asked in (None, "context", "both"):
            screen = begun([place(2, label=odd), place(1, "step", odd)])
            screen.toggle_steps()
            screen.outcome, screen.overwrite = Outcome(THEN, NOW, -3, 1, files), True
            if asked is not None:
                screen.action_list(asked)
            assert "\x1b" not in text(screen, width, height)
    assert "nothing to rewind to" in text(begun(()))
