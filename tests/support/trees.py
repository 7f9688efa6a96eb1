"""Sessions with subagents: a model that begins them, and what holds of a whole tree."""

from collections.abc import AsyncGenerator
from pathlib import Path

from foldline.agent import Agent
from foldline.context.invariants import broken, dangling
from foldline.context.proof import prove
from foldline.context.subagents import IN_BACKGROUND, result_of
from foldline.context.view import STANDING
from foldline.history import Session, children_of, short_id, spawned_of, tree_of
from foldline.llm import Chunk, Request
from foldline.protocol import AssistantMessage, DeveloperMessage, Subagent, ToolResultMessage
from support.agents import PlayedLLM, calling


class Busy(PlayedLLM):
    """Begins children where a prompt says so, by its first word; a child calls a tool, and answers."""

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        newest = request.messages[-1]
        if request.tools and newest.type == "user":
            word = newest.text.split()[0]
            tasks = [
                ("task", {"prompt": f"child {n}: {'x' * 400}"}) for n in range(2 if word == "two" else 1)
            ]
            begin = calling(*tasks, stem=f"{len(self.requests)}-")
            look = calling(("ls", {"path": "."}), stem=f"{len(self.requests)}-")
            self.script.append({"spawn": begin, "two": begin, "child": look}.get(word, "said"))
        async for chunk in super().stream(request):
            yield chunk


def check_tree(events: Path, *, torn: bool = False) -> int:
    """Fails where a history is broken, a request is not proved, or a child is not its parent's; how many
    sessions there are. `torn`: records may be cut off, as after a kill."""
    tree = list(tree_of(events))
    for path in tree:
        session = Session.open(path)
        assert torn or not session.damage
        assert not broken(session.projection), broken(session.projection)
        assert not dangling(session.projection), dangling(session.projection)
        assert all(proof.holds for proof in prove(session.entries))
        begun = {entry.child: entry for entry in session.entries if isinstance(entry, Subagent)}
        children = {child.parent.name: child for child in children_of(path)}
        for name, child in children.items():
            entry = begun[name]
            spawned = spawned_of(Session.open(child).header)
            assert spawned is not None
            said = (spawned.session, spawned.call, spawned.agent)
            assert said == (session.id, entry.call_id, entry.agent)
        results = (entry for entry in session.entries if isinstance(entry, ToolResultMessage))
        answered = {entry.details.child for entry in results if entry.details.child}
        assert answered <= children.keys()
    return len(tree)


async def check_told(events: Path) -> None:
    """Asks the model once more, as the next process does. Fails where it has not heard of each subagent on
    its branch exactly once then: by the result of the call, or by a message that came later."""
    agent = Agent(Session.open(events), llm=Busy(), approvals="all")
    try:
        await agent.prompt("talk now")
    finally:
        await agent.aclose()
    projection = agent.session.projection
    standing = [e for e in agent.session.entries if projection.fate(e.index).kind in STANDING]
    for started in projection.subagents:
        asked = [e for e in standing if isinstance(e, AssistantMessage) and e.index < started.index]
        if not asked or started.call_id not in [call.call_id for call in asked[-1].calls]:
            continue  # its call is on a branch that was left
        result = result_of(projection, started)
        is_told = result is not None and projection.entry(result.index).details.brief != IN_BACKGROUND
        name = f"[child {short_id(started.child)}]"
        later = [e for e in standing if isinstance(e, DeveloperMessage) and name in e.text]
        assert len(later) + is_told == 1, (started, result, later)
