"""A session in which everything happens, and what its server saw: each request repeats the one before it, but
where the history says why not (docs/design/invariants.md)."""

import asyncio
import base64
from itertools import pairwise
from pathlib import Path
from typing import Any

from foldline.agent.extensions.mcp import ToolServers
from foldline.llm.client import ModelClient
from foldline.llm.failures import MAX_RETRIES
from foldline.past.proof import prove
from foldline.protocol import (
    Approval,
    Clear,
    Compaction,
    DeveloperMessage,
    Edit,
    Entry,
    NoticeRecord,
    Revert,
    Undo,
    UserMessage,
    events,
    operations,
    text_parts,
)
from foldline.view.calls import unannounced_tool_changes
from foldline.view.rules import broken
from support.agents import PATIENCE, agent_in, reload_session
from support.clients import client_of
from support.mcp_server import RED_DOT, stdio_server
from support.messages import tool_results
from support.server import RunningServer, Seen, running_server
from support.server_checks import CACHE_STEP

JOB = "until [ -e go ]; do sleep 0.02; done"
SAID = "This will be broken off before its end."
SLOW = ("mcp__one__slow", {"number": 600})
ASKED = 1 + MAX_RETRIES
"""How often, before a failure ends the turn."""


def rule(
    prompt: str, *calls: tuple[str, Any], times: int = 1_000, **answer: Any
) -> dict[str, Any]:
    """What a prompt that ends so is answered with."""
    if calls:
        answer["tool_calls"] = [
            {"name": name, "arguments": given} for name, given in calls
        ]
    when = {"content": f"{prompt}$", "role": "user", "tools": True}
    return {"when": when, "times": times, "answer": answer}


SCRIPT = [
    rule("start it", ("bash", {"command": JOB, "background": True})),
    rule("show me", ("mcp__one__picture", {}), ("read", {"path": "dot.png"})),
    rule("break off", times=ASKED, text=SAID, chunk=10, fault={"cut_after": 2}),
    rule(
        "refuse",
        times=ASKED,
        fault={"status": 500, "body": {"error": {"message": "GPU on fire"}}},
    ),
    rule("a hundred", *[("ls", {})] * 50, SLOW, *[("ls", {})] * 49),
    rule("grow", ("mcp__one__grow", {})),
    {
        "when": {"content": "<conversation>|<summary-request>"},
        "answer": {"text": "## Goal\n- to see it all"},
    },
    {"answer": {"text": "Well."}},
]


def changes_the_view(entry: Entry) -> bool:
    other_tools = isinstance(entry, NoticeRecord) and entry.tools is not None
    return other_tools or isinstance(entry, Clear | Compaction | Edit | Revert | Undo)


class Walk:
    """One session on one server, with a tool server; what asks is allowed, and that is on record."""

    def __init__(self, folder: Path, server: RunningServer) -> None:
        self._server = server
        self.folder = folder
        self.changed: set[int] = set()
        """How many requests had left when the history said that the next one may be another."""
        self.servers = ToolServers(
            [stdio_server("one", folder / "diary")],
            folder=folder,
            logs=folder / "logs",
            environ={},
        )
        model = self._client(server.model)
        self.agent, self.watch = agent_in(
            folder, model, servers=self.servers, connect=self._client, approvals="ask"
        )
        self.agent.executor.subscribe(self._hear)

    def _client(self, model: str) -> ModelClient:
        return client_of(self._server, model=model)

    def _hear(self, event: events.Event) -> None:
        if isinstance(event, events.EntryAppended) and changes_the_view(event.entry):
            self.changed.add(len(self.seen()))
        if isinstance(event, events.ApprovalRequested):
            self.agent.executor.submit(
                operations.Approve(call_id=event.call_id, answer="always")
            )

    @property
    def entries(self) -> list[Entry]:
        return list(self.agent.session.entries)

    def seen(self) -> list[Seen]:
        """The requests that have left, but for those that asked for a summary."""
        return [each for each in self._server.requests() if "tools" in each.body]

    async def done(
        self, operation: operations.Operation, outcome: str = "done"
    ) -> None:
        finished = await self.agent.executor.wait_for(
            self.agent.executor.submit(operation)
        )
        assert finished.outcome == outcome, finished.error

    async def ask(self, text: str, outcome: str = "done") -> None:
        """A prompt; whatever came of it, the history is valid, proved, and the same when it is read again."""
        await self.done(operations.RunAgent(parts=text_parts(text)), outcome)
        session = self.agent.session
        assert broken(session.projection) == []
        assert [str(proof) for proof in prove(session.entries) if not proof.holds] == []
        assert reload_session(self.agent).projection.view == session.projection.view
        assert list(unannounced_tool_changes(session.entries)) == []

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.01)


async def test_a_request_repeats_the_one_before_it_but_where_the_history_says_why(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "dot.png").write_bytes(RED_DOT)
    with running_server(script=SCRIPT, window=65_536) as server:
        walk = Walk(folder, server)
        await tools_and_failures(walk)
        await changes_of_the_view(walk)
        seen = walk.seen()
        await walk.agent.aclose()
    assert [each.violations for each in seen if each.violations] == []
    assert sum(isinstance(entry, Approval) for entry in walk.entries) == 4
    pairs = list(enumerate(pairwise(seen), 1))
    torn = {
        nth
        for nth, (earlier, later) in pairs
        if later.messages[: len(earlier.messages)] != earlier.messages
        or later.body["tools"] != earlier.body["tools"]
    }
    assert torn and torn <= walk.changed
    misses = {
        nth
        for nth, (one, two) in pairs
        if two.cached_tokens < one.prompt_tokens - CACHE_STEP
    }
    assert misses <= torn


async def tools_and_failures(walk: Walk) -> None:
    """A job in the background, pictures, answers that break off, a hundred calls and an Esc among them."""
    await walk.ask("start it")
    (walk.folder / "go").touch()
    await walk.watch.until(
        lambda: any(text.startswith("Job 1 ended") for text in walk.watch.notices)
    )
    await walk.ask("show me")
    assert any(
        isinstance(entry, DeveloperMessage) and "Job 1" in entry.text
        for entry in walk.entries
    )
    picture = base64.b64encode(RED_DOT).decode()
    assert walk.seen()[-1].raw.decode().count(picture) == 2
    for fails in ("break off", "refuse"):
        await walk.ask(fails, "failed")
        before = walk.seen()[-1].messages
        await walk.done(operations.Retry())
        assert walk.seen()[-1].messages == before
        assert walk.seen()[-1].outcome == "answered"
    walk.agent.executor.submit(operations.RunAgent(parts=text_parts("a hundred")))
    await walk.until(
        lambda: any(
            "a quarter" in event.text for event in walk.watch.of(events.ToolOutput)
        )
    )
    walk.agent.executor.submit(operations.Interrupt())
    await walk.agent.executor.settle()
    hundred = tool_results(walk.entries)[-100:]
    assert len({entry.call_id for entry in hundred}) == 100
    assert [entry.details.brief for entry in hundred[50:]] == [
        "cancelled ✗",
        *["not run"] * 49,
    ]
    await walk.done(operations.Retry())


async def changes_of_the_view(walk: Walk) -> None:
    """Each said by an entry: other tools, another client, pin, compaction, rewind, clear, and what undoes
    them."""
    session = walk.agent.session
    await walk.ask("grow")
    await walk.until(
        lambda: any("grown" in tool.spec.name for tool in walk.servers.tools)
    )
    await walk.ask("with what has grown")
    await walk.done(operations.SwitchModel(model=walk.agent.state.models.llm.info.id))
    await walk.ask("to another client")
    newest = next(
        entry for entry in reversed(walk.entries) if isinstance(entry, UserMessage)
    )
    await walk.done(operations.EditView(target=newest.index, action="pin"))
    await walk.done(operations.CompactSession(reason="manual"))
    await walk.ask("after a compaction")
    await walk.done(operations.UndoCompaction())
    await walk.ask("after its undo")
    dropped = next(
        entry
        for entry in walk.entries
        if isinstance(entry, Edit) and entry.action == "drop"
    )
    earlier = [
        each.id for each in session.projection.checkpoints if each.index < dropped.index
    ]
    await walk.done(operations.Rewind(checkpoint=earlier[-1]))
    await walk.ask("from where an answer had broken off")
    await walk.done(operations.UndoCompaction())
    await walk.ask("and back")
    await walk.done(operations.ClearView())
    await walk.ask("on an empty view")
    await walk.done(operations.UndoCompaction())
    await walk.ask("with all of it")
