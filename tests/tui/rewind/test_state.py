"""What may be chosen on the Rewind screen, and how its lines say it."""

from dataclasses import replace

from rich.cells import cell_len

from foldline.context.rewind_points import FileChange, RewindPoint
from foldline.tui.rewind.screen import Outcome, RewindState, begin, screen_lines


def place(identity: int, kind: str = "turn", label: str = "do it", changes: int = 0) -> RewindPoint:
    return RewindPoint(identity, identity * 10, None, kind, label, changes, label)  # type: ignore[arg-type]


WRITE = FileChange("a.py", "write", "new", "old")
CONFLICT = FileChange("b.py", "conflict", "mine", "old")
PLACES = (place(5, "step"), place(4), place(3, "step"), place(2, "step"), place(1))


def looked_at(*files: FileChange) -> RewindState:
    return replace(begin(PLACES), outcome=Outcome(2_000, 1_000, 4, 1, files))


def text(state: RewindState, width: int = 100, height: int = 20) -> str:
    lines = screen_lines(state, width, height)
    assert len(lines) == height
    assert {sum(cell_len(words) for words, _ in line) for line in lines} == {width}
    return "\n".join("".join(words for words, _ in line) for line in lines)


def test_it_begins_at_the_newest_turn_with_the_steps_out_of_the_way() -> None:
    state = begin(PLACES)
    assert state.marked == 4 and [p.id for p in state.shown] == [4, 1]


def test_the_mark_stays_within_the_list() -> None:
    state = begin(PLACES)
    assert state.moved(1).marked == 1 and state.moved(9).marked == 1 and state.moved(-9).marked == 4


def test_moving_on_forgets_what_was_found_out_and_what_was_to_be_overwritten() -> None:
    state = replace(looked_at(CONFLICT), overwrite=True).moved(1)
    assert state.outcome is None and not state.overwrite


def test_a_mark_on_a_step_goes_to_its_turn_when_the_steps_are_hidden() -> None:
    state = begin(PLACES).toggled_steps().moved(1)
    assert state.marked == 3 and state.toggled_steps().marked == 1


def test_nothing_can_be_chosen_before_the_files_were_looked_at() -> None:
    assert begin(PLACES).ask("context").operation is None and begin(()).ask("context").operation is None


def test_one_item_leaves_and_several_leave() -> None:
    assert "4 items leave the view" in text(looked_at())
    assert "1 item leaves the view" in text(replace(looked_at(), outcome=Outcome(2_000, 1_000, 1)))


def test_a_file_of_somebody_else_that_was_not_there_then_is_said_to_be_removed() -> None:
    state = replace(looked_at(FileChange("b.py", "conflict", "mine", None), CONFLICT), overwrite=True)
    assert "is removed, /undo has it" in text(state) and "is overwritten, /undo has it" in text(state)


def test_files_only_where_there_are_some_to_put_back() -> None:
    assert looked_at().ask("files").asked is None and looked_at(CONFLICT).ask("both").operation is None
    asked = looked_at(WRITE).ask("files").operation
    assert asked is not None and (asked.checkpoint, asked.context, asked.files) == (4, False, True)


def test_what_others_changed_is_named_in_the_operation_only_when_asked_for() -> None:
    both = looked_at(WRITE, CONFLICT).ask("both").operation
    assert both is not None and both.overwrite == ()
    over = replace(looked_at(WRITE, CONFLICT), overwrite=True).ask("both").operation
    assert over is not None and over.overwrite == ("b.py",)


def test_the_lines_say_what_happens_to_each_file_conflicts_first() -> None:
    shown = text(looked_at(WRITE, CONFLICT))
    assert shown.index("b.py  ! changed by somebody else: stays") < shown.index("a.py  is put back")
    assert "o overwrite, too" in shown and "b both" in shown


def test_the_question_says_what_leaves_the_view_and_what_happens_to_each_file() -> None:
    many = [replace(WRITE, path=f"{number}.py") for number in range(6)]
    gone = replace(WRITE, kind="remove", path="new.py")
    state = replace(looked_at(*many, gone, CONFLICT), marked=1)
    both = text(state.ask("both"))
    assert "Go back with context and files to right before “do it”?" in both
    assert "2.0k → ~1.0k tokens, 4 items leave the view, 1 prompt among them" in both
    for line in ("0.py  is put back", "5.py  is put back", "new.py  is removed again", "b.py  ! changed by"):
        assert line in both
    assert "more" not in both and "and 5 more" in text(state.ask("both"), height=10)
    context, files = text(state.ask("context")), text(state.ask("files"))
    assert "files    stay as they are" in context and "leave the view" in context
    assert "context  stays as it is" in files and "new.py  is removed again" in files


def test_lines_keep_their_width_in_any_script_and_size() -> None:
    odd = "把订单接口改成幂等的 [red]x[/nope] \x1b[2J 🧑‍🚀" * 4
    state = replace(
        begin([place(2, label=odd), place(1, "step", odd)]),
        outcome=Outcome(
            1, 2, -3, 1, [replace(CONFLICT, path=odd), replace(WRITE, kind="unreadable", why=odd)] * 4
        ),
        steps=True,
    )
    for width, height in ((100, 30), (78, 20), (40, 14)):
        for asked in (state, state.ask("context"), replace(state, overwrite=True).ask("both")):
            assert "\x1b" not in text(asked, width, height)
    assert "nothing to go back over" in text(begin(()))
