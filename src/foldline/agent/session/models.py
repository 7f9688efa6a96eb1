"""An agent's models: their clients, their context windows, and the fallbacks."""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from foldline.agent.settings.api_keys import Mask, mask_of
from foldline.history import Session
from foldline.llm import LLM, LLMError
from foldline.past.proof import RunningDigest
from foldline.protocol import FoldlineError
from foldline.protocol.events import WindowLearned
from foldline.view.calls import RunningPairs
from foldline.view.window import WindowProof

from .event_stream import EventStream

NO_CONNECT = (
    "This agent cannot connect to the model {model}: it was created without `connect`."
)

Connect = Callable[[str], LLM]
"""Returns a client for a model, given its name.

May run a command to get the key: do not call it on the event loop.
"""


def no_other_model(model: str) -> LLM:
    raise FoldlineError(NO_CONNECT, model=model)


@dataclass
class Models:
    """The clients of the session's model and of the summary model, and facts about the models."""

    session: Session
    events: EventStream
    llm: LLM
    connect: Connect = no_other_model
    summary_llm: LLM | None = None
    """Model for summaries; None for the session's model."""
    fallback: Sequence[str] = ()
    """Models to switch to when a model fails permanently, as `MODEL@PROVIDER`, in order."""
    pairs: RunningPairs = field(default_factory=RunningPairs)
    digests: RunningDigest = field(default_factory=RunningDigest)
    """Digests of the requests, computed incrementally like `pairs`."""
    picture_warnings: dict[str, int] = field(default_factory=dict)
    """Index of the newest entry whose images the user was warned about, by model."""
    _warned: set[str] = field(default_factory=set)
    _preparing: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def id(self) -> str:
        return self.llm.info.id

    @property
    def writer(self) -> LLM:
        """The model that writes summaries."""
        return self.summary_llm or self.llm

    @property
    def mask(self) -> Mask:
        """Removes the current API keys from text."""
        return mask_of(os.environ)

    @property
    def window(self) -> int:
        """Context window of the model, in tokens."""
        return self.window_of(self.llm)

    def window_of(self, llm: LLM) -> int:
        """Return a model's window in tokens. It may be stated, proven or guessed."""
        if llm.info.guessed:
            return self.window_proof(llm).window(llm.info.window)
        return llm.info.window

    @property
    def window_is_assumed(self) -> bool:
        """Whether the window is a guess that has not been confirmed."""
        return self.llm.info.guessed and not self.window_proof(self.llm).stated

    def window_proof(self, llm: LLM) -> WindowProof:
        """Return the limits of a model's window that earlier requests have proven."""
        meter = self.session.projection.meter
        return meter.window_proof(llm.info.id if llm.info.named else meter.model)

    async def learn_window(self) -> None:
        """Ask the server for the model's window if it is not known."""
        async with self._preparing:
            info = self.llm.info
            with suppress(LLMError):
                if await self.llm.prepare() != info:
                    self.events.emit(WindowLearned())

    async def prepare(self) -> None:
        """Prepare the model for the first prompt.

        Raises:
            LLMError: the model cannot be reached, and there is no fallback.
        """
        try:
            await self.llm.prepare()
        except LLMError:
            if not self.fallback:
                raise

    def warn_once(self, text: str) -> None:
        """Warn about the current model, at most once per model."""
        if self.id not in self._warned:
            self._warned.add(self.id)
            self.events.warn(text)
