"""The effects of going back, in words."""

from dataclasses import replace

from foldline.agent.session.rewind import RewindPreview
from foldline.past.rewind_points import FileChange
from foldline.tui.overlays.rewind import (
    BY_OTHERS,
    COMPACTIONS_UNDONE,
    context_effect,
    file_effects,
)
from foldline.view.budget import Size

NOW, THEN = Size(2_000, estimated=False), Size(1_000, estimated=True)
WRITE = FileChange("a.py", "write", "new", "old")
CONFLICT = FileChange("b.py", "conflict", "mine", "old")


def test_one_item_leaves_and_several_leave() -> None:
    several = RewindPreview(NOW, THEN, 4, 1)
    assert (
        context_effect(several)
        == "2.0k → ~1.0k tokens, 4 items removed, 1 of them a prompt"
    )
    assert "1 item removed" in context_effect(RewindPreview(NOW, THEN, 1))
    assert COMPACTIONS_UNDONE in context_effect(RewindPreview(THEN, NOW, -3, 1))


def test_the_lines_say_what_happens_to_each_file_conflicts_first() -> None:
    removed = replace(WRITE, kind="remove", path="new.py")
    effects = [
        *file_effects(RewindPreview(NOW, THEN, 1, 0, (WRITE, removed, CONFLICT)))
    ]
    assert effects == [
        f"b.py  ! kept: {BY_OTHERS}",
        "a.py  restored",
        "new.py  removed again",
    ]


def test_of_many_files_some_are_named() -> None:
    many = [replace(WRITE, path=f"{number}.py") for number in range(6)]
    *_, last = file_effects(RewindPreview(NOW, THEN, 1, 0, many))
    assert last == "and 2 more"


def test_control_characters_of_a_path_are_not_shown() -> None:
    odd = replace(WRITE, path="\x1b[2J.py")
    assert "\x1b" not in "".join(file_effects(RewindPreview(NOW, THEN, 1, 0, [odd])))
