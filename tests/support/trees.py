"""Sessions with subagents: a model that begins them, and what holds of a whole tree."""

from collections.abc import AsyncGenerator
from pathlib import Path

from foldline.context.invariants import broken, dangling
from foldline.context.proof import prove
from foldline.history import Session, children_of, spawned_of, tree_of
from foldline.llm import Chunk, Request
from foldline.protocol import Subagent, ToolResultMessage
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
