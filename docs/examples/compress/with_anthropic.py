"""A conversation with the `anthropic` SDK. Its messages hold blocks of text, calls, results and thinking."""

from typing import Any

from anthropic import AsyncAnthropic

import foldline


class Chat:
    """A conversation. `messages` holds all of it; each request sends the part that fits."""

    def __init__(
        self, client: AsyncAnthropic, model: str, window: int, system: str
    ) -> None:
        self.client = client
        self.model = model
        self.system = system
        self.messages: list[Any] = []
        beside = foldline.estimate_text_tokens(system)
        self.compressor = foldline.Compressor(
            window=window, overhead=beside, summarise=self.summarise
        )

    async def summarise(self, prompt: str) -> str:
        asked: list[Any] = [{"role": "user", "content": prompt}]
        answer = await self.client.messages.create(
            model=self.model, max_tokens=4_096, messages=asked
        )
        return "".join(block.text for block in answer.content if block.type == "text")

    async def ask(self, content: Any, tools: list[Any]) -> dict[str, Any]:
        """Send a prompt, or the blocks of tool results, and return the answer as a dictionary."""
        self.messages.append({"role": "user", "content": content})
        fitting = await self.compressor.compress(self.messages)
        answer = await self.client.messages.create(
            model=self.model,
            max_tokens=4_096,
            system=self.system,
            messages=fitting.messages,
            tools=tools,
        )
        blocks = [block.model_dump(exclude_none=True) for block in answer.content]
        self.messages.append({"role": "assistant", "content": blocks})
        return self.messages[-1]
