"""Large session files: years of work in one session with many compactions."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

from foldline.data import EVENTS
from foldline.history.paths import INDEX, META, session_dir
from foldline.protocol import (
    AssistantMessage,
    Compaction,
    Entry,
    FileTouch,
    RequestRecord,
    SessionHeader,
    SystemMessage,
    ToolCallPart,
    ToolDetails,
    ToolResultMessage,
    Usage,
    UserMessage,
    Written,
    dump_entry,
    text_parts,
)

ENTRIES, SIZE = 100_000, 1_000_000_000
"""Entries and bytes of the long session of docs/design/performance.md."""
START = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW = 800_000
"""Characters between two compactions, by default."""
STEPS = 8
"""Calls of a turn."""
_WORDS = (
    "def",
    "return",
    "self",
    "in",
    "the",
    "view",
    "12",
    "=",
    "(",
    ")",
    "\n",
    "src/mod.py",
    "文件",
)


def write_large(
    path: Path, *, entries: int, size: int, cwd: str = "/work", window: float = WINDOW
) -> None:
    """Write a session of `entries` entries and about `size` bytes, mostly in tool results.

    `window` is the number of characters between compactions; `inf`: no compaction.
    """
    header = SessionHeader(id="large", created_at=START, cwd=cwd)
    with path.open("wb") as file:
        file.write(header.model_dump_json().encode() + b"\n")
        for index, entry in zip(
            range(entries), _history(size // entries * 3, window), strict=False
        ):
            stored = entry.model_copy(
                update={"index": index, "at": START + timedelta(seconds=index)}
            )
            file.write(dump_entry(stored) + b"\n")


def _history(result_size: int, window: float) -> Iterator[Entry]:
    """Yield entries without end. `result_size` is the median size of a tool result."""
    rng = random.Random(1)
    prose = " ".join(rng.choices(_WORDS, k=400_000))

    def text(size: int) -> str:
        start = rng.randrange(len(prose) - 1)
        return (prose[start:] + prose * (size // len(prose) + 1))[:size]

    index = 1
    characters = 0
    kept_from = 1
    newest_compaction = 0
    yield SystemMessage(parts=text_parts("You are a careful agent."))
    while True:
        yield UserMessage(parts=text_parts(text(200)))
        index += 1
        for step in range(STEPS):
            path = f"src/mod_{step}.py"
            usage = Usage(input=30_000, cached=20_000, output=200)
            tool_call = ToolCallPart(
                call_id=f"c{index}", name="read", arguments=json.dumps({"path": path})
            )
            yield AssistantMessage(
                parts=(*text_parts(text(100)), tool_call), model="m", usage=usage
            )
            yield RequestRecord(
                digest="0" * 64,
                model="m",
                dialect="strict",
                estimated=28_000,
                usage=usage,
            )
            size = int(result_size * rng.choice((0.2, 0.5, 1, 1, 2.3)))
            details = ToolDetails(
                brief="31 lines", files=(FileTouch(path=path, action="read"),)
            )
            parts = text_parts(text(size))
            yield ToolResultMessage(
                call_id=tool_call.call_id, name="read", parts=parts, details=details
            )
            index, characters = index + 3, characters + size
        yield AssistantMessage(parts=text_parts(text(400)), model="m")
        index += 1
        if characters > window:
            summary = text(12_000)
            message = SystemMessage(origin="summary", parts=text_parts(summary))
            inputs = (newest_compaction,) if newest_compaction else ()
            head = Written(
                message=message, covers=((kept_from, index - 1),), inputs=inputs
            )
            yield Compaction(
                summary=summary,
                first_kept_index=index,
                head=(head,),
                tokens_after=3_000,
            )
            newest_compaction = index
            kept_from = index + 1
            index += 1
            characters = 0


@contextmanager
def large_session(*, entries: int = ENTRIES, size: int = SIZE) -> Iterator[Path]:
    """Create a working folder with a large session in its data home."""
    with _folder() as folder:
        write_large(
            _place(folder) / EVENTS, entries=entries, size=size, cwd=str(folder)
        )
        yield folder


@contextmanager
def session_copy(events: Path) -> Iterator[Path]:
    """Create a working folder with a copy of a session and the files next to it."""
    with _folder() as folder:
        place = _place(folder)
        for name in (EVENTS, INDEX, META):
            if (source := events.with_name(name)).exists():
                shutil.copy2(source, place / name)
        _set_folder(place / EVENTS, folder)
        yield folder


def events_of(folder: Path) -> Path:
    """Return the event file of the folder's session."""
    return _place(folder) / EVENTS


@contextmanager
def twin(folder: Path, *, index: bool = True) -> Iterator[Path]:
    """Copy the session within its data home, for reading only; return the event file.

    `-c` opens the original.
    """
    events = events_of(folder)
    place = Path(mkdtemp(prefix="20250101-000000-", dir=events.parent.parent))
    (place / EVENTS).hardlink_to(events)
    for name in (META, INDEX) if index else (META,):
        shutil.copy2(events.with_name(name), place / name)
    try:
        yield place / EVENTS
    finally:
        shutil.rmtree(place)


def prepare(events: Path, **env: str) -> None:
    """Create the index and the list snapshot, as the writing process does."""
    code = "import sys, pathlib, foldline.history as h; h.Session.open(pathlib.Path(sys.argv[1])).save_meta()"
    subprocess.run(
        [sys.executable, "-c", code, str(events)], check=True, env={**os.environ, **env}
    )


@contextmanager
def _folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="foldline-bench-") as place:
        folder = Path(place) / "shop"
        folder.mkdir()
        yield folder


def _place(folder: Path) -> Path:
    place = session_dir(
        folder.with_name(f"{folder.name}-home"), folder, "20260101-000000-large1"
    )
    place.mkdir(parents=True, exist_ok=True)
    return place


def _set_folder(events: Path, folder: Path) -> None:
    """Set the session's folder to one with a path of equal length, so that no offset changes."""
    status, snapshot = events.stat(), events.with_name(META)
    with events.open("r+b") as file:
        header = file.readline()
        cwd = json.loads(header)["cwd"]
        if len(cwd) == len(str(folder)):
            file.seek(0)
            file.write(header.replace(cwd.encode(), str(folder).encode()))
    os.utime(
        events, ns=(status.st_atime_ns, status.st_mtime_ns)
    )  # the index depends on the mtime
    if snapshot.exists():
        snapshot.write_text(snapshot.read_text().replace(cwd, str(folder)))
