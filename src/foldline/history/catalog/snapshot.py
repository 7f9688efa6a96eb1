"""`meta.json` on disk: what a list shows of a session, kept beside its history. Never the truth."""

from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from foldline.files import put_private, read_regular

from ..meta import Meta
from ..paths import META

_MOST_BYTES = 64 * 1024


def read_snapshot(events: Path) -> Meta | None:
    """What was kept about an event file, in whatever state that was; None where nothing was, or rubbish."""
    try:
        meta = Meta.model_validate_json(read_regular(events.with_name(META), _MOST_BYTES))
    except (OSError, ValidationError):
        return None
    return meta if meta.id and meta.cwd else None


def save_snapshot(events: Path, meta: Meta) -> None:
    """Keep it beside the event file, in one step: the old one or the new one.

    One that cannot be written is no loss: lists then read the history itself.
    """
    with suppress(OSError):
        put_private(events.with_name(META), meta.model_dump_json().encode())
