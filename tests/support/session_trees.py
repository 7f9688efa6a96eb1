"""Sessions with subagents of any shape, on disk."""

import asyncio
from pathlib import Path

from hypothesis import strategies as st

from foldline.history import Session
from foldline.history.children import tree_of, write_child
from foldline.history.origin import Spawned
from foldline.protocol import SessionHeader, Subagent
from support.history import history

Tree = dict[str, "Tree"]
TREES = st.recursive(
    st.just({}),
    lambda below: st.dictionaries(
        st.sampled_from(["a1", "b2", "c3"]), below, max_size=3
    ),
    max_leaves=8,
)


def write_tree(home: Path, tree: Tree) -> Path:
    """Write a session with a tree of subagents of these ids; return its event file."""
    markers = [Subagent(child=name, call_id=f"c-{name}", agent="x") for name in tree]
    session = Session.create(home / "work", home=home)
    try:
        asyncio.run(session.append(*history().user("go").entries, *markers))
    finally:
        session.close()
    assert session.path is not None
    grow(session.path, session.id, tree)
    return session.path


def grow(events: Path, session: str, tree: Tree) -> None:
    for name, below in tree.items():
        header = SessionHeader(id=name, created_at="2026-01-02T03:04:05Z", cwd="/x")  # type: ignore[arg-type]
        story = history().user(f"look, {name}").assistant("done")
        for child in below:
            story.add(Subagent(child=child, call_id="", agent="x"))
        path = write_child(
            events,
            header,
            story.entries,
            Spawned(session=session, call=f"c-{name}", agent="x"),
            str,
        )
        grow(path, name, below)


def tree_contents(events: Path) -> dict[str, bytes]:
    """Return the content of each history of a tree without its header, by path."""
    return {
        path.relative_to(events.parent).as_posix(): path.read_bytes().partition(b"\n")[
            2
        ]
        for path in tree_of(events)
    }
