"""Compaction for other programs: chat messages in and out, as dictionaries. Writes nothing, asks nobody."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from inspect import isawaitable

from foldline.context.budget import LEAST_ANSWER, budget_for
from foldline.context.ledger import Ledger
from foldline.context.tokens import message_tokens
from foldline.context.view import is_preamble
from foldline.llm import Answer, Chunk, LLMError, ModelInfo, Request
from foldline.protocol import NEW, AssistantMessage, BaseMessage, FoldlineError, text_parts

from .chat_messages import ChatMessage, Piece, Source, pieces_of, written
from .fallbacks import FailureLadder, Need
from .ledger import with_ledger_in
from .price import ledger_room, steps_until_full
from .simple import AdaptiveCompaction
from .strategy import CompactionContext, CompactionStrategy, MeteredLLM, tokens_of
from .summary import SummaryCompaction

Summarise = Callable[[str], str | Awaitable[str]]
"""Writes the summary that a prompt asks for."""

_ENOUGH = 0.9
"""Of the conversation: a compaction that leaves more was of no use."""


@dataclass(frozen=True, slots=True)
class Compressed:
    """A conversation as the next request should send it."""

    messages: list[ChatMessage]
    """Those that stayed are the very dictionaries that came."""
    sources: list[Source]
    """Where each of them comes from, in the same order."""
    tokens_before: int
    """Estimated tokens of the conversation as it would have been sent, and `tokens_after` as it is now."""
    tokens_after: int
    compacted: bool
    """Whether this call compacted."""
    failures: tuple[str, ...] = ()
    """What went wrong on the way, as of `summarise`; something else was tried then."""


class Compressor:
    """One conversation that grows. Each call takes all of it, as most programs hold it; what was compacted
    once stays so, and the messages before it are not sent again.

    Args:
        window: the model's context window, in tokens.
        max_output: most tokens an answer may have, where that is known.
        overhead: tokens of what each request carries beside the messages: tool schemas, Anthropic's `system`.
        summarise: writes a summary, given a prompt; may be async. Without it no model is asked: old tool
            results become placeholders, older work an extract.
        recall: name of a tool of yours with which the model reads an original back by its number, from
            `original`. Without it placeholders do not speak of one.
        strategy: another strategy than the one that follows from `summarise`.

    Raises:
        FoldlineError: the window is too small to work in.
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
        self._writer = _Writer(summarise, ModelInfo(id="summarise", window=window))
        self._strategy = strategy or (SummaryCompaction() if summarise else AdaptiveCompaction())
        self._recall = recall
        self._start()

    def _start(self) -> None:
        self._chat: list[ChatMessage] = []
        self._pieces: dict[int, Piece] = {}
        self._view: list[BaseMessage] = []
        self._calls: dict[str, str] = {}
        self._ledger = Ledger()

    async def compress(
        self, messages: Sequence[ChatMessage], *, focus: str | None = None, force: bool = False
    ) -> Compressed:
        """What to send of these messages: all of them while they fit.

        Args:
            messages: the whole conversation, never the result of an earlier call. Where it does not begin
                with what the last call was given, it is another one.
            focus: what a summary should dwell on.
            force: compact now, whether it is due or not.

        Raises:
            FoldlineError: a message has an unknown role, or no way was found to make them fit.
        """
        self._take_in(messages)
        before = tokens_of(self._view) + self._overhead
        ladder = self._ladder(before, focus, force)
        due = force or before >= self._budget.threshold
        after = await ladder.run(self._strategy) if due else None
        self._check_fits(self._view if after is None else after)
        if after is not None:
            self._view = await asyncio.to_thread(self._with_ledger, ladder.need.enough, after)
        sent, sources = written(self._view, self._pieces, self._chat, self._recall)
        return Compressed(
            messages=sent,
            sources=sources,
            tokens_before=before,
            tokens_after=tokens_of(self._view) + self._overhead,
            compacted=after is not None,
            failures=tuple(map(str, ladder.failures)),
        )

    def original(self, number: int) -> ChatMessage:
        """The message that a placeholder or a summary names by this number.

        Raises:
            KeyError: there is none.
        """
        position = self._pieces[number].position
        if position is None:
            raise KeyError(number)
        return self._chat[position]

    def _check_fits(self, view: Sequence[BaseMessage]) -> None:
        """Raises FoldlineError if a view leaves no room for an answer."""
        size, window = tokens_of(view) + self._overhead, self._budget.window
        if size + LEAST_ANSWER <= window:
            return
        largest = max(view, key=message_tokens, default=None)
        position = None if largest is None else self._pieces[largest.index].position
        raise FoldlineError(
            f"The messages take about {size:,} of {window:,} tokens, and nothing more can be shortened"
            + ("." if position is None else f": message {position} is the largest. Shorten it.")
        )

    def _take_in(self, messages: Sequence[ChatMessage]) -> None:
        if list(messages[: len(self._chat)]) != self._chat:
            self._start()
        for position in range(len(self._chat), len(messages)):
            message = messages[position]
            leading = all(map(is_preamble, self._view))
            number = len(self._pieces)
            for piece in pieces_of(message, position, number, calls=self._calls, leading=leading):
                self._add(piece)
                self._ledger.add(piece.message)
                self._view.append(piece.message)
            self._chat.append(message)

    def _add(self, piece: Piece) -> None:
        self._pieces[piece.message.index] = piece
        if isinstance(piece.message, AssistantMessage):
            self._calls |= {call.call_id: call.name for call in piece.message.calls}

    def _ladder(self, before: int, focus: str | None, by_hand: bool) -> FailureLadder:
        held = before - self._overhead
        keep = self._budget.keep_recent_tokens
        metered = MeteredLLM(self._writer, lambda _: None)
        context = CompactionContext(
            history=tuple(self._view),
            token_count=before,
            max_context_size=self._budget.window,
            reserved_context_size=self._budget.reserve_tokens,
            llm=metered,
            focus=focus,
            keep_recent_tokens=min(keep, held // 4) if by_hand else keep,
            max_summary_tokens=min(self._budget.max_summary_tokens, self._budget.window // 4),
            tools_tokens=self._overhead,
            originals={number: piece.message for number, piece in self._pieces.items()},
            may_clip_unseen=True,
            any_form=True,
        )
        need = Need(
            enough=min(self._budget.threshold - self._overhead, int(_ENOUGH * held)),
            must=before >= self._budget.threshold,
            by_hand=by_hand,
        )
        return FailureLadder(context, need, metered)

    def _with_ledger(self, enough: int, after: Sequence[BaseMessage]) -> list[BaseMessage]:
        """The new view, with what is most likely to be needed of all that it does not say."""
        size = tokens_of(after)
        room = self._budget.threshold - self._overhead
        steps = steps_until_full(room - size, list(_requests(self._view)))
        left = ledger_room(enough - size, freed=tokens_of(self._view) - size, steps=steps, early=False)
        view = with_ledger_in(self._view, after, self._ledger, left)
        return [self._numbered(message) for message in view]

    def _numbered(self, message: BaseMessage) -> BaseMessage:
        """A summary that is new becomes one of the pieces."""
        if message.index != NEW:
            return message
        numbered = message.model_copy(update={"index": len(self._pieces)})
        self._add(Piece(numbered, None))
        return numbered


def _requests(view: Iterable[BaseMessage]) -> Iterator[int]:
    """Estimated tokens of the requests whose answers are in a view."""
    size = 0
    for message in view:
        if isinstance(message, AssistantMessage):
            yield size
        size += message_tokens(message)


class _Writer:
    """A callable as the model that writes summaries."""

    dialect = "prompt"

    def __init__(self, summarise: Summarise | None, info: ModelInfo) -> None:
        self._summarise = summarise
        self.info = info

    async def prepare(self) -> ModelInfo:
        return self.info

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        if self._summarise is None:
            raise LLMError("No summary can be written: give `summarise`.")
        prompt = "\n\n".join(message.text for message in request.messages)
        try:
            made = self._summarise(prompt)
            text = await made if isawaitable(made) else made
        except FoldlineError:
            raise
        except Exception as error:
            raise LLMError(f"`summarise` failed ({type(error).__name__}: {error}).") from error
        if not isinstance(text, str):
            raise LLMError(f"`summarise` returned no text but {type(text).__name__}.")
        if len(text) >= len(prompt):
            raise LLMError("`summarise` returned no summary: its text is no shorter than the prompt.")
        yield Answer(AssistantMessage(parts=text_parts(text), stop_reason="stop"))

    async def aclose(self) -> None:
        pass
