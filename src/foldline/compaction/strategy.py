"""The interface of a compaction strategy.

Defines the strategy's context, its prompts, and a model that counts its calls.
"""

import os
from collections.abc import (
    AsyncGenerator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from foldline.data import config_dir, data_dir
from foldline.llm import (
    LLM,
    Answer,
    Chunk,
    LLMError,
    Request,
    RetryChunk,
    TextChunk,
    ToolSpec,
    WrappedLLM,
)
from foldline.memory.language import Language
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    CompactionDetails,
    FoldlineError,
    Usage,
    events,
    system_words,
)
from foldline.view.budget import SMALLEST_WINDOW
from foldline.view.items import STANDING, is_preamble
from foldline.view.outline import MessageOutline
from foldline.view.tokens import estimate_tokens, message_tokens

if TYPE_CHECKING:
    from foldline.view.projection import Projection


class Originals(Mapping[int, BaseMessage]):
    """The original messages of a history, by index.

    Messages that the view replaces with a summary or a placeholder are included. Messages that the user
    dropped, cleared or rewound are not. Each message is read from disk on access.
    """

    def __init__(self, projection: "Projection") -> None:
        self._projection = projection
        self._last_index = projection.last_index
        """Index of the last entry that is included."""

    def __getitem__(self, index: int) -> BaseMessage:
        entry = self._projection.entry(index) if self._has(index) else None
        if not isinstance(entry, BaseMessage):
            raise KeyError(index)
        return entry

    def __iter__(self) -> Iterator[int]:
        for index in range(self._last_index + 1):
            outline = self._projection.outline(index)
            if isinstance(outline, MessageOutline) and self._has(index):
                yield index

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _has(self, index: int) -> bool:
        return (
            0 <= index <= self._last_index
            and self._projection.fate(index).kind in STANDING
        )


@dataclass(frozen=True, slots=True)
class CompactionContext:
    """The input of a compaction strategy.

    All sizes are in tokens.

    In the view returned by a strategy, a message with an index is an old message, kept or rewritten. A
    message without an index is new.
    """

    history: Sequence[BaseMessage]
    token_count: int
    max_context_size: int
    reserved_context_size: int
    llm: LLM
    focus: str | None = None
    keep_recent_tokens: int = 0
    """How much of the newest work to keep verbatim, in estimated tokens before calibration."""
    max_summary_tokens: int = 4_096
    pins: frozenset[int] = frozenset()
    """Indexes of messages that the new view must contain unchanged."""
    details: CompactionDetails = field(default_factory=CompactionDetails)
    """The files read and modified so far."""
    first_kept_index: int | None = None
    """Index of the first message to keep, as selected by the user; if None, the strategy decides."""
    cut_position: int | None = None
    """The planned cut, as a position in `history`; if None, the strategy decides."""
    least_hidden: int | None = None
    """Minimum size of a result to hide in an early compaction, in estimated tokens.

    None if the compaction is not early.
    """
    guidance: str | None = None
    """Instructions that the user gave for the next draft after reading `earlier_draft`."""
    earlier_draft: str | None = None
    tools: Sequence[ToolSpec] = ()
    """The tools offered in an ordinary request. They must be sent again to get a hit in the provider's cache.
    """
    tools_tokens: int = 0
    """Size of the tool schemas, in estimated tokens before calibration."""
    prefix_cached: bool = False
    """Whether the provider of `llm` has this history in its cache."""
    draft_window: int | None = None
    """Maximum size of one summary request, including its response, in tokens.

    If None, the limit is the model's window.
    """
    originals: Mapping[int, BaseMessage] = field(default_factory=dict)
    """The original messages of the entire history, by index, for strategies that quote them.

    Quotes must go into new messages, because a message with an index must stay as it is in `history`.
    """
    may_clip_unseen: bool = False
    """Whether results that the model has not seen yet may be clipped if there is no other way to make room.

    True in `foldline.compress`, and after a server has rejected a request with these results as too long.
    """
    any_form: bool = False
    """Whether a draft without sections is accepted. Functions of other programs may omit the sections."""

    @property
    def preamble(self) -> list[BaseMessage]:
        return [message for message in self.history if is_preamble(message)]

    @property
    def fixed_tokens(self) -> int:
        """Size of the messages that no compaction may change, in estimated tokens.

        These messages are the preamble and the pins.
        """
        fixed = [
            message
            for message in self.history
            if is_preamble(message) or message.index in self.pins
        ]
        return tokens_of(fixed)

    @property
    def scale(self) -> float:
        """Calibration factor: the number of reported tokens per estimated token."""
        estimate = self.tools_tokens + tokens_of(self.history)
        return max(1, self.token_count) / max(1, estimate)

    def request_tokens(self, view: Iterable[BaseMessage]) -> float:
        """Return the size of a request with this view, in calibrated tokens."""
        return self.scale * (self.tools_tokens + tokens_of(view))

    @property
    def summariser_window(self) -> int:
        """Maximum size of one summary request, including its response, in tokens."""
        return self.draft_window or min(self.max_context_size, self.llm.info.window)


def tokens_of(messages: Iterable[BaseMessage]) -> int:
    """Return the size of messages, in estimated tokens before calibration."""
    return sum(map(message_tokens, messages))


class CompactionStrategy(Protocol):
    """Rewrites a view. The engine decides when to call it."""

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None: ...


class CompactionFailed(FoldlineError):
    """A compaction failed; the message gives the reason.

    Nothing has been changed.
    """


class DraftRejected(CompactionFailed):
    """A draft cannot be used: it is empty, cut off, a tool call, or not smaller."""


@lru_cache(maxsize=64)
def load_prompt(name: str, language: Language = "en") -> str:
    """Return the text of `prompts/<name>.md`.

    If the user has provided such a file, it takes precedence.

    Raises:
        FoldlineError: the prompt does not exist or cannot be read.
    """
    folders = [config_dir(os.environ) / "prompts", data_dir("prompts")]
    candidates = list(folders)
    if language != "en":
        candidates = [*(folder / language for folder in folders), *folders]
    for folder in candidates:
        text = _read(folder / f"{name}.md")
        if text is not None:
            return text
    raise FoldlineError(
        f"The prompt {name}.md is missing from {folders[-1]}. Reinstall Foldline."
    )


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FoldlineError(
            f"The prompt {path} cannot be read: {system_words(error)}."
        ) from None
    except UnicodeDecodeError:
        raise FoldlineError(f"The prompt {path} is not UTF-8 text.") from None


Progress = Callable[[events.CompactionProgress | events.Retrying], None]


OnRequest = Callable[[str, Usage | None, int], None]
"""Called after each request with the model, the reported usage (if any) and the estimated size in tokens."""


@dataclass
class MeteredLLM(WrappedLLM):
    """Wraps a strategy's model, counting its calls and reporting their progress."""

    progress: Progress
    on_request: OnRequest = lambda *_: None
    session: str = ""
    """Name of the session, sent with each request. See `Request.session`."""
    rung: str = "strategy"
    calls: int = 0
    drafted: int = 0
    """Estimated size of the finished drafts, in tokens."""
    usage: Usage = field(default_factory=Usage)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Stream the response to a strategy's request.

        Raises:
            CompactionFailed: the model's window is too small for summaries; nothing was sent.
            LLMError: the request failed.
        """
        if self.info.window < SMALLEST_WINDOW:
            raise CompactionFailed(
                f"The model {self.info.id} cannot write summaries, because its window of "
                f"{self.info.window:,} tokens is too small. Choose another model with compaction.model."
            )
        self.calls += 1
        sent_tokens = tokens_of(request.messages)
        answer_tokens = 0
        answer = AssistantMessage(model=self.info.id)
        self._report("", 0)
        try:
            async with aclosing(
                self.llm.stream(replace(request, session=self.session))
            ) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, TextChunk):
                        answer_tokens += estimate_tokens(chunk.text)
                        self._report(chunk.text, answer_tokens)
                    elif isinstance(chunk, RetryChunk):
                        answer_tokens = 0
                        self.progress(chunk.event)
                    elif isinstance(chunk, Answer):
                        answer = chunk.message
                        self.drafted += estimate_tokens(answer.text)
                    yield chunk
        except LLMError:
            sent_tokens = 0
            answer_tokens = 0
            raise
        finally:
            self.usage += answer.usage or Usage()
            self.on_request(
                answer.model or self.info.id, answer.usage, sent_tokens + answer_tokens
            )

    def _report(self, delta: str, answer_tokens: int) -> None:
        drafted = self.drafted + answer_tokens
        self.progress(
            events.CompactionProgress(
                stage="draft", rung=self.rung, delta=delta, drafted_tokens=drafted
            )
        )
