"""Agents on sessions worth compacting, with a fixed clock: the same work gives the same bytes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from foldline.agent import Agent
from foldline.history import Session
from foldline.llm import LLM
from foldline.protocol import Entry, RequestRecord, SessionHeader, Usage
from foldline.view.projection import Projection
from support.agents import Watch, other_tasks_done
from support.history import history

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
SUMMARY = "## Goal\n- to know all the files\n## Next\n- go on"


@cache
def reading_entries(
    turns: int, *, rows: int = 100, cached_usage: int | None = None
) -> tuple[Entry, ...]:
    """Return turns that read a file each, ten tokens a row.

    Entries 1 to 4 are the first turn, 2 and 3 its call and result. With `cached_usage`, a provider with a
    prefix cache has reported that many input tokens.
    """
    built = history().system("You are a coding agent.")
    for n in range(turns):
        text = "".join(
            f"value_{row} = compute({row}) + offset\n" for row in range(rows)
        )
        built = (
            built.user(f"Read f{n}.txt")
            .step("read", text, path=f"f{n}.txt")
            .assistant(f"Read f{n}.txt.")
        )
    if cached_usage is not None:
        usage = Usage(input=cached_usage, cached=cached_usage // 2, output=10)
        built = (
            built.user("Is that all?")
            .assistant("That is all.", usage=usage, model="played")
            .asked()
        )
    return tuple(built.entries)


SMALL_WINDOW = 16_384
*_EARLIER, _NEWEST = reading_entries(24, rows=34)
_USAGE = Usage(input=10_900, output=10)
NEARLY_FULL = (
    *_EARLIER,
    _NEWEST.model_copy(update={"usage": _USAGE, "model": "played"}),
    RequestRecord(
        index=_NEWEST.index + 1, digest="0" * 64, model="played", usage=_USAGE
    ),
)
"""Reported usage in a small window: past the draft mark of 9.2k, below the threshold of 12.2k."""


@asynccontextmanager
async def agent_with_entries(
    folder: Path, entries: tuple[Entry, ...], llm: LLM, **options: Any
) -> AsyncIterator[tuple[Agent, Watch]]:
    """Start an agent in this folder on a session with these entries.

    Its default strategy is `summary`, which takes time, so that tests can look at it.
    """
    template = Session.from_entries(
        SessionHeader(id="s", created_at=NOON, cwd=str(folder)), entries
    )
    home = folder.parent / f"{folder.name}-home"
    session = await template.copy(home=home, cwd=folder, now=lambda: NOON)
    agent = Agent(
        session, llm=llm, **{"approvals": "all", "compaction": "summary", **options}
    )
    watch = Watch(agent)
    try:
        yield agent, watch
    finally:
        await agent.aclose()
        await other_tasks_done()


def bytes_of(projection: Projection) -> list[str]:
    """Return the view, item by item, as sent and shown."""
    return [
        f"{item.message.model_dump_json()} {item.fate} {item.covers}"
        for item in projection.view
    ]
