"""Large session files: years of work in one session, folded again and again."""

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

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

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW = 800_000
"""Characters after which a session is folded."""
STEPS = 8
"""Of a turn."""
_WORDS = ("def", "return", "self", "in", "the", "view", "12", "=", "(", ")", "\n", "src/mod.py", "文件")


def write_large(path: Path, *, entries: int, size: int) -> None:
    """A session of so many entries and about so many bytes, most of them in tool results as in real ones."""
    header = SessionHeader(id="large", created_at=BEGUN, cwd="/work")
    with path.open("wb") as file:
        file.write(header.model_dump_json().encode() + b"\n")
        for index, entry in zip(range(entries), _history(size // entries * 3), strict=False):
            stored = entry.model_copy(update={"index": index, "at": BEGUN + timedelta(seconds=index)})
            file.write(dump_entry(stored) + b"\n")


def _history(result_size: int) -> Iterator[Entry]:
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
        if said > WINDOW:
            summary = text(12_000)
            message = SystemMessage(origin="summary", parts=text_parts(summary))
            inputs = (newest_fold,) if newest_fold else ()
            head = Written(message=message, covers=((kept_from, index - 1),), inputs=inputs)
            yield Compaction(summary=summary, first_kept_index=index, head=(head,), tokens_after=3_000)
            kept_from, newest_fold, index, said = index + 1, index, index + 1, 0
