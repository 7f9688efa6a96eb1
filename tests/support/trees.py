"""Sessions with subagents: a model that starts them, and the invariants of a tree."""

from collections.abc import AsyncGenerator
from pathlib import Path

from foldline.agent import Agent
from foldline.history import Session, children_of, short_id, spawned_of, tree_of
from foldline.llm import Chunk, Request
from foldline.past.proof import prove
from foldline.past.subagents import IN_BACKGROUND, result_of
from foldline.protocol import (
    AssistantMessage,
    DeveloperMessage,
    Subagent,
    ToolResultMessage,
)
from foldline.view.items import STANDING
from foldline.view.rules import broken, dangling
from support.agents import PlayedLLM, tool_reply


class Busy(PlayedLLM):
    """Starts subagents if the prompt's first word says so; a subagent calls a tool and answers."""

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        newest = request.messages[-1]
        if request.tools and newest.type == "user":
            word = newest.text.split()[0]
            tasks = [
                ("task", {"prompt": f"child {n}: {'x' * 400}"})
                for n in range(2 if word == "two" else 1)
            ]
            begin = tool_reply(*tasks, stem=f"{len(self.requests)}-")
            look = tool_reply(("ls", {"path": "."}), stem=f"{len(self.requests)}-")
            self.script.append(
                {"spawn": begin, "two": begin, "child": look}.get(word, "said")
            )
        async for chunk in super().stream(request):
            yield chunk


def check_tree(events: Path, *, torn: bool = False) -> int:
    """Fail if a history is broken, a request unproved, or a subagent orphaned; return the number of sessions.

    `torn`: records may be truncated, as after a kill.
    """
    tree = list(tree_of(events))
    for path in tree:
        session = Session.open(path)
        assert torn or not session.damage
        assert not broken(session.projection), broken(session.projection)
        assert not dangling(session.projection), dangling(session.projection)
        assert all(proof.holds for proof in prove(session.entries))
        subagents = {
            entry.child: entry
            for entry in session.entries
            if isinstance(entry, Subagent)
        }
        children = {child.parent.name: child for child in children_of(path)}
        for name, child in children.items():
            entry = subagents[name]
            spawned = spawned_of(Session.open(child).header)
            assert spawned is not None
            link = (spawned.session, spawned.call, spawned.agent)
            assert link == (session.id, entry.call_id, entry.agent)
        results = (
            entry for entry in session.entries if isinstance(entry, ToolResultMessage)
        )
        answered_children = {
            entry.details.child for entry in results if entry.details.child
        }
        assert answered_children <= children.keys()
    return len(tree)


async def check_reports(events: Path) -> None:
    """Send another request, as the next process does, and check the subagents' results.

    Fails unless it reports each subagent of its branch exactly once: by the call's result, or by a later
    message.
    """
    agent = Agent(Session.open(events), llm=Busy(), approvals="all")
    try:
        await agent.prompt("talk now")
    finally:
        await agent.aclose()
    projection = agent.session.projection
    standing = [
        e for e in agent.session.entries if projection.fate(e.index).kind in STANDING
    ]
    for started in projection.subagents:
        calling_answers = [
            e
            for e in standing
            if isinstance(e, AssistantMessage) and e.index < started.index
        ]
        if not calling_answers or started.call_id not in [
            call.call_id for call in calling_answers[-1].calls
        ]:
            continue  # its call is on another branch
        result = result_of(projection, started)
        is_told = (
            result is not None
            and projection.entry(result.index).details.brief != IN_BACKGROUND
        )
        name = f"[child {short_id(started.child)}]"
        later = [
            e for e in standing if isinstance(e, DeveloperMessage) and name in e.text
        ]
        assert len(later) + is_told == 1, (started, result, later)
