"""Rewinding file changes: restored files, changes by others, and conflicts."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from foldline.past.rewind_points import (
    CHANGED_OUTSIDE,
    RECORDED_ELSEWHERE,
    WRITTEN_AGAIN,
    FileChange,
    Images,
    Unreadable,
    changes_back,
    changes_to,
    restored_paths,
    rewind_points,
)
from foldline.protocol import FileImage
from support.history import history


def image(path: str, before: str | None, after: str | None) -> FileImage:
    return FileImage(path=path, before=before, after=after)


TWICE: Images = ((3, image("a", "one", "two")), (7, image("a", "two", "three")))


def kinds(
    images: Images, index: int, **now: str | Unreadable | None
) -> dict[str, tuple[str, str | None]]:
    return {
        change.path: (change.kind, change.target)
        for change in changes_to(images, index, lambda image: now[image.path])
    }


def test_a_file_is_restored_to_its_content_before_the_first_later_change() -> None:
    assert kinds(TWICE, 3, a="three") == {"a": ("write", "one")}
    assert kinds(TWICE, 4, a="three") == {"a": ("write", "two")}
    assert kinds(TWICE, 8, a="three") == {}


def test_a_file_created_since_is_removed() -> None:
    assert kinds([(1, image("new", None, "x"))], 0, new="x") == {
        "new": ("remove", None)
    }


def test_an_unrecorded_content_is_a_conflict() -> None:
    assert kinds(TWICE, 3, a="mine") == {"a": ("conflict", "one")}
    assert kinds([(1, image("new", None, "x"))], 0, new="mine") == {
        "new": ("conflict", None)
    }


def test_a_file_removed_by_others_is_a_conflict() -> None:
    assert kinds(TWICE, 3, a=None) == {"a": ("conflict", "one")}


def test_an_unreadable_file_does_not_count_as_missing() -> None:
    assert kinds([(1, image("new", None, "x"))], 0, new=Unreadable("denied")) == {
        "new": ("unreadable", None)
    }


def test_a_file_that_already_has_the_content_is_left_out() -> None:
    assert kinds(TWICE, 3, a="one") == {}


def test_a_rewinds_record_counts_as_a_change() -> None:
    rewound = [*TWICE, (9, image("a", "three", "one"))]
    assert kinds(rewound, 9, a="one") == {"a": ("write", "three")}
    assert kinds(rewound, 3, a="one") == {}
    assert restored_paths(rewound) == {"a"} and restored_paths(TWICE) == frozenset()


def test_content_written_by_others_stays_theirs_after_an_overwrite_and_restore() -> (
    None
):
    images = [(1, image("a", None, "x")), (5, image("a", "mine", None))]
    [put_back] = changes_back(images, 5, lambda _: None)
    images.append((7, put_back.image))
    assert kinds(images, 0, a="mine") == {"a": ("conflict", None)}


def test_content_first_written_by_others_is_ours_once_we_wrote_it() -> None:
    images = [
        *TWICE,
        (9, image("a", "theirs", "four")),
        (11, image("a", "four", "theirs")),
    ]
    assert kinds(images, 3, a="theirs") == {"a": ("write", "one")}


def test_content_first_written_by_us_is_theirs_once_others_wrote_it() -> None:
    assert kinds(TWICE, 3, a="two") == {"a": ("conflict", "one")}


def test_a_change_lost_in_a_crash_leaves_the_file_ours() -> None:
    [change] = changes_to(TWICE, 3, lambda _: "two", settled=5)
    assert (change.kind, change.target) == ("write", "one")


def test_a_files_state_comes_from_the_last_record_before_it() -> None:
    """A command changed the file between two edits, after the rewind point."""
    images = [(3, image("a", "one", "two")), (9, image("a", "formatted", "three"))]
    assert kinds(images, 5, a="three") == {"a": ("write", "two")}
    seen = FileImage(path="a", before="formatted", after="formatted", by_others=True)
    assert kinds([images[0], (5, seen), images[1]], 6, a="three") == {
        "a": ("write", "formatted")
    }


def test_undoing_a_rewind_leaves_later_changes_by_others_alone() -> None:
    images = [(3, image("a", "one", "two")), (5, image("a", "two", "one"))]
    [theirs] = changes_back(images, 5, lambda _: "mine")
    [ours_later] = changes_back(
        [*images, (9, image("a", "one", "new"))], 5, lambda _: "new"
    )
    seen = [
        (8, FileImage(path="a", before=each, after=each, by_others=True))
        for each in ("mine", "one")
    ]
    [there_and_back] = changes_back([*images, *seen], 5, lambda _: "one")
    assert {each.kind for each in (theirs, ours_later, there_and_back)} == {"conflict"}
    assert (theirs.why, ours_later.why) == (CHANGED_OUTSIDE, WRITTEN_AGAIN)


CONTENTS = st.sampled_from([None, "x", "y", "z"])


@given(
    st.lists(st.tuples(st.sampled_from("ab"), CONTENTS), max_size=8), st.integers(0, 8)
)
def test_rewinding_restores_the_exact_content(
    steps: list[tuple[str, str | None]], index: int
) -> None:
    disk: dict[str, str | None] = {"a": "x", "b": None}
    images, seen = [], [dict(disk)]
    for number, (path, content) in enumerate(steps):
        images.append((number, image(path, disk[path], content)))
        disk[path] = content
        seen.append(dict(disk))
    changes: list[FileChange] = changes_to(
        images, index, lambda image: disk[image.path]
    )
    assert all(change.kind in ("write", "remove") for change in changes)
    disk.update({change.path: change.target for change in changes})
    assert disk == seen[min(index, len(steps))]


@dataclass
class Disk:
    """One file, its records and its author: `ours` as an observer sees it."""

    content: str | None = "x"
    ours: bool = True
    records: list[tuple[int, FileImage]] = field(default_factory=list)
    rewinds: list[tuple[int, str | None, bool]] = field(default_factory=list)
    """The index of each rewind in force, with the removed content and its author."""
    states: list[tuple[str | None, bool]] = field(default_factory=list)
    """Content and author at each index."""

    def step(self, act: str, content: str | None, index: int) -> None:
        now = len(self.states) * 10
        if act == "edit":
            self.look(now)
            self.records.append((now + 1, image("f", self.content, content)))
            self.content, self.ours = content, True
            self.rewinds.clear()
        elif act == "others" and self.records and content != self.content:
            self.content, self.ours = content, False
            self.rewinds.clear()
        elif act == "rewind" and self.records:
            index = min(index, len(self.states) - 1)
            changes = changes_to(self.records, index * 10 + 5, lambda _: self.content)
            for change in changes:
                assert (change.kind == "conflict") is not self.ours, (
                    "overwritten unasked, or not at all"
                )
                assert change.target == self.states[index][0]
                if change.kind != "conflict":
                    self.rewinds.append((now + 1, self.content, self.ours))
                    self.records.append((now + 1, change.image))
                    self.content, self.ours = self.states[index]
        elif act == "undo" and self.rewinds:
            at, taken, ours = self.rewinds.pop()
            changes = changes_back(self.records, at, lambda _: self.content)
            assert [
                change.kind for change in changes if change.kind == "conflict"
            ] == []
            for change in changes:
                assert change.target == taken
                self.records.append((now + 1, change.image))
                self.content, self.ours = taken, ours
        self.look(now + 4)
        self.states.append((self.content, self.ours))

    def look(self, at: int) -> None:
        """Record the file the way each checkpoint does."""
        if self.records and self.content != self.records[-1][1].after:
            seen = FileImage(
                path="f", before=self.content, after=self.content, by_others=True
            )
            self.records.append((at, seen))


ACTS = st.sampled_from(["edit", "edit", "others", "rewind", "undo"])


@given(st.lists(st.tuples(ACTS, CONTENTS, st.integers(0, 11)), max_size=12))
def test_a_rewind_overwrites_only_our_content_and_its_undo_restores_it(
    steps: list[tuple[str, str | None, int]],
) -> None:
    disk = Disk()
    disk.step("", None, 0)
    for step in steps:
        disk.step(*step)


def test_content_recorded_only_by_others_is_reported_as_a_conflict() -> None:
    images: Images = ((3, image("a", None, "two")), (7, image("a", "two", "three")))

    def change(now: str | None) -> tuple[str, str]:
        [found] = changes_to(images, 7, lambda _: now, foreign=5)
        return found.kind, found.why

    assert change("three") == ("write", "")
    assert change(None) == ("conflict", RECORDED_ELSEWHERE)
    assert change("mine") == ("conflict", CHANGED_OUTSIDE)


def test_a_turn_is_named_by_its_prompt_despite_earlier_machine_text() -> None:
    built = (
        history()
        .system("Be kind.")
        .checkpoint(0)
        .notice("Job 1 ended.")
        .user("fix it")
        .assistant("done")
    )
    [place] = rewind_points(built.projection())
    assert (place.kind, place.prompt) == ("turn", "fix it")
