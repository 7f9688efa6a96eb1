"""Where a session comes from that did not begin empty: a field of its header."""

from pydantic import ValidationError

from foldline.protocol import SessionHeader
from foldline.protocol.base import Record

PARENT = "parent"
"""The field of a session's header that holds a `Parent`."""


class Parent(Record):
    """The session that this one was forked or imported from."""

    id: str
    index: int
    """The last entry that came along; -1 where none did."""


def parent_of(header: SessionHeader) -> Parent | None:
    """Where the session comes from; None where it began empty, or that is not told as we understand it."""
    try:
        return Parent.model_validate((header.model_extra or {}).get(PARENT))
    except ValidationError:
        return None
