"""A model with a five-minute prompt cache, on a clock set by tests."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from foldline.history import Session
from foldline.llm import Answer, Request
from foldline.protocol import AssistantMessage, CacheTerms
from support.live import StreamingLLM

LIFE = 300
PRICED = "claude-sonnet-5-5"
LONG = "All there is to know about it, again and again. " * 1_100
"""A prompt of about 14,000 tokens."""


class CachingLLM(StreamingLLM):
    """Scripted model that reports the previous request as cached."""

    def __init__(
        self,
        *script: object,
        model: str = PRICED,
        life: int = LIFE,
        window: int = 128_000,
    ) -> None:
        super().__init__(*script, window=window)  # type: ignore[arg-type]
        self.info = replace(
            self.info, id=model, cache=CacheTerms(life=life) if life else None
        )
        self._kept = 0

    def _answer(self, request: Request, message: AssistantMessage) -> Answer:
        answer = super()._answer(request, message)
        usage = answer.message.usage
        assert usage is not None
        cached, self._kept = min(self._kept, usage.input), usage.input
        return Answer(
            answer.message.model_copy(
                update={"usage": usage.model_copy(update={"cached": cached})}
            )
        )


@dataclass
class Hours:
    """A wall clock moved by tests."""

    time: datetime = datetime(2026, 11, 24, 9, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def pass_time(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


def session_on(clock: Hours, folder: Path) -> Session:
    """Create a session that dates its entries by this clock."""
    folder.mkdir(exist_ok=True, parents=True)
    home = folder.parent / f"{folder.name}-home"
    return Session.create(
        folder, home=home, now=clock, session_id="20261124-090000-abcd"
    )
