"""Sends a request to the model, emits the answer as events, and records how the request ended."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta

from foldline.agent.session.context_budget import ContextBudget
from foldline.agent.session.models import Models
from foldline.agent.session.state import AgentState
from foldline.agent.session.toolset import Toolset, tools_digest
from foldline.llm import (
    Answer,
    Chunk,
    ContextOverflow,
    LLMError,
    ReadingChunk,
    Request,
    RetryChunk,
    TextChunk,
    ThinkingChunk,
    ToolSpec,
)
from foldline.llm.base import MESSAGES
from foldline.llm.models import price_of
from foldline.llm.overflow import silent_overflow
from foldline.protocol import (
    NEW,
    OVERFLOW,
    AssistantMessage,
    Edit,
    ImagePart,
    RequestRecord,
    ToolResultMessage,
    Usage,
    UserMessage,
    text_parts,
)
from foldline.protocol.events import (
    PromptReading,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    UsageReported,
)
from foldline.text.numbers import short_tokens
from foldline.view.calls import early_end
from foldline.view.items import ViewItem
from foldline.view.tokens import image_tokens, message_tokens
from foldline.view.usage_reading import UsageReading

TOO_MANY_BYTES = 413
"""HTTP status for a request with too many bytes.

It says nothing about the size of the window.
"""
_CALL_MARK = re.compile(
    r"<tool_call>|<function=\w|\[TOOL_CALLS\]|<\|python_tag\|>|<\|tool_call"
)
"""Matches the start of a tool call written as text by Qwen, Hermes, Llama, Mistral and other models."""
_CALL_JSON = re.compile(
    r'"(?:name|function)"\s*:\s*"(\w+)"\s*,\s*"(?:arguments|parameters)"\s*:'
)
_NEARLY_FULL = 0.8
"""Fraction of the window above which a rejected request may be too long.

Used only if the server does not explain the rejection.
"""
MAY_BE_CUT = "the server may have truncated the request silently"
NO_END = "The answer was cut off by the server. Try again."
EMPTY_ANSWER = "The model gave an empty answer. Try again."
WRITTEN_CALL = (
    "The model wrote a tool call as text, so nothing was run: its server does not parse this model's "
    "calls. Start the server with a tool-call parser (llama.cpp: --jinja; vLLM: --enable-auto-tool-choice "
    "and --tool-call-parser), or choose another model."
)
ENDING = "The answer was {ending}."
WINDOW_ENDING = (
    "The answer was {ending}. Compact with /compact and ask for the rest, or choose a model with a larger "
    "window."
)
NO_TOOLS = (
    "{model} cannot call tools, because its server uses a chat template without tools. Choose another model, "
    "or start the server with a template that supports tools."
)
# A narrow status row shows only the first words of this.
NO_IMAGES = "{model} does not accept images: {count} left out.{yours} Another model may accept them (/model)."
YOUR_IMAGE = " Entry {index} is yours (press F2 to remove it)."
CROSSES_TIER = (
    "This prompt is longer than {tokens} tokens, and costs {times} the usual price."
)
TRUNCATED_NEXT = " The next request will be compacted first."
OVER_WINDOW = (
    "The server counted {counted:,} tokens in a request, more than its window of {window:,}: {may_be_cut}."
    "{next} If the window is larger, set FOLDLINE_CONTEXT_WINDOW."
)
COUNTED_LESS = (
    "The server counted only {counted:,} tokens in a request of about {estimated:,}: {may_be_cut}. Set "
    "FOLDLINE_CONTEXT_WINDOW to the server's actual window."
)
IMAGE_HIDDEN = "The server rejected the image in entry {index} ({size}). The model will not see it."
LARGE_IMAGE = (
    "Entry {index} contains an image of {size}. Remove it in the inspector (F2)."
)


async def send_request(state: AgentState) -> AssistantMessage:
    """Send the view to the model, and return the model's answer.

    The request and the answer are added to the history even if the request is cancelled or fails.

    Raises:
        LLMError: the request failed. `ContextOverflow` if it was rejected as too long.
    """
    models = state.models
    specs = state.tools.specs
    size = state.budget.size()
    messages = models.pairs.of(state.projection.view)
    estimated = state.projection.meter.sent + state.tools.tokens
    info = models.llm.info
    state.events.emit(StepStarted(model=info.id, tokens=size))
    _warn_if_without_tools(state.tools)
    _warn_if_without_pictures(models)
    _warn_if_dearer(state.budget)
    record = RequestRecord(
        digest=models.digests.of(messages),
        model=info.id,
        dialect=models.llm.dialect,
        after=state.projection.last_index,
        view_items=len(messages),
        tools=tools_digest(specs),
        estimated=estimated,
        left=state.session.now(),
        cache=info.cache,
    )
    request = Request(
        messages=messages,
        tools=specs,
        tokens=size,
        session=state.session.id,
    )
    running = _RunningRequest(models, record)
    answer: AssistantMessage | None = None
    async with running.recorded_on_failure():
        async with aclosing(models.llm.stream(request)) as chunks:
            async for chunk in chunks:
                answer = await running.handle(chunk)
                if answer is not None:
                    break
        if answer is None:
            raise LLMError(NO_END)
    _warn_if_without_pictures(models)
    estimated -= _unsent_picture_tokens(models)
    running.update(estimated=estimated)
    if answer.usage is not None:
        usage = _corrected_usage(state, answer, estimated)
        answer = answer.model_copy(update={"usage": usage})
    state.budget.clear_refusal()  # the history now contains a request that was accepted
    await running.close(
        answer,
        usage=answer.usage,
        stop_reason=answer.stop_reason,
    )
    if answer.usage is not None:
        model = answer.model or models.id
        state.events.emit(UsageReported(model=model, usage=answer.usage))
    _warn_about_answer(state.tools, answer)
    return answer


def _warn_about_answer(tools: Toolset, answer: AssistantMessage) -> None:
    """Warn if an answer ended early, is empty, or contains a tool call written as text."""
    ending = early_end(answer, tools.models.window)
    if ending:
        sentence = WINDOW_ENDING if "window" in ending else ENDING
        tools.events.warn(answer.error or sentence.format(ending=ending))
    elif answer.calls:
        return
    elif not answer.text:
        tools.events.warn(EMPTY_ANSWER)
    elif _is_written_call(answer.text, tools.specs):
        tools.events.warn(WRITTEN_CALL)


def _is_written_call(text: str, specs: Sequence[ToolSpec]) -> bool:
    """Return whether an answer ends with a tool call written as text."""
    if not specs or not text.rstrip().endswith(("}", "]", ">", "```")):
        return False
    if _CALL_MARK.search(text):
        return True
    names = {spec.name for spec in specs}
    return not names.isdisjoint(_CALL_JSON.findall(text))


class _RunningRequest:
    """A request in progress.

    It emits the answer, and keeps the text in case the connection breaks.
    """

    def __init__(self, models: Models, record: RequestRecord) -> None:
        self._models = models
        self._record = record
        self._text: list[str] = []

    async def handle(self, chunk: Chunk) -> AssistantMessage | None:
        """Emit an event for a chunk.

        Return the answer once it is complete.
        """
        match chunk:
            case TextChunk():
                self._text.append(chunk.text)
                self._models.events.emit(TextDelta(text=chunk.text))
            case ThinkingChunk():
                self._models.events.emit(ThinkingDelta(text=chunk.text))
            case ReadingChunk():
                self._models.events.emit(
                    PromptReading(read=chunk.read, total=chunk.total)
                )
            case RetryChunk():
                self._text.clear()
                await self._record_retry(chunk)
                self._models.events.emit(chunk.event)
            case Answer():
                return chunk.message
            case _:
                pass
        return None

    @asynccontextmanager
    async def recorded_on_failure(self) -> AsyncIterator[None]:
        """On failure, record the partial answer."""
        try:
            yield
        except asyncio.CancelledError:
            await self.close(self._partial("cancelled"), stop_reason="cancelled")
            raise
        except ContextOverflow as overflow:
            partial = overflow.partial or self._partial("error")
            partial_text = partial.text if partial else ""
            await self.close(
                None,
                error=str(overflow),
                said=partial_text or None,
                window=overflow.window or 0,
                stop_reason=None if overflow.status == TOO_MANY_BYTES else OVERFLOW,
            )
            raise
        except LLMError as failure:
            await self.close(
                failure.partial or self._partial("error"), error=str(failure)
            )
            raise

    async def _record_retry(self, retry: RetryChunk) -> None:
        """Record the partial answer of an abandoned attempt.

        It does not become part of the view.
        """
        partial = retry.partial
        if partial is not None:
            calls = [f"{call.name} {call.arguments}" for call in partial.calls]
            text = "\n\n".join(filter(None, [partial.text, *calls]))
            await self.close(
                None,
                error=retry.sentence,
                usage=partial.usage,
                said=text or None,
            )
            self.update(after=self._models.session.projection.last_index)
        self.update(left=self._models.session.now() + timedelta(seconds=retry.seconds))

    def update(self, **fields: object) -> None:
        """Change fields of the request's record."""
        self._record = self._record.model_copy(update=fields)

    def _partial(self, reason: str) -> AssistantMessage | None:
        """Return the text received so far as a message."""
        text = "".join(self._text)
        if not text:
            return None
        return AssistantMessage.model_validate(
            {
                "model": self._models.id,
                "stop_reason": reason,
                "parts": text_parts(text),
            }
        )

    async def close(self, answer: AssistantMessage | None, **fields: object) -> None:
        """Append the answer, and the request's record with these fields.

        The record contains the window that the server reported, so that the window is known at the next
        start.
        """
        info = self._models.llm.info
        if info.window_from == "server":
            fields.setdefault("window", info.window)
        record = self._record.model_copy(update=fields)
        if answer is None or not answer.parts:
            await self._models.session.append(record, durable=True)
        else:
            await self._models.session.append(answer, record, durable=not answer.calls)


def _warn_if_without_tools(tools: Toolset) -> None:
    """Warn once per model if it cannot call tools."""
    info = tools.models.llm.info
    if not info.tools and tools.all:
        tools.models.warn_once(NO_TOOLS.format(model=info.id))


def _warn_if_without_pictures(models: Models) -> None:
    """Warn if the model does not accept images.

    Warns once per model, and again for each new image from the user.
    """
    info = models.llm.info
    if info.pictures:
        return
    items = [item for item in models.session.projection.view if _picture_bytes(item)]
    if not items:
        return
    own = [item.index for item in items if isinstance(item.message, UserMessage)]
    warned_until = models.picture_warnings.get(info.id)
    if warned_until is not None and max(own, default=NEW) <= warned_until:
        return
    models.picture_warnings[info.id] = items[-1].index
    count = sum(len(_pictures(item)) for item in items)
    yours = YOUR_IMAGE.format(index=own[-1]) if own else ""
    models.events.warn(NO_IMAGES, model=info.id, count=count, yours=yours)


def _unsent_picture_tokens(models: Models) -> int:
    """Estimate the size of images that were not sent, in tokens."""
    if models.llm.info.pictures:
        return 0
    return sum(
        image_tokens(picture)
        for item in models.session.projection.view
        for picture in _pictures(item)
    )


def _warn_if_dearer(budget: ContextBudget) -> None:
    """Warn if this request is the first one above a price tier."""
    price = price_of(budget.models.id)
    if price is None or price.long is None:
        return
    tier = price.long
    meter = budget.projection.meter
    previous = meter.requests[-1].tokens if meter.records_requests else 0
    if previous <= tier.above < budget.size():
        times = "twice" if tier.input == 2 else f"{tier.input:g} times"
        tokens = short_tokens(tier.above)
        budget.models.events.warn(CROSSES_TIER, tokens=tokens, times=times)


def _corrected_usage(
    state: AgentState,
    answer: AssistantMessage,
    estimated: int,
) -> Usage:
    """Return the usage of a request, corrected or estimated.

    Each input token is counted once, although providers report cached tokens in different ways. Warns once
    per model if the reported figures suggest that the server truncated the request.

    Args:
        estimated: estimated size of the request, in tokens before calibration.
    """
    model = state.models.id
    usage = answer.usage or Usage()
    is_apart = state.models.llm.dialect == MESSAGES
    in_cache = usage.cached + usage.written if is_apart else usage.cached
    reading = state.projection.meter.read_usage(
        model,
        estimated,
        usage.input,
        in_cache,
        apart=is_apart,
    )
    if reading.outcome == "missing":
        output = usage.output or round(message_tokens(answer) * state.budget.scale)
        return usage.model_copy(
            update={
                "input": state.budget.size(),
                "output": output,
                "source": "estimated",
            }
        )
    _warn_if_truncated(state, reading, estimated)
    if reading.input == usage.input:
        return usage
    source = f"cached {reading.habits.cached}"
    return usage.model_copy(update={"input": reading.input, "source": source})


def _warn_if_truncated(
    state: AgentState,
    reading: UsageReading,
    estimated: int,
) -> None:
    """Warn once per model if its server truncates requests."""
    window = state.models.window
    if silent_overflow(reading.input, window):
        text = OVER_WINDOW.format(
            counted=reading.input,
            window=window,
            may_be_cut=MAY_BE_CUT,
            next=TRUNCATED_NEXT if state.compaction.mode == "auto" else "",
        )
    elif reading.outcome == "cut":
        text = COUNTED_LESS.format(
            counted=reading.input, estimated=estimated, may_be_cut=MAY_BE_CUT
        )
    else:
        return
    state.models.warn_once(text)


def may_be_too_long(failure: LLMError, size: int, window: int) -> bool:
    """Return whether a request may have been rejected for its length.

    Args:
        size: size of the request in tokens.
        window: context window in tokens.
    """
    return failure.status == 400 and not failure.about and size > _NEARLY_FULL * window


# --- images a server does not accept ----------------------------------------------------------------------


async def hide_refused_picture(state: AgentState, failure: LLMError) -> bool:
    """Hide the largest image in a tool result after the server rejected a request.

    Images from the user are never hidden.

    Returns:
        Whether an image was hidden.
    """
    view = state.projection.view
    if state.compaction.mode == "off" or not _is_about_pictures(failure, view):
        return False
    item = _largest(
        item
        for item in view
        if isinstance(item.message, ToolResultMessage) and not item.pinned
    )
    if item is None:
        return False
    recalls = None if state.tools.can_recall else False
    edit = Edit(target=item.index, action="hide", recalls=recalls)
    await state.session.append(edit, durable=True)
    state.events.warn(IMAGE_HIDDEN, index=item.index, size=_size(item))
    return True


def picture_advice(view: Sequence[ViewItem], failure: LLMError) -> str:
    """Return a message that says which image to drop.

    Returns an empty string if images are not the problem.
    """
    if not _is_about_pictures(failure, view):
        return ""
    item = _largest(view)
    if item is None:
        return ""
    return LARGE_IMAGE.format(index=item.index, size=_size(item))


def _is_about_pictures(failure: LLMError, view: Sequence[ViewItem]) -> bool:
    """Return whether a request may have been rejected because of its images."""
    if failure.status == TOO_MANY_BYTES:
        picture_bytes = sum(map(_picture_bytes, view))
        return picture_bytes > sum(len(item.message.text) for item in view)
    return failure.about == "picture"


def _largest(items: Iterable[ViewItem]) -> ViewItem | None:
    with_pictures = filter(_picture_bytes, items)
    return max(with_pictures, key=_picture_bytes, default=None)


def _pictures(item: ViewItem) -> list[ImagePart]:
    return [part for part in item.message.parts if isinstance(part, ImagePart)]


def _picture_bytes(item: ViewItem) -> int:
    """Return the size of the item's images in a request, in bytes."""
    return sum(len(picture.data) for picture in _pictures(item))


def _size(item: ViewItem) -> str:
    return f"{max(1, _picture_bytes(item) // 1000):,} kB"
