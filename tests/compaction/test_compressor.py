"""Compaction for other programs: message dictionaries in and out, unchanged and complete."""

import asyncio
import json
import re
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import foldline
from foldline import Compressed, Compressor, FoldlineError
from foldline.compaction.compressor import SHORTEN

Chat = list[dict[str, Any]]
WINDOW = 8_000
TEXT = "\n".join(
    f"def area_{n}(width: int, height: int) -> int: return width * height + {n}"
    for n in range(40)
)
SUMMARY = "## Goal\n- rename the areas\n\n## Done\n- seven files are read"


def openai_chat(steps: int, text: str = TEXT) -> Chat:
    chat: Chat = [{"role": "system", "content": "Be kind.", "id": "s"}]
    for n in range(steps):
        function = {
            "name": "read",
            "arguments": json.dumps({"path": f"src/shape_{n}.py"}),
        }
        chat += [
            {
                "role": "user",
                "content": f"Read src/shape_{n}.py, please.",
                "metadata": {"turn": n},
            },
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": f"c{n}",
                        "type": "function",
                        "function": function,
                        "index": 0,
                    }
                ],
                "annotations": [n],
            },
            {"role": "tool", "tool_call_id": f"c{n}", "content": text, "artifact": n},
            {
                "role": "assistant",
                "content": f"It is read, number {n}.",
                "refusal": None,
            },
        ]
    return [*chat, {"role": "user", "content": "And what is the newest?"}]


def anthropic_chat(steps: int, text: str = TEXT) -> Chat:
    """Build two calls per step with their results in one message, the second time with user text."""
    chat: Chat = [{"role": "user", "content": "Read the shapes."}]
    for n in range(steps):
        calls = [
            {
                "type": "tool_use",
                "id": f"t{n}{one}",
                "name": "read",
                "input": {"path": f"{one}_{n}.py"},
            }
            for one in "ab"
        ]
        thought = {"type": "thinking", "thinking": "Hm.", "signature": "abc"}
        results: Chat = [
            {
                "type": "tool_result",
                "tool_use_id": f"t{n}{one}",
                "content": text,
                "is_error": False,
                "x": n,
            }
            for one in "ab"
        ]
        word = [
            {
                "type": "text",
                "text": f"Go on, {n}.",
                "cache_control": {"type": "ephemeral"},
            }
        ]
        chat += [
            {
                "role": "assistant",
                "content": [thought, {"type": "text", "text": f"Step {n}."}, *calls],
            },
            {"role": "user", "content": results + (word if n % 2 else [])},
        ]
    return chat


def results_in(message: dict[str, Any]) -> list[tuple[str, object]]:
    """Return the results of a message by call id."""
    if message["role"] == "tool":
        return [(message["tool_call_id"], message["content"])]
    content = message["content"] if isinstance(message["content"], list) else []
    return [
        (each["tool_use_id"], each["content"])
        for each in content
        if each["type"] == "tool_result"
    ]


def calls_in(message: dict[str, Any]) -> list[str]:
    content = message["content"] if isinstance(message["content"], list) else []
    blocks = [each["id"] for each in content if each["type"] == "tool_use"]
    return [*blocks, *(call["id"] for call in message.get("tool_calls") or ())]


def assert_honest(chat: Chat, made: Compressed) -> None:
    """Check what must hold for every result."""
    held: list[int] = []
    waiting: list[str] = []
    for message, source in zip(made.messages, made.sources, strict=True):
        held += source.positions
        if source.kind == "kept":
            assert message is chat[source.positions[0]], (
                "what stays is the very dictionary"
            )
        if source.kind == "shortened":
            (position,) = source.positions
            others = {key: value for key, value in message.items() if key != "content"}
            assert others == {
                key: value for key, value in chat[position].items() if key != "content"
            }
        for answered, _ in results_in(message):
            waiting.remove(answered)
        if message["role"] == "assistant":
            assert not waiting, "each call is answered before the next answer"
            waiting = calls_in(message)
    assert sorted(set(held)) == list(range(len(chat))), (
        "every message is there, or a summary stands for it"
    )
    assert made.messages[-1] is chat[-1]
    assert made.tokens_after <= made.tokens_before


@pytest.mark.parametrize(
    "chat",
    [openai_chat(2, "short"), anthropic_chat(2, "short"), []],
    ids=["o", "a", "-"],
)
async def test_messages_that_fit_are_returned_unchanged(chat: Chat) -> None:
    made = await foldline.compress(chat, window=WINDOW)
    assert all(a is b for a, b in zip(made.messages, chat, strict=True))
    assert (made.compacted, made.tokens_after) == (False, made.tokens_before)


@pytest.mark.parametrize(
    "chat", [openai_chat(12), anthropic_chat(8)], ids=["openai", "anthropic"]
)
@pytest.mark.parametrize(
    "summarise", [None, lambda prompt: SUMMARY], ids=["no model", "summary"]
)
async def test_messages_that_do_not_fit_are_compacted_and_not_modified_in_place(
    chat: Chat, summarise: Any
) -> None:
    before = deepcopy(chat)
    made = await foldline.compress(chat, window=WINDOW, summarise=summarise)
    assert made.compacted
    assert made.tokens_after < WINDOW * 0.8
    assert chat == before
    assert_honest(chat, made)
    assert "history_" not in json.dumps(made.messages), "there is no such tool here"


async def test_a_summary_is_a_separate_message_that_names_the_messages_it_replaces() -> (
    None
):
    prompts: list[str] = []

    async def summarise(prompt: str) -> str:
        prompts.append(prompt)
        return SUMMARY

    chat = openai_chat(12)
    made = await foldline.compress(
        chat, window=WINDOW, summarise=summarise, focus="the newest shape"
    )
    assert made.messages[0] is chat[0]
    assert made.sources[1].kind == "summary"
    assert set(made.messages[1]) == {"role", "content"}
    assert "seven files are read" in made.messages[1]["content"]
    assert "shape_0.py" in prompts[0]
    assert "the newest shape" in prompts[0]
    first_kept = made.sources[2].positions[0]
    assert made.sources[1].positions == tuple(range(1, first_kept))


async def test_a_failed_summary_leads_to_a_reported_fallback() -> None:
    def summarise(prompt: str) -> str:
        raise TimeoutError("no answer")

    chat = openai_chat(12)
    made = await foldline.compress(chat, window=WINDOW, summarise=summarise)
    assert_honest(chat, made)
    assert any("TimeoutError: no answer" in failure for failure in made.failures)


async def test_requests_between_two_compactions_grow_only_at_the_end() -> None:
    chat, sent, compactions = openai_chat(40), list[Chat](), 0
    compressor = Compressor(window=WINDOW)
    for end, message in enumerate(chat, 1):
        if message["role"] == "assistant":
            continue
        made = await compressor.compress(chat[:end])
        assert_honest(chat[:end], made)
        if sent and not made.compacted:
            assert made.messages[: len(sent[-1])] == sent[-1], (
                "a cache holds all of it but the new end"
            )
        compactions += made.compacted
        sent.append(made.messages)
    assert compactions > 2
    assert max(map(len, map(json.dumps, sent))) < 5 * WINDOW


async def test_the_programs_own_tool_reads_originals_by_the_number_in_the_view() -> (
    None
):
    chat = openai_chat(12)
    compressor = Compressor(window=WINDOW, recall="look_up")
    made = await compressor.compress(chat)
    hidden = [message for message in made.messages if "look_up(" in json.dumps(message)]
    assert hidden
    number = int(hidden[0]["content"].partition("look_up(")[2].partition(")")[0])
    assert compressor.original(number)["tool_call_id"] == hidden[0]["tool_call_id"]
    with pytest.raises(KeyError):
        compressor.original(10_000)


async def test_another_conversation_starts_from_scratch() -> None:
    compressor = Compressor(window=WINDOW)
    await compressor.compress(openai_chat(12))
    other = openai_chat(2, "another")
    made = await compressor.compress(other)
    assert all(a is b for a, b in zip(made.messages, other, strict=True))


async def test_an_already_compressed_view_can_be_passed_in_again() -> None:
    first = await foldline.compress(
        openai_chat(12), window=WINDOW, summarise=lambda _: SUMMARY
    )
    asked: list[str] = []

    def update(prompt: str) -> str:
        asked.append(prompt)
        return SUMMARY.replace("seven", "nineteen")

    chat = [*first.messages, *openai_chat(12)[1:]]
    made = await foldline.compress(chat, window=WINDOW, summarise=update)
    assert any(
        "seven files are read" in prompt.partition("<previous-summary>")[2]
        for prompt in asked
    )
    summaries = [
        message
        for message, source in zip(made.messages, made.sources, strict=True)
        if source.kind == "summary"
    ]
    assert len(summaries) == 1
    assert "nineteen" in summaries[0]["content"]
    assert_honest(chat, made)


async def test_a_forced_compaction_happens_below_the_threshold() -> None:
    chat = openai_chat(6, TEXT[:1_200])
    assert not (await foldline.compress(chat, window=128_000)).compacted
    made = await foldline.compress(
        chat, window=128_000, summarise=lambda _: SUMMARY, force=True
    )
    assert made.compacted
    assert_honest(chat, made)


async def test_tokens_outside_the_messages_count_towards_the_threshold() -> None:
    chat = openai_chat(4)
    assert not (await foldline.compress(chat, window=WINDOW)).compacted
    assert (await foldline.compress(chat, window=WINDOW, overhead=4_000)).compacted


async def test_an_unknown_role_is_refused_with_its_position() -> None:
    with pytest.raises(FoldlineError, match=r"Message 1 has the role 'robot'"):
        await foldline.compress(
            [{"role": "user", "content": "Hi"}, {"role": "robot"}], window=WINDOW
        )


def fresh_results(count: int, text: str, request: str = "Read them.") -> Chat:
    calls = [
        {
            "id": f"c{n}",
            "type": "function",
            "function": {"name": "read", "arguments": "{}"},
        }
        for n in range(count)
    ]
    results: Chat = [
        {"role": "tool", "tool_call_id": f"c{n}", "content": text} for n in range(count)
    ]
    return [
        {"role": "user", "content": request},
        {"role": "assistant", "content": None, "tool_calls": calls},
        *results,
    ]


@pytest.mark.parametrize(
    "chat",
    [
        fresh_results(2, TEXT * 8),
        fresh_results(10, TEXT * 2),
        fresh_results(1, TEXT * 8, request="Mind this word. " * 700),
        [*openai_chat(12), *fresh_results(3, TEXT * 8)[1:]],
        anthropic_chat(1, TEXT * 8),
    ],
    ids=["two large", "ten", "beside a long request", "behind old work", "anthropic"],
)
async def test_new_results_that_overfill_the_window_together_are_shortened(
    chat: Chat,
) -> None:
    made = await foldline.compress(chat, window=WINDOW)
    assert made.compacted
    assert made.tokens_after < WINDOW
    assert {source.kind for source in made.sources[-2:]} <= {"shortened", "kept"}
    assert [each for message in made.messages for each in results_in(message)][-1][
        0
    ] in str(chat[-1])
    assert "history_" not in json.dumps(made.messages)


async def test_new_results_that_fit_stay_complete_at_the_expense_of_older_messages() -> (
    None
):
    chat = [*openai_chat(12), *fresh_results(2, TEXT)[1:]]
    made = await foldline.compress(chat, window=WINDOW)
    assert made.compacted
    assert made.messages[-2:] == chat[-2:]


@pytest.mark.parametrize(
    "chat",
    [
        [{"role": "user", "content": TEXT * 12}],
        [{"role": "system", "content": TEXT * 12}, *openai_chat(1, "short")[1:]],
        [
            *openai_chat(9)[:-1],
            {"role": "user", "content": [{"type": "text", "text": TEXT}] * 12},
        ],
    ],
    ids=["a prompt", "a system prompt", "a prompt of many blocks"],
)
async def test_a_message_that_cannot_be_made_to_fit_is_refused_by_name(
    chat: Chat,
) -> None:
    largest = max(range(len(chat)), key=lambda position: len(str(chat[position])))
    compressor = Compressor(window=WINDOW)
    with pytest.raises(FoldlineError, match=re.escape(SHORTEN.format(largest))):
        await compressor.compress(chat)
    made = await compressor.compress(openai_chat(2, "short"))
    assert not made.compacted


async def test_plain_prose_is_accepted_as_a_summary() -> None:
    asked: list[str] = []
    prose = (
        "The shapes were read, one after another; next comes renaming area to surface everywhere. "
        * 5
    )

    def summarise(prompt: str) -> str:
        asked.append(prompt)
        return prose

    made = await foldline.compress(
        openai_chat(6), window=16_000, summarise=summarise, force=True
    )
    assert (len(asked), made.failures) == (1, ())
    assert prose.strip() in made.messages[1]["content"]
    again = [*made.messages, *openai_chat(6, TEXT)[1:]]
    later = await foldline.compress(again, window=16_000, force=True)
    assert "renaming area to surface" in later.messages[1]["content"], (
        "an extract keeps it"
    )


@pytest.mark.parametrize(
    "summarise",
    [
        lambda prompt: prompt,
        lambda prompt: "word " * 90_000,
        lambda prompt: None,
        lambda prompt: b"bytes",
    ],
    ids=["echo", "endless", "nothing", "bytes"],
)
async def test_an_unusable_summary_is_requested_once_before_a_fallback(
    summarise: Any,
) -> None:
    asked: list[str] = []

    def counted(prompt: str) -> Any:
        asked.append(prompt)
        return summarise(prompt)

    chat = openai_chat(12)
    made = await foldline.compress(chat, window=WINDOW, summarise=counted)
    assert len(asked) == 1
    assert made.tokens_after < WINDOW
    assert "`summarise` returned " in made.failures[0]
    assert_honest(chat, made)


blocks = st.one_of(
    st.just({"type": "text", "text": "words " * 300}),
    st.just({"type": "image", "source": {"type": "base64", "data": "aGk="}}),
    st.just({"type": "document", "source": {"data": "x" * 4_000}, "title": "a"}),
    st.just({"type": "audio"}),
    st.just("only text"),
)


def message(
    content: st.SearchStrategy[Any], *roles: str, **more: str
) -> st.SearchStrategy[Chat]:
    fixed = {"role": st.sampled_from(roles), "content": content}
    return st.fixed_dictionaries(
        fixed | {key: st.just(value) for key, value in more.items()}
    )


messages = st.one_of(
    message(st.lists(blocks, max_size=3), "user"),
    message(st.text(max_size=40), "user", name="n"),
    message(st.none() | st.just("said " * 200), "assistant"),
    message(st.just("of nobody"), "tool", tool_call_id="z"),
    message(st.just("Mind this."), "system", "developer"),
)


@given(st.lists(messages, max_size=30), st.booleans(), st.booleans())
def test_no_message_is_lost_for_any_conversation(
    random: Chat, with_model: bool, force: bool
) -> None:
    chat = [*random, *openai_chat(7)[1:]]
    before = deepcopy(chat)
    summarise = (lambda _: SUMMARY) if with_model else None
    made = asyncio.run(
        foldline.compress(chat, window=WINDOW, summarise=summarise, force=force)
    )
    assert chat == before
    held = {position for source in made.sources for position in source.positions}
    assert held == set(range(len(chat)))
    assert made.messages[-1] is chat[-1]


def test_the_compressor_imports_few_modules_and_neither_textual_nor_network_code(
    tmp_path: Path,
) -> None:
    program = """
import asyncio, sys, foldline
chat = [{"role": "user", "content": "word " * 200}, {"role": "assistant", "content": "said " * 200}] * 40
made = asyncio.run(foldline.compress(chat + [{"role": "user", "content": "now"}], window=8_000))
assert made.compacted
print(*sys.modules)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    modules = ran.stdout.split()
    assert sum(name.partition(".")[0] == "foldline" for name in modules) <= 57
    assert not {"textual", "openai", "httpx2", "sqlite3", "aiofiles"} & set(modules)
    assert list(tmp_path.iterdir()) == []
