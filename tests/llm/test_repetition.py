"""An endlessly repeating answer is stopped; legitimate repetition is not."""

import pytest

from foldline.llm.growing import repeated_at_the_end
from foldline.llm.wire import LOOPED
from foldline.protocol import UserMessage, text_parts
from support.clients import answer_of, client_of, prompt, scripted_server

LOOP = "I'm just a person. "


@pytest.mark.parametrize(
    "unit", [LOOP, "The next step is to read the file.\n", "我只是一个普通的人。"]
)
def test_a_repeated_sentence_is_found_at_any_chunk_boundary(unit: str) -> None:
    for cut in range(len(unit)):
        said = ("Well. " + unit * 200)[: 6 + 150 * len(unit) + cut]
        assert repeated_at_the_end(said) == unit.strip()


@pytest.mark.parametrize(
    "text",
    [
        LOOP * 20,
        "0x00, " * 400,
        "-" * 5_000,
        "None, " * 1_000,
        "".join(f"Step {number} is done. " for number in range(300)),
        (LOOP * 100) + "And then I stopped, and said something else.",
        "| a cell | another cell | one more |\n" * 30,
    ],
    ids=["few times", "hex table", "rule", "list", "counting", "it went on", "rows"],
)
def test_tables_rules_and_progressing_text_are_not_a_loop(text: str) -> None:
    assert repeated_at_the_end(text) == ""


def test_a_loop_without_words_counts_once_it_is_very_long() -> None:
    assert repeated_at_the_end("0, " * 5_000) == "0,"


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_loop_is_stopped_and_the_received_text_is_kept(api: str) -> None:
    with scripted_server({"text": LOOP * 3_000, "chunk": 40}) as server:
        client = client_of(server, api=api)
        message = await answer_of(client, prompt())
        await client.aclose()
    assert message.stop_reason == "repeated"
    assert message.error == LOOPED.format(unit=LOOP.strip())
    assert 1_500 <= len(message.text) < 10_000


async def test_call_arguments_may_repeat() -> None:
    call = {"name": "read", "arguments": {"path": LOOP * 500}}
    with scripted_server({"tool_calls": [call]}) as server:
        client = client_of(server)
        message = await answer_of(client, [UserMessage(parts=text_parts("go"))])
        await client.aclose()
    assert message.stop_reason == "tool_calls"
    assert LOOP * 500 in message.calls[0].arguments
