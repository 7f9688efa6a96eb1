"""Where a session comes from that did not begin empty: a field of its header."""

import sys
from pathlib import Path

from pydantic import Field, ValidationError

from foldline.data import data_home, is_kept
from foldline.protocol import NEW, SessionHeader
from foldline.protocol.base import Record

PARENT = "parent"
"""The field of a session's header that holds a `Parent`."""


class Parent(Record):
    """The session that this one was forked or imported from."""

    id: str
    index: int
    """The last entry that came along; -1 where none did."""
    foreign: int = Field(default=NEW, exclude_if=lambda foreign: foreign == NEW)
    """The last of these that was not written here: what they say of files may be anybody's word."""
    named: bool = Field(default=False, exclude_if=lambda named: not named)
    """Whether its folder is the one it named itself, while its user was in another."""


def parent_of(header: SessionHeader) -> Parent | None:
    """Where the session comes from; None where it began empty, or that is not told as we understand it."""
    try:
        return Parent.model_validate((header.model_extra or {}).get(PARENT))
    except ValidationError:
        return None


def is_foreign(header: SessionHeader, events: Path) -> bool:
    """Whether a session, or its beginning, was not written here: it may name any folder as its own."""
    return foreign_upto(header) > NEW or not is_kept(data_home(), events)


def foreign_upto(header: SessionHeader) -> int:
    """The last entry that was not written here, as the header tells; all of them where it cannot be read."""
    parent = parent_of(header)
    if parent is not None:
        return parent.foreign
    return sys.maxsize if (header.model_extra or {}).get(PARENT) is not None else NEW
