"""Subagents' sessions: found through their parent and copied with it."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings

from foldline.history import (
    EVENTS,
    Session,
    archive,
    delete,
    latest,
    list_sessions,
    read_header,
)
from foldline.history.archive import NOT_IN_HOME
from foldline.history.children import child_events, children_of, named_child, tree_of
from foldline.history.origin import Spawned, spawned_of
from foldline.protocol import FoldlineError
from support.history import history
from support.limits import examples
from support.session_trees import TREES, Tree, tree_contents, write_tree


@given(tree=TREES)
@settings(max_examples=examples(40), deadline=None)
def test_a_fork_has_the_same_subagents_and_is_their_parent(tree: Tree) -> None:
    with tempfile.TemporaryDirectory() as folder:
        events = write_tree(Path(folder), tree)
        before = tree_contents(events)
        copy = asyncio.run(Session.open(events).copy(home=Path(folder)))
        copy.close()
        assert copy.path is not None
        assert tree_contents(copy.path) == before == tree_contents(events)
        for child in children_of(copy.path):
            spawned = spawned_of(read_header(child))
            assert spawned == Spawned(
                session=copy.id, call=f"c-{child.parent.name}", agent="x"
            )
            for below in children_of(child):
                assert spawned_of(read_header(below)).session == child.parent.name  # type: ignore[union-attr]


def test_a_fork_at_an_earlier_moment_has_independent_copies_of_its_subagents(
    tmp_path: Path,
) -> None:
    events = write_tree(tmp_path, {"a1": {}, "b2": {}})
    copy = asyncio.run(Session.open(events).copy(home=tmp_path, until=1))
    copy.close()
    assert copy.path is not None
    assert [path.parent.name for path in children_of(copy.path)] == ["a1"]
    child = Session.open(child_events(copy.path, "a1"))
    asyncio.run(child.append(*history().user("more").entries))
    child.close()
    assert b"more" not in child_events(events, "a1").read_bytes()
    assert len(Session.open(child_events(events, "a1")).entries) == 2


def test_lists_show_a_session_and_its_subagents_as_one(tmp_path: Path) -> None:
    events = write_tree(tmp_path, {"a1": {"b2": {}}})
    assert [info.path for info in list_sessions(tmp_path)] == [events]
    found = latest(tmp_path, tmp_path / "work")
    assert found is not None
    assert found.path == events


def test_subagents_are_archived_and_deleted_with_their_session(tmp_path: Path) -> None:
    archived = archive(tmp_path, write_tree(tmp_path, {"a1": {"b2": {}}}))
    assert [path.parent.name for path in tree_of(archived)][1:] == ["a1", "b2"]
    with pytest.raises(
        FoldlineError, match=NOT_IN_HOME.partition("}")[2].partition("{")[0]
    ):
        delete(tmp_path, child_events(archived, "a1"))
    assert delete(tmp_path, archived).files >= 3
    assert not archived.parent.exists()


def test_links_and_loose_files_are_not_subagents(tmp_path: Path) -> None:
    events = write_tree(tmp_path, {"a1": {}})
    (events.parent / "children" / "link").symlink_to(events.parent)
    (events.parent / "children" / "empty").mkdir()
    (events.parent / "children" / "file").write_text("no")
    assert [path.parent.name for path in children_of(events)] == ["a1"]
    assert children_of(tmp_path / "loose.jsonl") == []
    assert child_events(events, "a1").name == EVENTS


def test_a_subagents_id_is_found_by_its_beginning_or_end() -> None:
    assert named_child("s", "a1", ["a1", "a12"]) == "a1"
    assert named_child("s", "12", ["a1", "a12"]) == "a12"
    for wanted in ("a", "", "x"):
        with pytest.raises(FoldlineError, match="of s: it has a1, a12"):
            named_child("s", wanted, ["a12", "a1"])
