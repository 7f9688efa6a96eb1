"""Compaction for other programs, which exchange chat messages as dictionaries.

Writes no files.
"""

import asyncio
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from dataclasses import dataclass
from inspect import isawaitable

from foldline.compaction.strategies.adaptive import AdaptiveCompaction
from foldline.compaction.strategies.summary import SummaryCompaction
from foldline.llm import Answer, Chunk, LLMError, ModelInfo, Request
from foldline.memory.ledger import Ledger
from foldline.protocol import (
    NEW,
    AssistantMessage,
    BaseMessage,
    FoldlineError,
    text_parts,
)
from foldline.view.budget import LEAST_ANSWER, budget_for
from foldline.view.items import Messages, is_preamble
from foldline.view.tokens import message_tokens

from .chat_messages import ChatMessage, ReadMessage, Source, read_messages, written
from .fallbacks import FailureLadder, SizeGoal
from .ledger import with_ledger_in
from .price import ledger_room, steps_until_full
from .strategy import CompactionContext, CompactionStrategy, MeteredLLM, tokens_of

NO_ROOM = (
    "The messages take about {:,} of {:,} tokens, and cannot be shortened further."
)
SHORTEN = "Shorten message {}, which is the largest."

Summarise = Callable[[str], str | Awaitable[str]]
"""Takes a prompt requesting a summary, and returns the summary."""

_ENOUGH = 0.9
"""A compaction is considered useless if it leaves more than this fraction of the conversation."""


@dataclass(frozen=True, slots=True)
class Compressed:
    """A conversation in the form in which the next request should send it."""

    messages: list[ChatMessage]
    """The messages to send. Unchanged messages are the same dictionary objects as in the input."""
    sources: list[Source]
    """The source of each message, in the order of `messages`."""
    tokens_before: int
    """Estimated size of the conversation before this call, in tokens.

    `tokens_after` is the size after the call.
    """
    tokens_after: int
    compacted: bool
    """Whether this call compacted the conversation."""
    failures: tuple[str, ...] = ()
    """Errors that did not prevent the compaction, such as an exception raised by `summarise`."""


class Compressor:
    """Compacts one growing conversation.

    Each call takes the entire conversation, because that is how most programs store it. Messages that have
    been compacted are not sent again.

    Args:
        window: the model's context window, in tokens.
        max_output: maximum number of tokens in a response, if known.
        overhead: number of tokens that a request contains in addition to its messages: tool schemas,
            Anthropic's `system`.
        summarise: takes a prompt and returns a summary; may be async. If it is None, no model is called: old
            tool results become placeholders, and older work is replaced by an extract.
        recall: name of one of your tools, which the model can call to read an original message by its number.
            The tool should call `original`. If it is None, placeholders do not mention such a tool.
        strategy: the strategy to use. By default it depends on whether `summarise` is given.

    Raises:
        FoldlineError: the window is too small for compaction to work.
    """

    def __init__(
        self,
        *,
        window: int,
        max_output: int | None = None,
        overhead: int = 0,
        summarise: Summarise | None = None,
        recall: str | None = None,
        strategy: CompactionStrategy | None = None,
    ) -> None:
        self._budget = budget_for(window, max_output)
        self._overhead = overhead
        self._writer = _CallableLLM(summarise, ModelInfo(id="summarise", window=window))
        self._strategy = strategy or (
            SummaryCompaction() if summarise else AdaptiveCompaction()
        )
        self._recall = recall
        self._reset()

    def _reset(self) -> None:
        """Begin a new conversation, and discard the previous one."""
        self._chat: list[ChatMessage] = []
        self._read: dict[int, ReadMessage] = {}
        self._view: list[BaseMessage] = []
        self._calls: dict[str, str] = {}
        """Name of the tool used by each call so far, by call id."""
        self._ledger = Ledger()

    async def compress(
        self,
        messages: Sequence[ChatMessage],
        *,
        focus: str | None = None,
        force: bool = False,
    ) -> Compressed:
        """Return the messages to send, compacted if they no longer fit.

        Args:
            messages: the entire conversation, not the result of an earlier call. If it does not begin with
                the messages of the previous call, it is treated as a new conversation.
            focus: topic that the summary should cover in detail.
            force: compact even if no compaction is due.

        Raises:
            FoldlineError: a message has an unknown role, or the messages cannot be made to fit.
        """
        self._read_new(messages)
        tokens_before = self._size(self._view)
        ladder = self._ladder(tokens_before, focus, force)
        view: Messages | None = None
        if force or tokens_before >= self._budget.threshold:
            view = await ladder.run(self._strategy)
        self._check_fits(self._view if view is None else view)
        if view is not None:
            self._view = await asyncio.to_thread(
                self._with_ledger, ladder.goal.enough, view
            )
        sent, sources = written(self._view, self._read, self._chat, self._recall)
        return Compressed(
            messages=sent,
            sources=sources,
            tokens_before=tokens_before,
            tokens_after=self._size(self._view),
            compacted=view is not None,
            failures=tuple(map(str, ladder.failures)),
        )

    def original(self, number: int) -> ChatMessage:
        """Return the original message with a number mentioned in a placeholder or summary.

        Raises:
            KeyError: there is no such message.
        """
        position = self._read[number].position
        if position is None:
            raise KeyError(number)
        return self._chat[position]

    def _size(self, view: Iterable[BaseMessage]) -> int:
        return tokens_of(view) + self._overhead

    def _check_fits(self, view: Messages) -> None:
        """Raise `FoldlineError` if the view leaves no room for a response."""
        size = self._size(view)
        window = self._budget.window
        if size + LEAST_ANSWER <= window:
            return
        error_text = NO_ROOM.format(size, window)
        largest = max(view, key=message_tokens, default=None)
        position = None if largest is None else self._read[largest.index].position
        if position is not None:
            error_text += f" {SHORTEN.format(position)}"
        raise FoldlineError(error_text)

    def _read_new(self, messages: Sequence[ChatMessage]) -> None:
        """Read the messages that are new since the last call."""
        if list(messages[: len(self._chat)]) != self._chat:
            self._reset()
        for position in range(len(self._chat), len(messages)):
            chat_message = messages[position]
            is_leading = all(map(is_preamble, self._view))
            number = len(self._read)
            for read in read_messages(
                chat_message, position, number, calls=self._calls, leading=is_leading
            ):
                self._add(read)
                self._ledger.add(read.message)
                self._view.append(read.message)
            self._chat.append(chat_message)

    def _add(self, read: ReadMessage) -> None:
        self._read[read.message.index] = read
        if isinstance(read.message, AssistantMessage):
            self._calls |= {call.call_id: call.name for call in read.message.calls}

    def _ladder(
        self, tokens_before: int, focus: str | None, by_hand: bool
    ) -> FailureLadder:
        budget = self._budget
        view_tokens = tokens_before - self._overhead
        keep = budget.keep_recent_tokens
        metered = MeteredLLM(self._writer, lambda _: None)
        ctx = CompactionContext(
            history=tuple(self._view),
            token_count=tokens_before,
            max_context_size=budget.window,
            reserved_context_size=budget.reserve_tokens,
            llm=metered,
            focus=focus,
            keep_recent_tokens=min(keep, view_tokens // 4) if by_hand else keep,
            max_summary_tokens=min(budget.max_summary_tokens, budget.window // 4),
            tools_tokens=self._overhead,
            originals={number: read.message for number, read in self._read.items()},
            may_clip_unseen=True,
            any_form=True,
        )
        goal = SizeGoal(
            enough=min(budget.threshold - self._overhead, int(_ENOUGH * view_tokens)),
            is_required=tokens_before >= budget.threshold,
            by_hand=by_hand,
        )
        return FailureLadder(ctx, goal, metered)

    def _with_ledger(self, enough: int, view: Messages) -> list[BaseMessage]:
        """Add the ledger to the new view."""
        size = tokens_of(view)
        free = self._budget.threshold - self._overhead - size
        room = ledger_room(
            enough - size,
            freed=tokens_of(self._view) - size,
            steps=steps_until_full(free, list(_request_sizes(self._view))),
            is_early=False,
        )
        with_ledger = with_ledger_in(self._view, view, self._ledger, room)
        return [self._numbered(message) for message in with_ledger]

    def _numbered(self, message: BaseMessage) -> BaseMessage:
        """Return the message. If it is a new summary, assign the next number to it."""
        if message.index != NEW:
            return message
        numbered = message.model_copy(update={"index": len(self._read)})
        self._add(ReadMessage(numbered, None))
        return numbered


def _request_sizes(view: Iterable[BaseMessage]) -> Iterator[int]:
    """Yield the estimated number of tokens of each answered request."""
    size = 0
    for message in view:
        if isinstance(message, AssistantMessage):
            yield size
        size += message_tokens(message)


class _CallableLLM:
    """Adapts a callable to the interface of a model that writes summaries."""

    dialect = "prompt"

    def __init__(self, summarise: Summarise | None, info: ModelInfo) -> None:
        self._summarise = summarise
        self.info = info

    async def prepare(self) -> ModelInfo:
        return self.info

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        if self._summarise is None:
            raise LLMError(
                "No summary can be written without the argument `summarise`."
            )
        prompt = "\n\n".join(message.text for message in request.messages)
        try:
            result = self._summarise(prompt)
            text = await result if isawaitable(result) else result
        except FoldlineError:
            raise
        except Exception as error:  # the program's own code
            raise LLMError(
                f"`summarise` failed ({type(error).__name__}: {error})."
            ) from error
        if not isinstance(text, str):
            raise LLMError(f"`summarise` returned {type(text).__name__}, not a string.")
        if len(text) >= len(prompt):
            raise LLMError(
                "`summarise` returned a text that is not shorter than the prompt."
            )
        yield Answer(AssistantMessage(parts=text_parts(text), stop_reason="stop"))

    async def aclose(self) -> None:
        pass
