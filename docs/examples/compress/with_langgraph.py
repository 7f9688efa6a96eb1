"""Compaction of LangChain's messages, as in a node of LangGraph. The state keeps all messages.

fit = fitting(window=128_000)

async def call_model(state: MessagesState):
    return {"messages": [await model.ainvoke(await fit(state["messages"]))]}
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage, convert_to_openai_messages

import foldline


def fitting(
    window: int, **options: Any
) -> Callable[[Sequence[AnyMessage]], Awaitable[list[AnyMessage]]]:
    """Return a function that fits the messages of one conversation. Options as for `foldline.Compressor`."""
    compressor = foldline.Compressor(window=window, **options)

    async def fit(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
        made = await compressor.compress(convert_to_openai_messages(messages))
        return [
            _message(written["content"], source, messages)
            for written, source in zip(made.messages, made.sources, strict=True)
        ]

    return fit


def _message(
    content: Any, source: foldline.Source, messages: Sequence[AnyMessage]
) -> AnyMessage:
    """Return the original message if it was kept, or a new one for a summary or a shortened message."""
    if source.kind == "summary":
        return HumanMessage(content)
    original = messages[source.positions[0]]
    return (
        original
        if source.kind == "kept"
        else original.model_copy(update={"content": content})
    )
