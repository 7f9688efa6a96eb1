"""`SummaryCompaction`: a model summarises what is compacted, recent work stays verbatim."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial

from foldline.context.calls import paired
from foldline.context.clip import clip_messages
from foldline.context.conversation import defused, delimited, serialise
from foldline.context.cut import Cut, clip_limit, cut_at, cut_before, find_cut, giant_limit, giant_results
from foldline.context.language import SECTIONS, Language, is_sectioned, language_of
from foldline.context.tokens import estimate_tokens
from foldline.context.view import is_preamble
from foldline.llm import LLM, Answer, ContextOverflow, LLMError, Request
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    SystemMessage,
    UserMessage,
    text_parts,
)

from .note_writer import Levels, Memory
from .notes import Note, flat, joined, size_of
from .strategy import CompactionContext, DraftRejected, load_prompt, tokens_of
from .summary_text import framed, notes_of, unframed, unwrapped, with_appendix

_FRAME_TOKENS = 60
"""Of a summary request: roles and tags, and the line that asks for a repair."""
_ANSWER_SHARE = 3
"""The answer takes a third of a small window at most: there must be something to read."""
_LONGEST_NOTE = 1_000
"""Tokens of a note on one part of a long conversation at most."""
_LEAST_NOTES = 60
"""Tokens that notes take with their headings, and little under them."""
ERRS_HIGH = 1.35
"""How far a text may exceed its estimate: unknown models needed up to 1.32."""
_WITHOUT_SECTIONS = 200
"""Characters of notes that may do without sections: two sentences on little work."""
_SECTION = re.compile(r"#{2,3} ([^\n#(),.:（）、。：]+)")
"""A heading that a prompt asks for, on a line of its own or in a sentence."""
_REFUSED = frozenset({400, 413, 422})
"""Statuses of a server that takes ordinary requests, but not one of this form or length."""


class SummaryCompaction:
    """Compacts everything before the cut into one summary; the request of a split turn stays verbatim."""

    in_chunks = True
    """Whether it takes a limit of how much to send at once (`CompactionContext.draft_window`)."""

    def __init__(self) -> None:
        self._memory = Memory()

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        cut = cut_for(ctx)
        if cut is None or not await can_shrink(ctx, cut.compacted, partial(with_summary, ctx, cut)):
            return clipped_only(ctx)
        return await with_summary(ctx, cut, await self.notes(ctx, cut))

    async def notes(self, ctx: CompactionContext, cut: Cut[BaseMessage]) -> str:
        return await cached_notes(ctx, cut.position, _form(cut)) or await self.summarise(ctx, cut)

    async def summarise(self, ctx: CompactionContext, cut: Cut[BaseMessage]) -> str:
        """The notes for the compacted part, the earlier summary always among the input
        (docs/design/invariants.md)."""
        writer = Writer(ctx, language_of(ctx.history), memory=self._memory)
        previous = "\n\n".join(notes_of(unframed(message)) for message in cut.previous)
        if not cut.history and not previous:
            return await writer.prefix(split_turn(cut))
        notes = await writer.update(previous, cut.history or split_turn(cut))
        if cut.history and cut.prefix:
            notes += "\n\n" + await writer.prefix(split_turn(cut))
        return notes


def cut_for(ctx: CompactionContext) -> Cut[BaseMessage] | None:
    """The cut that was planned or chosen by the user, else the one that keeps the newest work."""
    if ctx.cut_position is not None:
        return cut_at(ctx.history, ctx.cut_position, pins=ctx.pins)
    if ctx.first_kept_index is None:
        return find_cut(ctx.history, ctx.keep_recent_tokens, pins=ctx.pins)
    return cut_before(ctx.history, ctx.first_kept_index, pins=ctx.pins)


def split_turn(cut: Cut[BaseMessage]) -> tuple[BaseMessage, ...]:
    """The compacted part of a turn that the cut divides, under its request."""
    return (*((cut.request,) if cut.request else ()), *cut.prefix)


def _form(cut: Cut[BaseMessage]) -> str:
    """The prompt for the notes on what this cut compacts, asked for in one request."""
    if cut.previous:
        return "summary-update"
    return "summary-first" if cut.history else "summary-prefix"


async def cached_notes(ctx: CompactionContext, position: int, form: str) -> str | None:
    """The notes by the ordinary request up to this position and one instruction more, the prompt of this
    name: the provider has that prefix in its cache. None where it cannot be used or the model does not play
    along."""
    if not ctx.prefix_cached:
        return None
    language = language_of(ctx.history)
    instructions = "\n\n".join([load_prompt(form, language), *extra_instructions(ctx, language)])
    text = load_prompt("summary-cached", language).replace("{instructions}", instructions)
    before = paired(ctx.history[:position])
    messages = (*before, UserMessage(origin="machine", parts=text_parts(text)))
    if ctx.request_tokens(messages) + ctx.max_summary_tokens > min(ctx.max_context_size, ctx.llm.info.window):
        return None
    limit = ctx.max_summary_tokens
    sections = sections_of(instructions)
    try:
        for _ in range(2):  # the second one repairs the first, and has its prefix in the cache
            asked = UserMessage(origin="machine", parts=text_parts(text))
            request = Request((*before, asked), tools=ctx.tools, max_output=limit, tools_off=True)
            try:
                return _accepted(await answer_of(ctx.llm, request), sections)
            except DraftRejected as rejected:
                text = f"{text}\n\n{_repair(language, rejected, limit)}"
    except LLMError as refusal:
        if refusal.status not in _REFUSED:
            raise
    return None


def sections_of(instructions: str) -> frozenset[str]:
    """The names of the sections that these instructions ask for, in small letters."""
    return frozenset(name.strip().lower() for name in _SECTION.findall(instructions))


def _repair(language: Language, rejected: DraftRejected, tokens: int) -> str:
    """What is added to a request of which the answer was rejected, and which had so many tokens for it."""
    repair = load_prompt("summary-repair", language).replace("{reason}", str(rejected).rstrip("."))
    return repair.replace("{tokens}", str(tokens * 2 // 3))


def extra_instructions(ctx: CompactionContext, language: Language) -> list[str]:
    """What the user adds to the instructions: a focus, and what to do better than in the last draft."""
    parts = []
    if ctx.guidance:
        text = load_prompt("summary-guidance", language).replace("{guidance}", ctx.guidance)
        parts.append(text.replace("{draft}", defused(ctx.earlier_draft or "", "draft")))
    if ctx.focus:
        parts.append(f"Additional focus: {ctx.focus}")
    return parts


def earlier_summary(cut: Cut[BaseMessage]) -> str:
    """The earlier summaries that a new one absorbs, with the lists at their ends."""
    return "\n\n".join(unframed(message) for message in cut.previous)


async def with_summary(ctx: CompactionContext, cut: Cut[BaseMessage], notes: str) -> list[BaseMessage]:
    """The new view: preamble, these notes and what is quoted from the history as its summary, what stays of
    the compacted part, the tail with its giants clipped."""
    summary = await asyncio.to_thread(
        with_appendix, notes, cut.compacted, earlier_summary(cut), ctx.details, ctx.max_summary_tokens
    )
    before, tail = _movable(ctx.history[: cut.position]), _movable(ctx.history[cut.position :])
    stays = [message for message in before if message.index in ctx.pins or message is cut.request]
    return [*ctx.preamble, framed(summary), *stays, *_clip_giants(ctx, tail)]


async def can_shrink(
    ctx: CompactionContext,
    compacted: Sequence[BaseMessage],
    view: Callable[[str], Awaitable[Sequence[BaseMessage]]],
) -> bool:
    """Whether a summary can take less than the messages it replaces: its frame and what it quotes weigh, too.
    Looked at before a model is asked; `view` makes the new view of notes."""
    if tokens_of(compacted) > 2 * ctx.max_summary_tokens:
        return True
    return tokens_of(await view("")) + _LEAST_NOTES < tokens_of(ctx.history)


def _movable(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    return [message for message in messages if not is_preamble(message)]


def clipped_only(ctx: CompactionContext) -> Sequence[BaseMessage] | None:
    """Where nothing can be cut, a giant result that was seen already may still be clipped."""
    movable = _movable(ctx.history)
    clipped = _clip_giants(ctx, movable)
    if all(a is b for a, b in zip(clipped, movable, strict=True)):
        return None
    return [*ctx.preamble, *clipped]


def _clip_giants(ctx: CompactionContext, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    limit = giant_limit(ctx.keep_recent_tokens, ctx.max_context_size)
    giants = giant_results(messages, limit, pins=ctx.pins)
    return clip_messages(messages, {result.index: clip_limit(limit) for result in giants})


class Writer:
    """Asks the model for notes, of a conversation beyond its window from notes on parts. One repair a run."""

    def __init__(
        self,
        ctx: CompactionContext,
        language: Language,
        *,
        first: str = "summary-first",
        update: str = "summary-update",
        memory: Memory | None = None,
        note_tokens: int | None = None,
    ) -> None:
        self._ctx = ctx
        self._language = language
        self._first = first
        self._update = update
        self._repaired = False
        self.answer_tokens = min(ctx.max_summary_tokens, ctx.summariser_window // _ANSWER_SHARE)
        self.levels = Levels(
            self,
            memory or Memory(),
            language,
            model=ctx.llm.info.id,
            note_tokens=note_tokens or min(_LONGEST_NOTE, self.answer_tokens // 2),
            focus=ctx.focus,
        )

    async def update(self, previous: str, messages: Sequence[BaseMessage]) -> str:
        return await self._summarised(self._update if previous else self._first, previous, messages)

    async def prefix(self, messages: Sequence[BaseMessage]) -> str:
        return await self._summarised("summary-prefix", "", messages)

    async def _summarised(self, prompt: str, previous: str, messages: Sequence[BaseMessage]) -> str:
        instructions = [load_prompt(prompt, self._language), *extra_instructions(self._ctx, self._language)]
        sections = sections_of(instructions[0])
        earlier = await self.within_half(previous, *instructions)
        room = self.room(*earlier, *instructions)
        conversation = await asyncio.to_thread(serialise, messages)
        if not conversation:
            return previous
        if estimate_tokens(conversation) <= room:
            return await self.ask(
                [delimited("conversation", conversation), *earlier, *instructions], sections
            )
        instructions = [load_prompt("in-parts", self._language), *instructions]
        notes = await self.levels.notes(messages)
        while True:
            room = min(self.room(*earlier, *instructions), self.levels.most)
            few = await self.levels.within(notes, room)
            try:
                return await self.ask(
                    [delimited("conversation", joined(few)), *earlier, *instructions], sections
                )
            except ContextOverflow:
                if not self.levels.refused(size_of(few)):
                    raise

    async def within_half(self, previous: str, *beside: str) -> list[str]:
        """The earlier summary as it is sent, merged where it takes over half of the room."""
        if not previous:
            return []
        room = self.room(*beside) // 2
        if estimate_tokens(previous) > room:
            merged = await self.levels.within([Note(flat(previous))], room)
            previous = "\n\n".join(note.text for note in merged)
        return [delimited("previous-summary", previous)]

    def room(self, *beside: str) -> int:
        """Estimated tokens a request has left beside these texts, its answer and its frame."""
        most = int((self._ctx.summariser_window - self.answer_tokens) / ERRS_HIGH)
        frame = estimate_tokens(load_prompt("summariser", self._language)) + _FRAME_TOKENS
        return max(1, most - frame - sum(map(estimate_tokens, beside)))

    async def ask(self, parts: Sequence[str], sections: frozenset[str] = frozenset()) -> str:
        """The answer to a request of these parts, which asks for these sections.

        Raises:
            DraftRejected: it cannot be used, and neither can a second one, where that may be asked for.
            LLMError: the model could not be asked.
        """
        try:
            return _accepted(await self._send(parts), sections, any_form=self._ctx.any_form)
        except DraftRejected as rejected:
            if self._repaired:
                raise
            self._repaired = True
            repair = _repair(self._language, rejected, self.answer_tokens)
            answer = await self._send([*parts, repair])
            return _accepted(answer, sections, any_form=self._ctx.any_form)

    async def _send(self, parts: Sequence[str]) -> AssistantMessage:
        request = Request(
            messages=(
                SystemMessage(parts=text_parts(load_prompt("summariser", self._language))),
                UserMessage(origin="machine", parts=text_parts("\n\n".join(parts))),
            ),
            max_output=self.answer_tokens,
        )
        return await answer_of(self._ctx.llm, request)


async def answer_of(llm: LLM, request: Request) -> AssistantMessage:
    """The whole answer to a request nobody watches being written."""
    async with aclosing(llm.stream(request)) as chunks:
        async for chunk in chunks:
            if isinstance(chunk, Answer):
                return chunk.message
    raise DraftRejected("The model ended its answer without saying so.")


def _accepted(answer: AssistantMessage, sections: frozenset[str], *, any_form: bool = False) -> str:
    """The text of a draft that may replace something (docs/design/invariants.md).

    With `any_form`, a text without any of the `sections` becomes one of our own.
    """
    if answer.calls:
        raise DraftRejected("The draft of the summary was a tool call.")
    if answer.stop_reason == "length":
        raise DraftRejected("The draft of the summary was cut off by its length.")
    if answer.stop_reason not in ("stop", None):
        raise DraftRejected(f"The draft of the summary ended early ({answer.stop_reason}).")
    # Lists it copied from an earlier summary come from the history instead.
    notes = notes_of(unwrapped(answer.text))
    if not notes:
        raise DraftRejected("The draft of the summary was empty.")
    if not sections or is_sectioned(notes, sections):
        return notes
    if any_form:
        return f"{SECTIONS.critical.heading}\n{notes}"
    if len(notes) > _WITHOUT_SECTIONS:
        raise DraftRejected("The draft of the summary has none of the sections that were asked for.")
    return notes
