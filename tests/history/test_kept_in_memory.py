"""What a session keeps of its folds: their outlines. Texts are read when somebody looks at them."""

import gc
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from foldline.context.invariants import broken
from foldline.context.moments import empty_prefix, replay_to
from foldline.context.outline import CompactionOutline
from foldline.context.projection import Projection
from foldline.context.view import ViewItem
from foldline.history import EVENTS, Session
from foldline.history.index import open_file
from foldline.history.stored import Records, StoredEntries
from foldline.protocol import Checkpoint, Compaction, Entry, Undo
from support.history import call
from support.projections import State
from support.reopening import write_events
from support.stories import Story

FOLDS, ENTRIES = 12, 6
TEXT = "what was done before, in words that are nowhere else: "


def story() -> Story:
    """Folded again and again, the newest entry always kept."""
    made = Story().system("s")
    newest = 0
    for number in range(FOLDS):
        for _ in range(ENTRIES):
            made.user(f"question of {number}")
        fold = made.last + 1
        made.fold(fold - 1, TEXT * 40 + str(number), first=newest, inputs=(newest,) * bool(newest))
        newest = fold
    return made.user("and now?")


@pytest.fixture
def session(tmp_path: Path) -> Session:
    write_events(tmp_path / EVENTS, story().entries)
    Session.open(tmp_path / EVENTS, index_from=0).save_meta()
    return Session.open(tmp_path / EVENTS, index_from=0)


def held_by(root: object) -> Iterator[object]:
    """All that this object keeps in memory, records that were looked at apart."""
    seen, waiting = {id(root)}, [root]
    while waiting:
        found = waiting.pop()
        yield found
        for each in gc.get_referents(found):
            if id(each) not in seen and not isinstance(each, type | ModuleType | Records):
                seen.add(id(each))
                waiting.append(each)


def texts_in(root: object) -> int:
    return sum(isinstance(each, str) and TEXT in each for each in held_by(root))


def test_no_text_of_a_fold_is_kept_and_all_of_it_is_there(session: Session) -> None:
    projection = session.projection
    assert texts_in(project_of(story().entries)) >= FOLDS
    assert texts_in(projection) == 0
    [summary] = [item for item in projection.view if item.written]
    assert summary.message.text == TEXT * 40 + str(FOLDS - 1)
    assert summary.message.key == summary.key == (projection.all_compactions[-1].index, 0)
    first = projection.entry(projection.all_compactions[0].index)
    assert isinstance(first, Compaction)
    assert first.summary == TEXT * 40 + "0"
    assert list(session.entries) == story().entries
    assert State.of(projection) == State.of(project_of(story().entries))
    assert texts_in(projection) == 0


def project_of(entries: list[Entry]) -> Projection:
    projection = Projection()
    for entry in entries:
        projection.append(entry)
    return projection


def test_neither_now_nor_an_earlier_moment_keeps_items_that_left_the_view(session: Session) -> None:
    then = empty_prefix(session.entries)
    for _ in replay_to(then, len(session.entries)):
        pass
    for projection in (session.projection, then):
        items = sum(isinstance(each, ViewItem) for each in held_by(projection))
        # A change keeps the item that stayed then, and the summary it took out.
        assert items <= len(projection.view) + 2 * FOLDS < FOLDS * ENTRIES


def test_what_is_gone_back_to_is_the_view_it_was_and_items_that_stayed_are_the_same() -> None:
    made = story()
    before = project_of(made.entries[:-2])
    projection = project_of(made.entries[:-1])
    kept = projection.view[-1]
    projection.append(Undo(index=projection.last_index + 1, target=projection.all_compactions[-1].index))
    assert projection.view == before.view
    assert [projection.fate(entry.index) for entry in made.entries[:-2]] == [
        before.fate(entry.index) for entry in made.entries[:-2]
    ]
    assert projection.view[-1] is kept
    assert broken(projection) == []


def test_what_was_altered_before_a_fold_comes_back_altered() -> None:
    made = Story().system("s").user("one").assistant(calls=[call("read", path="a")]).result("text " * 400)
    made.user("two").add(Checkpoint(id=1, shown=True)).user("three").user("four")
    made.edit("hide", 3).edit("pin", 6).edit("drop", 7)
    before = project_of(made.entries)
    assert {(item.fate, item.pinned, item.checkpoint) for item in before.view} == {
        *(("live", False, None), ("hidden", False, None), ("live", False, 1), ("live", True, None))
    }
    made.fold(made.last + 1, "short", first=1)
    projection = project_of(made.undo(made.last).entries)
    assert projection.view == before.view
    assert [projection.fate(index) for index in range(8)] == [before.fate(index) for index in range(8)]
    assert projection.pins == before.pins


def test_a_fold_that_can_no_longer_be_read_still_folds(tmp_path: Path) -> None:
    path = tmp_path / EVENTS
    write_events(path, story().entries)
    known = open_file(path).entries
    view = [(item.key, item.tokens) for item in Projection(known).view]
    entries = StoredEntries(Records(path, room=0))
    entries.known(known.outlines, [known.place(at) for at in range(len(known))])
    path.write_bytes(path.read_bytes().replace(b'"compaction"', b'"compasting"'))
    projection = Projection(entries)
    assert [(item.key, item.tokens) for item in projection.view] == view
    [summary] = [item for item in projection.view if item.written]
    assert "can no longer be read" in summary.message.text
    outline, fold = projection.all_compactions[-1], projection.entry(projection.all_compactions[-1].index)
    assert isinstance(outline, CompactionOutline) and isinstance(fold, Compaction)
    assert (fold.index, fold.first_kept_index) == (outline.index, outline.first_kept_index)
    assert broken(projection) == []
