"""What a compaction strategy is, and what it is given: context, prompts, a model whose calls are counted."""

import os
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from foldline.context.budget import SMALLEST_WINDOW
from foldline.context.language import Language
from foldline.context.outline import MessageOutline
from foldline.context.tokens import estimate_tokens, message_tokens
from foldline.context.view import STANDING, is_preamble
from foldline.data import config_dir, data_dir
from foldline.llm import LLM, Answer, Chunk, LLMError, ModelInfo, Request, RetryChunk, TextChunk, ToolSpec
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    CompactionDetails,
    FoldlineError,
    Usage,
    events,
    system_words,
)

if TYPE_CHECKING:
    from foldline.context.projection import Projection


class Originals(Mapping[int, BaseMessage]):
    """The messages of a history as they came, by index: also what a summary, a placeholder or nothing at all
    stands for in the view. What the user dropped, cleared or went back behind is not among them. Each is read
    from the disk when it is looked at."""

    def __init__(self, projection: "Projection") -> None:
        self._projection = projection
        self._end = projection.last_index
        """What the history gets from now on is no part of it."""

    def __getitem__(self, index: int) -> BaseMessage:
        entry = self._projection.entry(index) if self._holds(index) else None
        if not isinstance(entry, BaseMessage):
            raise KeyError(index)
        return entry

    def __iter__(self) -> Iterator[int]:
        outlines = (self._projection.outline(index) for index in range(self._end + 1))
        messages = (each.index for each in outlines if isinstance(each, MessageOutline))
        return filter(self._holds, messages)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _holds(self, index: int) -> bool:
        return 0 <= index <= self._end and self._projection.fate(index).kind in STANDING


@dataclass(frozen=True, slots=True)
class CompactionContext:
    """What a strategy works with. All sizes in tokens. A message that comes back with its index is kept or
    replaced, one without is new."""

    history: Sequence[BaseMessage]
    token_count: int
    max_context_size: int
    reserved_context_size: int
    llm: LLM
    focus: str | None = None
    keep_recent_tokens: int = 0
    """Of the newest work to keep verbatim, in estimated tokens before calibration."""
    max_summary_tokens: int = 4_096
    pins: frozenset[int] = frozenset()
    """Indices of messages that must come back as they are."""
    details: CompactionDetails = field(default_factory=CompactionDetails)
    """The files read and modified so far."""
    first_kept_index: int | None = None
    """Where the user put the cut; None leaves it to the strategy."""
    cut_position: int | None = None
    """Where the plan cuts `history`; None leaves it to the strategy."""
    least_hidden: int | None = None
    """Nothing is due yet: only results of so many estimated tokens, before calibration, are worth hiding."""
    guidance: str | None = None
    """What the user wants done better than in `earlier_draft`."""
    earlier_draft: str | None = None
    tools: Sequence[ToolSpec] = ()
    """Those of an ordinary request: what repeats it is served from the provider's cache."""
    tools_tokens: int = 0
    """Estimate of their schemas, before calibration."""
    prefix_cached: bool = False
    """Whether `llm` has just been sent this history, by a provider that caches what requests share."""
    draft_window: int | None = None
    """Most tokens one request of a draft may take with its answer; None: the model's window."""
    originals: Mapping[int, BaseMessage] = field(default_factory=dict)
    """The messages of the whole history as they came, by index, to be read: no summary has to be made of a
    summary. A result holds of them what the view holds; other texts are quoted in new messages."""
    may_clip_unseen: bool = False
    """Whether results that no request has carried yet may be clipped if nothing else makes room: a server
    refused theirs as too long, or another program handed them in, of whatever size."""
    any_form: bool = False
    """Whether notes without sections are taken: another program's function may write prose."""

    @property
    def preamble(self) -> list[BaseMessage]:
        return [message for message in self.history if is_preamble(message)]

    @property
    def scale(self) -> float:
        """Tokens as reported usage counts them, for each estimated one."""
        return max(1, self.token_count) / max(1, self.tools_tokens + tokens_of(self.history))

    def request_tokens(self, view: Iterable[BaseMessage]) -> float:
        """Tokens of a request with this view, as reported usage counts them."""
        return self.scale * (self.tools_tokens + tokens_of(view))

    @property
    def summariser_window(self) -> int:
        """Most tokens one request of a draft may take with its answer."""
        return self.draft_window or min(self.max_context_size, self.llm.info.window)


def tokens_of(messages: Iterable[BaseMessage]) -> int:
    """Estimated tokens, before calibration."""
    return sum(map(message_tokens, messages))


class CompactionStrategy(Protocol):
    """Rewrites a view. When to run it is not its business."""

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None: ...


class CompactionFailed(FoldlineError):
    """A compaction that could not be done. Nothing has changed; the sentence says why."""


class DraftRejected(CompactionFailed):
    """A model's draft that must not replace anything: empty, cut off, a tool call, not smaller."""


@lru_cache(maxsize=64)
def load_prompt(name: str, language: Language = "en") -> str:
    """The text of `prompts/<name>.md`.

    Raises:
        FoldlineError: there is no such prompt, or it cannot be read.
    """
    folders = [config_dir(os.environ) / "prompts", data_dir("prompts")]
    languages = [folder / language for folder in folders] if language != "en" else []
    for folder in [*languages, *folders]:
        text = _read(folder / f"{name}.md")
        if text is not None:
            return text
    raise FoldlineError(f"The prompt {name}.md is missing from {folders[-1]}: reinstall Foldline.")


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FoldlineError(f"The prompt {path} cannot be read: {system_words(error)}.") from None
    except UnicodeDecodeError:
        raise FoldlineError(f"The prompt {path} is not UTF-8 text.") from None


Progress = Callable[[events.CompactionProgress | events.Retrying], None]


OnRequest = Callable[[str, Usage | None, int], None]
"""Hears of a request that has ended: the model, what its server reports, and else the estimated tokens."""


@dataclass
class MeteredLLM:
    """A strategy's model, watched."""

    llm: LLM
    progress: Progress
    on_request: OnRequest = lambda *_: None
    session: str = ""
    """Goes with each request: see `Request.session`."""
    rung: str = "strategy"
    calls: int = 0
    drafted: int = 0
    """Estimated tokens of the drafts that ended."""
    usage: Usage = field(default_factory=Usage)

    @property
    def info(self) -> ModelInfo:
        return self.llm.info

    @property
    def dialect(self) -> str:
        return self.llm.dialect

    async def prepare(self) -> ModelInfo:
        return await self.llm.prepare()

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """The answer to a request of the strategy's.

        Raises:
            CompactionFailed: the model cannot write summaries. It is not asked.
            LLMError: it could not be asked.
        """
        if self.info.window < SMALLEST_WINDOW:
            raise CompactionFailed(
                f"The model {self.info.id} cannot write summaries: its window of {self.info.window:,} tokens "
                "is too small. Choose another one with compaction.model."
            )
        self.calls += 1
        growing, estimated = 0, tokens_of(request.messages)
        answer = AssistantMessage(model=self.info.id)
        self._tell("", 0)
        try:
            async with aclosing(self.llm.stream(replace(request, session=self.session))) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, TextChunk):
                        growing += estimate_tokens(chunk.text)
                        self._tell(chunk.text, growing)
                    elif isinstance(chunk, RetryChunk):
                        growing = 0
                        self.progress(chunk.event)
                    elif isinstance(chunk, Answer):
                        answer = chunk.message
                        self.drafted += estimate_tokens(answer.text)
                    yield chunk
        except LLMError:
            estimated = growing = 0
            raise
        finally:
            self.usage += answer.usage or Usage()
            self.on_request(answer.model or self.info.id, answer.usage, estimated + growing)

    def _tell(self, delta: str, growing: int) -> None:
        self.progress(
            events.CompactionProgress(
                stage="draft", rung=self.rung, delta=delta, drafted_tokens=self.drafted + growing
            )
        )

    async def aclose(self) -> None:
        await self.llm.aclose()
