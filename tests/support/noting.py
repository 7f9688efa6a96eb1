"""A scripted model that writes the levels of a hierarchy: a note on each turn, a milestone for each topic."""

import re
from collections.abc import AsyncGenerator

from foldline.llm import Chunk, Request

from .llm import ScriptedLLM

_TAGGED = re.compile(r'<(turn|topic) number="(\d+)" tokens="(\d+)">\n(.*?)\n</\1>', re.DOTALL)
_ASKED = re.compile(r"(?:\[User\]|- (?:Asked|Done)): (.{0,40})")


class NotingLLM(ScriptedLLM):
    """Plays its script first; then it notes what was asked, and writes overviews with a number."""

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        if not self._script:
            self._script.append(self.answer_to(request.messages[-1].text))
        async for chunk in super().stream(request):
            yield chunk

    def answer_to(self, prompt: str) -> str:
        tagged = _TAGGED.findall(prompt)
        if not tagged:
            return f"## Goal\n- overview {len(self.requests) + 1}"
        word = {"turn": "Asked", "topic": "Done"}
        return "\n".join(
            f"### {level.capitalize()} {number}\n- {word[level]}: {' + '.join(_ASKED.findall(text))[:300]}"
            for level, number, _, text in tagged
        )

    def asked_for(self, level: str) -> list[str]:
        """The texts of the turns or topics that the requests so far held, in order."""
        found = (match for prompt in self.prompts for match in _TAGGED.findall(prompt))
        return [text for kind, _, _, text in found if kind == level]

    def forget(self) -> None:
        """The requests so far: what is asked from now on counts."""
        self.requests.clear()
