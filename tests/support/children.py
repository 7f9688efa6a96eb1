"""A session with three subagents, and their own sessions.

One has answered, one is running, one was started in the background.
"""

from collections.abc import Iterator
from pathlib import Path

from foldline.history.children import child_events
from foldline.protocol import (
    DeveloperMessage,
    SessionHeader,
    Subagent,
    dump_entry,
    events,
    text_parts,
)
from support.history import call
from support.request_stories import START, RequestStory

PARENT = "20260611-140200-parent"
CALLERS = "20260611-140300-aaaaaa"
TESTS = "20260611-140301-bbbbbb"
DOCS = "20260611-140302-cccccc"
TASKS = {
    CALLERS: ("explore", "Find every caller of insert_or_get"),
    TESTS: ("general", "Run the tests of the orders"),
    DOCS: ("explore", "What do the docs say about retries?"),
}


def parent() -> RequestStory:
    """The parent session: the first subagent has answered, the others are running."""
    story = (
        RequestStory()
        .system("Foldline system prompt")
        .user("Make the retry idempotent. Ask around first.")
    )
    calls = [
        call("task", agent=agent, prompt=f"{title}\nAll of them.")
        for agent, title in TASKS.values()
    ]
    story.ask("I send three.", *calls, reported=900)
    answer = next(
        entry for entry in reversed(story.entries) if entry.type == "assistant"
    )
    for child, tool_call in zip(TASKS, answer.calls, strict=True):  # type: ignore[attr-defined]
        agent, title = TASKS[child]
        story.add(
            Subagent(child=child, call_id=tool_call.call_id, agent=agent, title=title)
        )
    return story.answer(
        "orders.py and cancel.py call it.\n" * 20, brief="3 steps, 12.0k tokens"
    )


def finished_parent() -> RequestStory:
    """The parent session later: the second subagent has answered, the third failed."""
    story = parent().answer(
        "The agent general works on in the background.", brief="in the background"
    )
    story.answer("[explore did not finish: it gave no answer]", brief="1 step ✗")
    story.ask("One is still out.", reported=1_800).user("Wait for it.")
    body = f"The agent general has answered:\n\nThey pass.\n[child {TESTS.rpartition('-')[2]}]"
    story.add(DeveloperMessage(parts=text_parts(body)))
    return story.ask("All are back.", reported=2_000)


def child(number: int = 0) -> RequestStory:
    """A subagent's session: two requests, 2,940 tokens."""
    title = [*TASKS.values()][number][1]
    story = RequestStory().system("You look things up.").user(f"{title}\nAll of them.")
    story.ask("I look.", call("grep", pattern="insert_or_get"), reported=900).answer(
        "hits\n" * 90, brief="90"
    )
    return story.ask("orders.py and cancel.py call it.", reported=2_000)


def write_session(folder: Path, story: RequestStory) -> Path:
    """Write the session and its subagents to disk; return its event file."""
    path = folder / PARENT / "events.jsonl"
    write(path, PARENT, story)
    for number, name in enumerate(TASKS):
        write(child_events(path, name), name, child(number))
    return path


def write(path: Path, session: str, story: RequestStory) -> None:
    header = SessionHeader(id=session, created_at=START, cwd="/work")
    path.parent.mkdir(parents=True)
    lines = [header.model_dump_json().encode(), *map(dump_entry, story.entries)]
    path.write_bytes(b"".join(line + b"\n" for line in lines))


def progress_events() -> Iterator[events.SubagentProgress]:
    """Progress events: one subagent done, one running, one waiting for the user."""
    calls = [entry.call_id for entry in parent().entries if isinstance(entry, Subagent)]
    states = {
        CALLERS: ("done", 3, 12_000, ""),
        TESTS: ("waiting", 1, 2_800, "bash pytest -q tests/test_orders.py"),
        DOCS: ("running", 14, 43_000, "read docs/api/orders.md"),
    }
    for call_id, (name, (state, steps, tokens, doing)) in zip(
        calls, states.items(), strict=True
    ):
        agent, title = TASKS[name]
        yield events.SubagentProgress(
            call_id=call_id,
            child=name,
            agent=agent,
            title=title,
            state=state,  # type: ignore[arg-type]
            steps=steps,
            tokens=tokens,
            doing=doing,
        )
