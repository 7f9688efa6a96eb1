"""The cache ledger of real requests: servers that cache by rules of their own, on a clock that tests move."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from foldline.agent import Agent
from foldline.history import Session
from foldline.llm.client import ModelClient
from foldline.llm.wire import Options
from foldline.past.cache_use import CacheUse, cache_uses
from foldline.protocol import operations
from support.agents import write_lines
from support.clients import preset_at
from support.server import RunningServer, running_server

pytestmark = pytest.mark.quick_cases(1)

WINDOW = 200_000
MARKED = ["anthropic", "openrouter"]
AUTOMATIC = ["openai", "openai-responses", "deepseek"]
BEGUN = datetime(2026, 11, 24, 22, tzinfo=UTC)
MODELS = {"openrouter": "anthropic/claude-sonnet-5.5"}


@dataclass
class Bench:
    """An agent that reads files at a server, and the one clock of both."""

    server: RunningServer
    client: ModelClient
    folder: Path
    time: datetime = BEGUN
    agent: Agent = field(init=False)
    asked: int = 0

    def __post_init__(self) -> None:
        self.session = Session.create(
            self.folder, home=self.folder.parent / "home", now=lambda: self.time
        )
        self.agent = self.with_agent()

    def with_agent(self, **options: Any) -> Agent:
        self.agent = Agent(
            self.session, llm=self.client, approvals="all", mode="off", **options
        )
        return self.agent

    def pass_time(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)
        self.server.pass_time(seconds)

    async def ask(self) -> None:
        """One prompt that has a file read."""
        self.asked += 1
        write_lines(self.folder / f"part{self.asked}.py", 300)
        await self.agent.prompt(f"Read part{self.asked}.py and tell me the last line.")

    async def read(self) -> CacheUse:
        """One prompt more; what became of the request it began with."""
        before = len(self.uses())
        await self.ask()
        return self.uses()[before]

    async def do(self, operation: operations.Operation) -> None:
        await self.agent.executor.wait_for(self.agent.executor.submit(operation))

    def uses(self) -> list[CacheUse]:
        return [*cache_uses(self.session.projection)]


@contextmanager
def server_of(
    preset: str, **options: Any
) -> Iterator[tuple[RunningServer, ModelClient]]:
    model = options.pop("model", MODELS.get(preset, "scripted-1"))
    flags = ["--marked"] if preset in MODELS else []
    with running_server(window=WINDOW, model=model, flags=flags, **options) as server:
        yield server, preset_at(server, preset, WINDOW)


@asynccontextmanager
async def bench(folder: Path, preset: str, **options: Any) -> AsyncIterator[Bench]:
    (folder / "project").mkdir()
    with server_of(preset, **options) as (server, client):
        made = Bench(server, client, folder / "project")
        await made.ask()
        await made.ask()
        try:
            yield made
        finally:
            await made.agent.aclose()


@pytest.mark.parametrize("preset", [*MARKED, *AUTOMATIC])
async def test_of_requests_that_only_grow_nothing_is_missed(
    tmp_path: Path, preset: str
) -> None:
    async with bench(tmp_path, preset) as made:
        await made.read()
        uses = made.uses()
    assert len(uses) == 6 and not [use for use in uses if use.miss]
    assert all(use.cached and use.expected for use in uses[2:])


@pytest.mark.parametrize("preset", MARKED)
@pytest.mark.parametrize(("life", "minutes"), [("5m", 6), ("1h", 61)])
async def test_a_life_that_ended_is_named_with_the_time_between(
    tmp_path: Path, preset: str, life: Any, minutes: int
) -> None:
    async with bench(tmp_path, preset) as made:
        made.client.use(Options(cache_life=life))
        await made.read()
        made.pass_time(60 * (minutes - 2))
        assert (await made.read()).miss is None
        made.pass_time(60 * minutes)
        use = await made.read()
    assert (
        use.miss is not None
        and use.miss.cause == "expired"
        and use.missed == use.expected
    )
    assert use.miss.unused == 60 * minutes


@pytest.mark.parametrize("preset", [*MARKED, *AUTOMATIC])
async def test_a_compaction_is_named_and_the_first_message_that_it_changed(
    tmp_path: Path, preset: str
) -> None:
    async with bench(tmp_path, preset) as made:
        await made.agent.compact()
        use = await made.read()
        [made_entry] = made.session.projection.all_compactions
    assert use.miss is not None
    assert (use.miss.cause, use.miss.by) == ("compaction", made_entry.index)
    first = next(entry.index for entry in made.session.entries if entry.type == "user")
    assert use.miss.differs is not None and use.miss.differs >= first


async def test_an_edit_an_undo_and_a_clear_are_told_apart(tmp_path: Path) -> None:
    async with bench(tmp_path, "anthropic") as made:
        result = next(
            entry.index for entry in made.session.entries if entry.type == "tool_result"
        )
        await made.do(operations.EditView(target=result, action="hide"))
        edit = await made.read()
        await made.agent.compact()
        await made.ask()
        await made.do(operations.UndoCompaction())
        undone = made.session.projection.last_index
        made.server.pass_time(301)  # else it still has what was there before
        undo = await made.read()
        await made.do(operations.ClearView())
        clear = await made.read()
    assert edit.miss is not None and (edit.miss.cause, edit.miss.differs) == (
        "edit",
        result,
    )
    assert undo.miss is not None and (undo.miss.cause, undo.miss.by) == ("undo", undone)
    assert (clear.expected, clear.miss) == (0, None), "too short to be kept"


@pytest.mark.slow
async def test_an_undo_back_to_what_is_still_kept_misses_nothing(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, "openai") as made:
        await made.agent.compact()
        await made.ask()
        await made.do(operations.UndoCompaction())
        assert (await made.read()).miss is None


@pytest.mark.slow
async def test_a_rewind_is_named_where_what_it_leads_back_to_is_gone(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path, "anthropic") as made:
        await made.ask()
        third = [entry for entry in made.session.entries if entry.type == "checkpoint"][
            -3
        ]
        await made.do(operations.Rewind(checkpoint=third.id))  # type: ignore[attr-defined]
        kept = await made.read()
        await made.do(operations.Rewind(checkpoint=third.id))  # type: ignore[attr-defined]
        made.server.pass_time(
            301
        )  # by the server's clock alone: it keeps less than it promised
        lost = await made.read()
    assert kept.miss is None and kept.cached
    assert lost.miss is not None and lost.miss.cause == "rewind"


@pytest.mark.parametrize("preset", ["anthropic", "openai"])
async def test_other_tools_are_named_before_all_else(
    tmp_path: Path, preset: str
) -> None:
    async with bench(tmp_path, preset) as made:
        tools = made.agent.state.tools.all
        made.agent.state.tools.all = [
            tool for tool in tools if tool.spec.name != "todo"
        ]
        use = await made.read()
        made.agent.state.tools.all = tools
    assert use.miss is not None and use.miss.cause == "tools"
    assert use.cached < use.expected / 4, (
        "tools stand first: what follows them is another prefix"
    )


@pytest.mark.slow
async def test_another_model_has_a_cache_of_its_own(tmp_path: Path) -> None:
    async with bench(tmp_path, "openai") as made:
        with server_of("openai", model="scripted-2") as (_, other):
            made.agent.state.models.llm = other
            use = await made.read()
            made.agent.state.models.llm = made.client
            back = await made.read()
    assert use.miss is not None and use.miss.cause == "model" and use.cached == 0
    assert back.miss is not None and back.miss.cause == "model" and back.cached > 0


async def test_another_effort_is_named(tmp_path: Path) -> None:
    async with bench(tmp_path, "anthropic") as made:
        made.client.use(Options(effort="high"))
        use = await made.read()
    assert use.miss is not None and use.miss.cause == "effort"


async def test_where_all_was_the_same_and_in_time_it_was_the_provider(
    tmp_path: Path,
) -> None:
    unread = {"prompt_tokens": 9_000, "prompt_tokens_details": {"cached_tokens": 0}}
    script = [
        {"when": {"nth": 5}, "answer": {"text": "No file today.", "usage": unread}},
    ]
    async with bench(tmp_path, "openai", script=script, then_default=True) as made:
        use = await made.read()
    assert (
        use.miss is not None
        and use.miss.cause == "provider"
        and use.missed == use.expected > 0
    )


async def test_where_nobody_knows_of_a_cache_nothing_is_said(tmp_path: Path) -> None:
    unread = {"prompt_tokens": 9_000, "prompt_tokens_details": {"cached_tokens": 0}}
    script = [{"answer": {"text": "No.", "usage": unread}}]
    async with bench(tmp_path, "vllm", script=script) as made:
        assert made.uses() == [] and len(made.session.projection.meter.requests) == 2
