"""A loop of tool calls with the `openai` SDK that never outgrows the model's window."""

from typing import Any

from openai import AsyncOpenAI

import foldline


class Chat:
    """A conversation. `messages` holds all of it; each request sends the part that fits."""

    def __init__(self, client: AsyncOpenAI, model: str, window: int) -> None:
        self.client = client
        self.model = model
        self.messages: list[Any] = []
        self.compressor = foldline.Compressor(window=window, summarise=self.summarise)

    async def summarise(self, prompt: str) -> str:
        asked: list[Any] = [{"role": "user", "content": prompt}]
        answer = await self.client.chat.completions.create(
            model=self.model, messages=asked
        )
        return answer.choices[0].message.content or ""

    async def ask(self, message: dict[str, Any], tools: list[Any]) -> dict[str, Any]:
        """Send a prompt or a tool result, and return the answer as a dictionary."""
        self.messages.append(message)
        fitting = await self.compressor.compress(self.messages)
        answer = await self.client.chat.completions.create(
            model=self.model, messages=fitting.messages, tools=tools
        )
        self.messages.append(answer.choices[0].message.model_dump(exclude_none=True))
        return self.messages[-1]
