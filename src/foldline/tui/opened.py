"""What is said of a session that was opened. The last sentence stays."""

from collections.abc import Iterator

from foldline.history import Session, parent_of, short_id


def sentences(session: Session) -> Iterator[str]:
    if session.moved_from:
        yield f"This session was held in {session.moved_from}; it goes on here"
    elif origin := _origin(session):
        yield origin
    if session.damage:
        yield f"This session's file is damaged: {session.damage}. All else is here."


def _origin(session: Session) -> str:
    """What a session is a copy of, as long as nothing was said in it."""
    parent = parent_of(session.header)
    if parent is None or session.projection.last_index != parent.index:
        return ""
    return f"A copy of {short_id(parent.id)} up to entry {parent.index}; the original stays as it is"
