"""Paths of subagents' sessions, and which of them are listed."""

from pathlib import Path

from foldline.history import Session, child_events, children_of, spawned_of, tree_of
from foldline.protocol import UserMessage, text_parts


async def with_message(session: Session) -> Path:
    await session.append(UserMessage(parts=text_parts("hello")), durable=True)
    session.close()
    assert session.path is not None
    return session.path


async def test_children_are_found_in_the_folder_of_their_parent_oldest_first(
    tmp_path: Path,
) -> None:
    parent = Session.create(tmp_path, home=tmp_path / "home")
    events = await with_message(parent)
    assert children_of(events) == []
    later, earlier = (
        parent.child("20260102-b", "c2", "general"),
        parent.child("20260101-a", "c1", "explore"),
    )
    paths = [await with_message(later), await with_message(earlier)][::-1]
    assert children_of(events) == paths
    assert [*tree_of(events)] == [events, *paths]
    spawned = spawned_of(Session.open(paths[0]).header)
    assert spawned is not None
    assert (spawned.session, spawned.call, spawned.agent) == (
        parent.id,
        "c1",
        "explore",
    )
    assert spawned_of(parent.header) is None


async def test_a_child_killed_before_its_first_entry_has_not_begun(
    tmp_path: Path,
) -> None:
    events = await with_message(Session.create(tmp_path, home=tmp_path / "home"))
    empty = child_events(events, "20260101-a")
    empty.parent.mkdir(parents=True)
    assert children_of(events) == []
    empty.touch()
    assert children_of(events) == []
