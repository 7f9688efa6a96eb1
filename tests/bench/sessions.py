"""Large session files: years of work in one session, folded again and again."""

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
"""Of the long session of docs/performance.md: entries, and bytes."""
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW = 800_000
"""Characters after which a session is folded, unless another number is given."""
STEPS = 8
"""Of a turn."""
_WORDS = ("def", "return", "self", "in", "the", "view", "12", "=", "(", ")", "\n", "src/mod.py", "文件")


def write_large(path: Path, *, entries: int, size: int, cwd: str = "/work", window: float = WINDOW) -> None:
    """A session of so many entries and about so many bytes, most of them in tool results as in real ones.
    `window` is that many characters after which it is folded; `inf`: never."""
    header = SessionHeader(id="large", created_at=BEGUN, cwd=cwd)
    with path.open("wb") as file:
        file.write(header.model_dump_json().encode() + b"\n")
        for index, entry in zip(range(entries), _history(size // entries * 3, window), strict=False):
            stored = entry.model_copy(update={"index": index, "at": BEGUN + timedelta(seconds=index)})
            file.write(dump_entry(stored) + b"\n")


def _history(result_size: int, window: float) -> Iterator[Entry]:
    """Without end. `result_size` is the middle size of a tool result."""
    rng = random.Random(1)
    prose = " ".join(rng.choices(_WORDS, k=400_000))

    def text(size: int) -> str:
        start = rng.randrange(len(prose) - 1)
        return (prose[start:] + prose * (size // len(prose) + 1))[:size]

    index, said, kept_from, newest_fold = 1, 0, 1, 0
    yield SystemMessage(parts=text_parts("You are a careful agent."))
    while True:
        yield UserMessage(parts=text_parts(text(200)))
        index += 1
        for step in range(STEPS):
            path = f"src/mod_{step}.py"
            usage = Usage(input=30_000, cached=20_000, output=200)
            asked = ToolCallPart(call_id=f"c{index}", name="read", arguments=json.dumps({"path": path}))
            yield AssistantMessage(parts=(*text_parts(text(100)), asked), model="m", usage=usage)
            yield RequestRecord(digest="0" * 64, model="m", dialect="strict", estimated=28_000, usage=usage)
            size = int(result_size * rng.choice((0.2, 0.5, 1, 1, 2.3)))
            details = ToolDetails(brief="31 lines", files=(FileTouch(path=path, action="read"),))
            parts = text_parts(text(size))
            yield ToolResultMessage(call_id=asked.call_id, name="read", parts=parts, details=details)
            index, said = index + 3, said + size
        yield AssistantMessage(parts=text_parts(text(400)), model="m")
        index += 1
        if said > window:
            summary = text(12_000)
            message = SystemMessage(origin="summary", parts=text_parts(summary))
            inputs = (newest_fold,) if newest_fold else ()
            head = Written(message=message, covers=((kept_from, index - 1),), inputs=inputs)
            yield Compaction(summary=summary, first_kept_index=index, head=(head,), tokens_after=3_000)
            kept_from, newest_fold, index, said = index + 1, index, index + 1, 0


@contextmanager
def placed(*, entries: int = ENTRIES, size: int = SIZE) -> Iterator[Path]:
    """A working folder in whose data home (see `support.terminal`) lies one such session."""
    with _folder() as folder:
        write_large(_place(folder) / EVENTS, entries=entries, size=size, cwd=str(folder))
        yield folder


@contextmanager
def copied(events: Path) -> Iterator[Path]:
    """A working folder of a session's own copy, with all that lies beside it."""
    with _folder() as folder:
        place = _place(folder)
        for name in (EVENTS, INDEX, META):
            if (source := events.with_name(name)).exists():
                shutil.copy2(source, place / name)
        _held_in(place / EVENTS, folder)
        yield folder


def events_of(folder: Path) -> Path:
    """The event file of the session that was put there."""
    return _place(folder) / EVENTS


@contextmanager
def twin(folder: Path, *, index: bool = True) -> Iterator[Path]:
    """The event file of the same session once more in the same data home; for reading only. `-c` takes the
    first one."""
    events = events_of(folder)
    place = Path(mkdtemp(prefix="20250101-000000-", dir=events.parent.parent))
    (place / EVENTS).hardlink_to(events)
    for each in (META, INDEX) if index else (META,):
        shutil.copy2(events.with_name(each), place / each)
    try:
        yield place / EVENTS
    finally:
        shutil.rmtree(place)


def prepare(events: Path, **env: str) -> None:
    """As the process that wrote it left it: with an index, and a snapshot for lists."""
    code = "import sys, pathlib, foldline.history as h; h.Session.open(pathlib.Path(sys.argv[1])).save_meta()"
    subprocess.run([sys.executable, "-c", code, str(events)], check=True, env={**os.environ, **env})


@contextmanager
def _folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="foldline-bench-") as place:
        folder = Path(place) / "shop"
        folder.mkdir()
        yield folder


def _place(folder: Path) -> Path:
    place = session_dir(folder.with_name(f"{folder.name}-home"), folder, "20260101-000000-large1")
    place.mkdir(parents=True, exist_ok=True)
    return place


def _held_in(events: Path, folder: Path) -> None:
    """It says from now on that it is of this folder: one with a name as long, so that nothing else moves."""
    written, snapshot = events.stat(), events.with_name(META)
    with events.open("r+b") as file:
        header = file.readline()
        cwd = json.loads(header)["cwd"]
        if len(cwd) == len(str(folder)):
            file.seek(0)
            file.write(header.replace(cwd.encode(), str(folder).encode()))
    os.utime(events, ns=(written.st_atime_ns, written.st_mtime_ns))  # the index goes by it
    if snapshot.exists():
        snapshot.write_text(snapshot.read_text().replace(cwd, str(folder)))
