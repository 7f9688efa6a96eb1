"""A history written to a file, and opened in every possible way."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from foldline.history import EVENTS, Session
from foldline.history.paths import INDEX
from foldline.protocol import Entry, SessionHeader, dump_entry

HEADER = SessionHeader(
    id="reopened", created_at=datetime(2026, 1, 1, tzinfo=UTC), cwd="/work"
)


def write_events(path: Path, entries: Sequence[Entry]) -> None:
    lines = [HEADER.model_dump_json().encode(), *map(dump_entry, entries)]
    path.write_bytes(b"".join(line + b"\n" for line in lines))


@contextmanager
def reopened_sessions(entries: Sequence[Entry]) -> Iterator[Iterator[Session]]:
    """Yield the session of these entries without an index, with one, and with an outdated one."""
    with TemporaryDirectory() as folder:
        yield _opened(Path(folder) / EVENTS, entries)


def _opened(path: Path, entries: Sequence[Entry]) -> Iterator[Session]:
    write_events(path, entries)
    yield Session.open(path, cache_from=1)
    assert path.with_name(INDEX).exists()
    yield Session.open(path, cache_from=1)
    path.with_name(INDEX).unlink()
    write_events(path, entries[: len(entries) // 2])
    Session.open(path, cache_from=1)
    with path.open("ab") as file:
        file.write(
            b"".join(
                dump_entry(entry) + b"\n" for entry in entries[len(entries) // 2 :]
            )
        )
    yield Session.open(path, cache_from=1)
