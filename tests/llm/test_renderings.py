"""Incremental rendering of requests over all three APIs: nothing is rendered twice, and the result is
the same as for each request alone."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.llm import ModelInfo, Request
from foldline.llm.chat import ChatWire
from foldline.llm.messages import MessagesWire
from foldline.llm.providers import PROVIDERS
from foldline.llm.rendering import MessageRendering
from foldline.llm.responses import ResponsesWire
from foldline.llm.wire import DEFAULT, Wire
from foldline.protocol import AssistantMessage, BaseMessage, ThinkingPart
from foldline.view.calls import RunningPairs, paired
from foldline.view.projection import Projection
from support.history import call
from support.stories import Story

MODELS = "anthropic/claude-sonnet-5-5", "other"
WIRES: dict[str, Callable[[], Wire]] = {
    **{
        dialect: lambda dialect=dialect: ChatWire(
            replace(PROVIDERS["openrouter"], dialect=dialect)
        )
        for dialect in (
            "openai",
            "strict",
            "strict-thinking",
            "mistral",
            "gemini",
            "openrouter",
        )
    },
    "responses": lambda: ResponsesWire(PROVIDERS["openai-responses"], DEFAULT),
    "messages": lambda: MessagesWire(PROVIDERS["anthropic"], DEFAULT),
}
STEPS = (
    *(
        "prompt",
        "answer",
        "tools",
        "tools",
        "interrupted",
        "thinking",
        "picture",
        "note",
        "shell",
    ),
    *("compaction", "hide", "drop", "undo", "clear", "model"),
)


def add_signed_step(story: Story, wire: str) -> None:
    """Append an answer whose signed reasoning only its own model and server accept."""
    sealed = {"type": "reasoning", "id": f"rs_{story.last}", "encrypted_content": "x"}
    signature = json.dumps(sealed) if wire == "responses" else "sig"
    thought = ThinkingPart(text="Hm.", signature=signature, signed_by=MODELS[0])
    said = call("read", f"signed-{story.last}", path="b.py")
    story.add(AssistantMessage(parts=(thought, said), stop_reason="tool_calls"))
    story.result("ok", call_id=said.call_id)


def take(story: Story, step: str, wire: str, chosen: int) -> None:
    """Extend the history by one event."""
    prompts = [entry.index for entry in story.entries if entry.type == "user"]
    results = [entry.index for entry in story.entries if entry.type == "tool_result"]
    match step:
        case "prompt":
            story.user(f"Now part {story.last}.")
        case "answer":
            story.assistant("Done.", thinking="So it is.")
        case "tools":
            calls = [
                call("read", path=f"a{number}.py") for number in range(1 + chosen % 3)
            ]
            story.assistant("I look.", calls=calls)
            for _ in calls:
                story.result("x = 1\n", images=chosen % 2)
        case "interrupted":
            story.assistant(
                calls=[call("bash", command="make"), call("ls", path=".")]
            ).result("a.py")
        case "thinking":
            add_signed_step(story, wire)
        case "picture":
            story.user("Look.", images=1)
        case "note":
            story.notice("The tools are others now.")
        case "shell":
            story.add(story.entries[prompts[0]].model_copy(update={"origin": "shell"}))
        case "compaction" if len(prompts) > 1:
            cut = prompts[1 + chosen % (len(prompts) - 1)]
            story.compaction(cut, f"What came before {cut}.", first=prompts[0])
        case "hide" | "drop" if results:
            story.edit(
                "hide" if step == "hide" else "drop", results[chosen % len(results)]
            )
        case "undo" if story.entries[-1].type in ("compaction", "edit", "clear"):
            story.undo()
        case "clear" if len(prompts) > 2:
            story.clear().user("Anew.")
        case _:
            pass


def body(wire: Wire, messages: list[BaseMessage], model: str) -> str:
    return json.dumps(
        wire.body(Request(messages, session="s"), model), ensure_ascii=False
    )


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("name", WIRES)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(STEPS), st.integers(0, 20)), min_size=1, max_size=25
    )
)
def test_incremental_requests_of_any_history_equal_separate_ones(
    name: str, steps: list[tuple[str, int]]
) -> None:
    """Byte for byte, across compactions, edits, undos, clears and changes of the model."""
    story = Story().system("You are careful.").user("Begin.")
    wire, pairs, projection = WIRES[name](), RunningPairs(), Projection()
    taken, model = 0, MODELS[0]
    for step, chosen in steps:
        take(story, step, name, chosen)
        model = MODELS[chosen % 2] if step == "model" else model
        for entry in story.entries[taken:]:
            projection.append(entry)
        taken = len(story.entries)
        messages = pairs.of(projection.view)
        assert messages == paired(item.message for item in projection.view)
        assert body(wire, messages, model) == body(WIRES[name](), messages, model)
        calls = {
            each.call_id
            for message in messages
            if isinstance(message, AssistantMessage)
            for each in message.calls
        }
        expected = wire._expected(Request(messages), ModelInfo(model, 9_000))
        assert set(expected.used_ids) == calls
        assert expected.stem == f"call_{max(message.index for message in messages)}"


@pytest.mark.parametrize("name", WIRES)
def test_only_the_new_part_of_a_request_is_rendered(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    seen: list[BaseMessage] = []
    renders = MessageRendering.add
    monkeypatch.setattr(
        MessageRendering, "add", lambda self, m: (seen.append(m), renders(self, m))
    )
    story = Story().system("s").user("go")
    wire, pairs, projection = WIRES[name](), RunningPairs(), Projection()
    taken = 0
    for _ in range(20):
        for entry in story.entries[taken:]:
            projection.append(entry)
        taken = len(story.entries)
        request = Request(pairs.of(projection.view))
        wire.reading(request, ModelInfo(MODELS[0], 9_000))
        wire.body(request, MODELS[0])
        story.step("read", "x = 1", path="a.py")
    assert len(seen) == taken


def test_paired_messages_are_not_read_again() -> None:
    story = Story().system("s").user("go")
    for _ in range(10):
        story.step("read", "x = 1", path="a.py")
    looked_at: list[Any] = []

    class Source:
        def message(self, outline: Any) -> BaseMessage:
            looked_at.append(outline.index)
            return story.entries[outline.index]  # type: ignore[return-value]

    view = [replace(item, source=Source()) for item in story.projection().view]
    pairs = RunningPairs()
    for end in range(2, len(view) + 1, 2):
        pairs.of(view[:end])
    assert len(looked_at) <= 2 * len(view)


@pytest.mark.parametrize("name", WIRES)
def test_a_request_in_flight_is_not_changed_by_the_next_one(name: str) -> None:
    story = Story().system("s").user("go").step("read", "x", path="a.py")
    wire = WIRES[name]()
    sent = []
    for _ in range(4):
        messages = paired(item.message for item in story.projection().view)
        before = wire.body(Request(messages), MODELS[0])
        sent.append((before, copy.deepcopy(before)))
        story.user("more").user("and more").step("read", "x", path="a.py")
    assert all(body == as_it_left for body, as_it_left in sent)
