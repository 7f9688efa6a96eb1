"""Going back over changes of files: what is put back, what is somebody else's, what cannot be told."""

from hypothesis import given
from hypothesis import strategies as st

from foldline.context.rewind_points import (
    FileChange,
    Images,
    Unreadable,
    changes_to,
    restored_paths,
    rewind_points,
)
from foldline.protocol import FileImage
from support.history import history


def image(path: str, before: str | None, after: str | None) -> FileImage:
    return FileImage(path=path, before=before, after=after)


TWICE: Images = ((3, image("a", "one", "two")), (7, image("a", "two", "three")))


def kinds(images: Images, index: int, **now: str | Unreadable | None) -> dict[str, tuple[str, str | None]]:
    return {
        change.path: (change.kind, change.target)
        for change in changes_to(images, index, lambda image: now[image.path])
    }


def test_a_file_goes_back_to_what_it_held_before_its_first_change_since() -> None:
    assert kinds(TWICE, 3, a="three") == {"a": ("write", "one")}
    assert kinds(TWICE, 4, a="three") == {"a": ("write", "two")}
    assert kinds(TWICE, 8, a="three") == {}


def test_a_file_that_was_made_since_goes_again() -> None:
    assert kinds([(1, image("new", None, "x"))], 0, new="x") == {"new": ("remove", None)}


def test_what_nobody_recorded_is_a_conflict() -> None:
    assert kinds(TWICE, 3, a="mine") == {"a": ("conflict", "one")}
    assert kinds([(1, image("new", None, "x"))], 0, new="mine") == {"new": ("conflict", None)}


def test_a_file_that_somebody_removed_is_a_conflict_too() -> None:
    assert kinds(TWICE, 3, a=None) == {"a": ("conflict", "one")}


def test_a_file_that_cannot_be_read_is_never_taken_for_missing() -> None:
    assert kinds([(1, image("new", None, "x"))], 0, new=Unreadable("denied")) == {"new": ("unreadable", None)}


def test_what_holds_it_already_is_left_out() -> None:
    assert kinds(TWICE, 3, a="one") == {}


def test_the_record_of_a_rewind_is_a_change_like_any_other() -> None:
    rewound = [*TWICE, (9, image("a", "three", "one"))]
    assert kinds(rewound, 9, a="one") == {"a": ("write", "three")}
    assert kinds(rewound, 3, a="one") == {}
    assert restored_paths(rewound) == {"a"} and restored_paths(TWICE) == frozenset()


def test_what_somebody_else_had_put_there_stays_theirs_when_it_was_overwritten_and_put_back() -> None:
    images = [(1, image("a", None, "x")), (5, image("a", "mine", None)), (7, image("a", None, "mine"))]
    assert kinds(images, 0, a="mine") == {"a": ("conflict", None)}


CONTENTS = st.sampled_from([None, "x", "y", "z"])


@given(st.lists(st.tuples(st.sampled_from("ab"), CONTENTS), max_size=8), st.integers(0, 8))
def test_going_back_gives_exactly_what_was_there(steps: list[tuple[str, str | None]], index: int) -> None:
    disk: dict[str, str | None] = {"a": "x", "b": None}
    images, seen = [], [dict(disk)]
    for number, (path, content) in enumerate(steps):
        images.append((number, image(path, disk[path], content)))
        disk[path] = content
        seen.append(dict(disk))
    changes: list[FileChange] = changes_to(images, index, lambda image: disk[image.path])
    assert all(change.kind in ("write", "remove") for change in changes)
    disk.update({change.path: change.target for change in changes})
    assert disk == seen[min(index, len(steps))]


def test_what_only_others_recorded_is_a_conflict_and_says_so() -> None:
    images: Images = ((3, image("a", None, "two")), (7, image("a", "two", "three")))

    def change(now: str | None) -> tuple[str, str]:
        [found] = changes_to(images, 7, lambda _: now, foreign=5)
        return found.kind, found.why

    assert change("three") == ("write", "")
    assert change(None) == ("conflict", "recorded elsewhere, not here")
    assert change("mine") == ("conflict", "")


def test_a_turn_is_named_by_its_prompt_whatever_the_machine_says_before_it() -> None:
    built = history().system("Be kind.").checkpoint(0).notice("Job 1 ended.").user("fix it").assistant("done")
    [place] = rewind_points(built.projection())
    assert (place.kind, place.prompt) == ("turn", "fix it")
