"""One request to the model: sent, listened to, and put on record, however it ends."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta

from foldline.context.budget import silent_overflow
from foldline.context.calls import early_end
from foldline.context.numbers import short_tokens
from foldline.context.tokens import image_tokens, message_tokens
from foldline.context.usage_reading import UsageReading
from foldline.context.view import ViewItem
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
from foldline.llm.messages import MESSAGES
from foldline.llm.models import price_of
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
    events,
    text_parts,
)

from .state import AgentState
from .toolset import tools_digest

TOO_MANY_BYTES = 413
"""The status of a request too large in bytes, which says nothing about the window."""
_CALL_MARK = re.compile(r"<tool_call>|<function=\w|\[TOOL_CALLS\]|<\|python_tag\|>|<\|tool_call")
"""How models begin a call: Qwen and Hermes, Llama, Mistral and others."""
_CALL_JSON = re.compile(r'"(?:name|function)"\s*:\s*"(\w+)"\s*,\s*"(?:arguments|parameters)"\s*:')
_NEARLY_FULL = 0.8
"""Share of the window, by estimate, from which a refusal without a known reason may be about the length."""
MAY_BE_CUT = "the server may have truncated the request silently"


async def send_request(state: AgentState) -> AssistantMessage:
    """The model's answer to the view as it is now. Request and answer are in the history, also where it was
    cancelled or failed half-way.

    Raises:
        LLMError: there is none. `ContextOverflow` where the request was refused as too long.
    """
    messages = state.pairs.of(state.projection.view)
    estimated = state.projection.sent + state.tool_tokens
    state.emit(events.StepStarted(model=state.llm.info.id, tokens=state.size()))
    _say_if_without_tools(state)
    _say_if_without_pictures(state)
    _say_if_dearer(state)
    record = RequestRecord(
        digest=state.digests.of(messages),
        model=state.llm.info.id,
        dialect=state.llm.dialect,
        after=state.projection.last_index,
        view_items=len(messages),
        tools=tools_digest(state.specs),
        estimated=estimated,
        left=state.session.now(),
        cache=state.llm.info.cache,
    )
    request = Request(messages=messages, tools=state.specs, tokens=state.size(), session=state.session.id)
    sent = _Sent(state, record)
    answer: AssistantMessage | None = None
    async with sent.recorded_where_it_fails():
        async with aclosing(state.llm.stream(request)) as chunks:
            async for chunk in chunks:
                answer = await sent.hear(chunk)
                if answer is not None:
                    break
        if answer is None:
            raise LLMError("The model's answer ended without an end: try again.")
    _say_if_without_pictures(state)
    estimated -= _unseen_tokens(state)
    sent.update(estimated=estimated)
    if answer.usage is not None:
        answer = answer.model_copy(update={"usage": _true_usage(state, answer, estimated)})
    state.forget_refusal()  # what went through is smaller: from here on, the history has it
    await sent.close(answer, usage=answer.usage, stop_reason=answer.stop_reason)
    if answer.usage is not None:
        state.emit(events.UsageReported(model=answer.model or state.llm.info.id, usage=answer.usage))
    if ending := early_end(answer, state.window):
        state.warn(answer.error or _cut_off(ending))
    elif not answer.text and not answer.calls:
        state.warn("The model gave an empty answer. Ask again.")
    elif not answer.calls and _is_written_call(answer.text, state.specs):
        state.warn(
            "The model wrote a tool call as text, so nothing was run: its server does not read this model's "
            "calls. Start it with a parser for them (llama.cpp: --jinja; vLLM: --enable-auto-tool-choice and "
            "--tool-call-parser), or choose another model."
        )
    return answer


def _is_written_call(text: str, specs: Sequence[ToolSpec]) -> bool:
    """Whether an answer ends in a tool call that its server has not read."""
    if not specs or not text.rstrip().endswith(("}", "]", ">", "```")):
        return False
    names = {spec.name for spec in specs}
    return bool(_CALL_MARK.search(text)) or any(name in names for name in _CALL_JSON.findall(text))


def _cut_off(ending: str) -> str:
    """What ended an answer before it was done, as a sentence; `ending` is that of `early_end`."""
    sentence = f"The answer was {ending}"
    if "window" not in ending:
        return f"{sentence}."
    return f"{sentence}: compact with /compact and ask for the rest, or choose a model with a larger window."


class _Sent:
    """A request under way: passes its answer on as events, and remembers what came in case it breaks off."""

    def __init__(self, state: AgentState, record: RequestRecord) -> None:
        self._state = state
        self._record = record
        self._text: list[str] = []

    async def hear(self, chunk: Chunk) -> AssistantMessage | None:
        """Pass on what came; the answer, once it is whole."""
        match chunk:
            case TextChunk():
                self._text.append(chunk.text)
                self._state.emit(events.TextDelta(text=chunk.text))
            case ThinkingChunk():
                self._state.emit(events.ThinkingDelta(text=chunk.text))
            case ReadingChunk():
                self._state.emit(events.PromptReading(read=chunk.read, total=chunk.total))
            case RetryChunk():
                self._text.clear()
                await self._keep_abandoned(chunk)
                self._state.emit(chunk.event)
            case Answer():
                return chunk.message
            case _:
                pass
        return None

    @asynccontextmanager
    async def recorded_where_it_fails(self) -> AsyncIterator[None]:
        """Puts on record what came of it where it is cancelled, refused, or breaks off."""
        try:
            yield
        except asyncio.CancelledError:
            await self.close(self._partial("cancelled"), stop_reason="cancelled")
            raise
        except ContextOverflow as overflow:
            said = (overflow.partial or self._partial("error") or AssistantMessage()).text
            why = None if overflow.status == TOO_MANY_BYTES else OVERFLOW
            window = overflow.window or 0
            await self.close(None, error=str(overflow), said=said or None, window=window, stop_reason=why)
            raise
        except LLMError as failure:
            await self.close(failure.partial or self._partial("error"), error=str(failure))
            raise

    async def _keep_abandoned(self, again: RetryChunk) -> None:
        """Record what came of an answer that is asked for again, outside of the view."""
        if (partial := again.partial) is not None:
            calls = [f"{call.name} {call.arguments}" for call in partial.calls]
            said = "\n\n".join(filter(None, [partial.text, *calls])) or None
            await self.close(None, error=again.sentence, usage=partial.usage, said=said)
            self.update(after=self._state.projection.last_index)
        self.update(left=self._state.session.now() + timedelta(seconds=again.seconds))

    def update(self, **known: object) -> None:
        """Change what the record of the request will say."""
        self._record = self._record.model_copy(update=known)

    def _partial(self, reason: str) -> AssistantMessage | None:
        """The answer as far as it came."""
        text = "".join(self._text)
        if not text:
            return None
        return AssistantMessage.model_validate(
            {"model": self._state.llm.info.id, "stop_reason": reason, "parts": text_parts(text)}
        )

    async def close(self, answer: AssistantMessage | None, **how: object) -> None:
        """Append the answer, where it holds anything, and the record of how the request ended, with the
        window that its server has said: the next start knows it, whatever came of the request."""
        said = [answer] if answer is not None and answer.parts else []
        info = self._state.llm.info
        stated = {"window": info.window} if info.window_from == "server" else {}
        record = self._record.model_copy(update=stated | how)
        await self._state.session.append(*said, record, durable=not (answer and answer.calls))


def _say_if_without_tools(state: AgentState) -> None:
    """Warn, once per model, where its server says that it cannot call tools."""
    info = state.llm.info
    if info.tools or not state.tools or info.id in state.suspected:
        return
    state.suspected.add(info.id)
    state.warn(
        f"{info.id} cannot call tools: the chat template its server runs it with has no place for them. "
        "Choose another model, or start the server with a template that has one."
    )


def _say_if_without_pictures(state: AgentState) -> None:
    """Warn if the model takes no pictures: once, and again for each further one of the user's."""
    info = state.llm.info
    if info.pictures:
        return
    shown = [item for item in state.projection.view if _bytes(item)]
    own = [item.index for item in shown if isinstance(item.message, UserMessage)]
    warned = state.unseen.get(info.id)
    if not shown or (warned is not None and max(own, default=NEW) <= warned):
        return
    state.unseen[info.id] = shown[-1].index
    count = sum(isinstance(part, ImagePart) for item in shown for part in item.message.parts)
    yours = f" Entry {own[-1]} is yours (F2 to drop it)." if own else ""
    # The first words are all that a narrow status row shows.
    state.warn(f"{info.id} takes no pictures: {count} left out.{yours} Another model may take them (/model).")


def _unseen_tokens(state: AgentState) -> int:
    """Estimate of the pictures in the view that the model was not sent, in tokens."""
    if state.llm.info.pictures:
        return 0
    parts = [part for item in state.projection.view for part in item.message.parts]
    return sum(image_tokens(part) for part in parts if isinstance(part, ImagePart))


def _say_if_dearer(state: AgentState) -> None:
    """Warn where this request costs more than the one before it, because it is longer than a price tier."""
    price = price_of(state.llm.info.id)
    newest = state.projection.requests[-1].tokens if state.projection.records_requests else 0
    if price is not None and (tier := price.long) is not None and newest <= tier.above < state.size():
        times = "twice" if tier.input == 2 else f"{tier.input:g} times"
        state.warn(f"This prompt crosses {short_tokens(tier.above)}: {times} the price.")


def _true_usage(state: AgentState, answer: AssistantMessage, estimated: int) -> Usage:
    """The reported usage with each input token counted once, or an estimate if none was reported. Warns, once
    per model, if nothing but a cut request explains it. `estimated`: the request, before calibration."""
    model, usage = state.llm.info.id, answer.usage or Usage()
    in_cache, apart = usage.cached, state.llm.dialect == MESSAGES
    if apart:
        in_cache += usage.written
    reading = state.projection.read_usage(model, estimated, usage.input, in_cache, apart=apart)
    if reading.outcome == "missing":
        output = usage.output or round(message_tokens(answer) * state.scale)
        return usage.model_copy(update={"input": state.size(), "output": output, "source": "estimated"})
    _suspect_silent_cut(state, reading, estimated)
    if reading.input == usage.input:
        return usage
    return usage.model_copy(update={"input": reading.input, "source": f"cached {reading.habits.cached}"})


def _suspect_silent_cut(state: AgentState, reading: UsageReading, estimated: int) -> None:
    """Warn, once per model, if the input tokens say that the server cut the request."""
    model, window = state.llm.info.id, state.window
    if model in state.suspected:
        return
    if silent_overflow(reading.input, window):
        compacted = " The next request is compacted first." if state.mode == "auto" else ""
        text = (
            f"The server counted {reading.input:,} tokens in a request, more than the window of {window:,} "
            f"holds: {MAY_BE_CUT}.{compacted} If the window is larger, set FOLDLINE_CONTEXT_WINDOW."
        )
    elif reading.outcome == "cut":
        text = (
            f"The server counted only {reading.input:,} tokens in a request of about {estimated:,}: "
            f"{MAY_BE_CUT}. Set FOLDLINE_CONTEXT_WINDOW to the window it runs with."
        )
    else:
        return
    state.suspected.add(model)
    state.warn(text)


def may_be_too_long(failure: LLMError, size: int, window: int) -> bool:
    """Whether a refusal for an unknown reason may be about the length of a request of `size` tokens."""
    return failure.status == 400 and not failure.about and size > _NEARLY_FULL * window


# --- pictures a server does not take ----------------------------------------------------------------------


async def hide_refused_picture(state: AgentState, failure: LLMError) -> bool:
    """Hide the largest picture of a tool in a refused request; whether there was one. The user's stay."""
    if state.mode == "off" or not _is_about_pictures(failure, state.projection.view):
        return False
    shown = [item for item in state.projection.view if isinstance(item.message, ToolResultMessage)]
    item = _largest([item for item in shown if not item.pinned])
    if item is None:
        return False
    await state.session.append(
        Edit(target=item.index, action="hide", recalls=None if state.recalls else False), durable=True
    )
    state.warn(
        f"The server refused the picture in entry {item.index} ({_size(item)}): the model is not shown it."
    )
    return True


def picture_advice(state: AgentState, failure: LLMError) -> str:
    """Which picture the user may take out of a refused request, as a sentence; empty where none matters."""
    view = state.projection.view
    item = _largest(view) if _is_about_pictures(failure, view) else None
    if item is None:
        return ""
    return f"Entry {item.index} holds a picture of {_size(item)}: drop it in the inspector (F2)."


def _is_about_pictures(failure: LLMError, view: Sequence[ViewItem]) -> bool:
    """Whether pictures may be why: the server says so, or they are most of what was too many bytes."""
    if failure.status == TOO_MANY_BYTES:
        return sum(map(_bytes, view)) > sum(len(item.message.text) for item in view)
    return failure.about == "picture"


def _largest(items: Sequence[ViewItem]) -> ViewItem | None:
    return max((item for item in items if _bytes(item)), key=_bytes, default=None)


def _bytes(item: ViewItem) -> int:
    """What its pictures take in a request."""
    return sum(len(part.data) for part in item.message.parts if isinstance(part, ImagePart))


def _size(item: ViewItem) -> str:
    return f"{max(1, _bytes(item) // 1000):,} kB"
