"""Agents on sessions worth folding, with a clock that stands still: the same work gives the same bytes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from foldline.agent import Agent
from foldline.context.projection import Projection
from foldline.history import Session
from foldline.llm import LLM
from foldline.protocol import Entry, RequestRecord, SessionHeader, Usage
from support.agents import Watch, others_done
from support.history import history

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
SUMMARY = "## Goal\n- to know all the files\n## Next\n- go on"


@cache
def worked(turns: int, *, rows: int = 100, cached_usage: int | None = None) -> tuple[Entry, ...]:
    """Each turn reads a file, ten tokens a row: entries 1 to 4 are the first one, 2 and 3 call and result.

    With `cached_usage` a provider with a prefix cache has reported so many tokens of input.
    """
    built = history().system("You are a coding agent.")
    for n in range(turns):
        text = "".join(f"value_{row} = compute({row}) + offset\n" for row in range(rows))
        built = built.user(f"Read f{n}.txt").step("read", text, path=f"f{n}.txt").assistant(f"Read f{n}.txt.")
    if cached_usage is not None:
        usage = Usage(input=cached_usage, cached=cached_usage // 2, output=10)
        built = built.user("Is that all?").assistant("That is all.", usage=usage, model="played").asked()
    return tuple(built.entries)


SMALL_WINDOW = 16_384
*_EARLIER, _NEWEST = worked(24, rows=34)
_USAGE = Usage(input=10_900, output=10)
NEARLY_FULL = (
    *_EARLIER,
    _NEWEST.model_copy(update={"usage": _USAGE, "model": "played"}),
    RequestRecord(index=_NEWEST.index + 1, digest="0" * 64, model="played", usage=_USAGE),
)
"""In a small window, by what was reported: past the mark of 9.2k from which on a fold is drafted, below the
threshold of 12.2k."""


@asynccontextmanager
async def at_work(
    folder: Path, entries: tuple[Entry, ...], llm: LLM, **options: Any
) -> AsyncIterator[tuple[Agent, Watch]]:
    """An agent in this folder on a session of its own with these entries. It summarises, unless told
    otherwise: that is what takes time, and can be looked at."""
    template = Session.from_entries(SessionHeader(id="s", created_at=NOON, cwd=str(folder)), entries)
    home = folder.parent / f"{folder.name}-home"
    session = await template.copy(home=home, cwd=folder, now=lambda: NOON)
    agent = Agent(session, llm=llm, **{"approvals": "all", "compaction": "summary", **options})
    watch = Watch(agent)
    try:
        yield agent, watch
    finally:
        await agent.aclose()
        await others_done()


def bytes_of(projection: Projection) -> list[str]:
    """The view, item by item, as it is sent and shown."""
    return [f"{item.message.model_dump_json()} {item.fate} {item.covers}" for item in projection.view]
