"""Asks a model for a summary, and checks the response."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

from foldline.llm import LLM, Answer, LLMError, Request
from foldline.llm.base import OFFLINE, SummarySource
from foldline.memory.clip import fits, joined, kept_spans, longest
from foldline.memory.conversation import serialise
from foldline.memory.language import SECTIONS, Language, is_sectioned, language_of
from foldline.protocol import (
    AssistantMessage,
    SystemMessage,
    UserMessage,
    text_parts,
)
from foldline.text.tags import defused, delimited
from foldline.view.calls import paired
from foldline.view.items import Messages
from foldline.view.tokens import estimate_tokens

from .strategy import CompactionContext, DraftRejected, load_prompt
from .summary_text import notes_of, unwrapped

ESTIMATE_MARGIN = 1.35
"""Factor by which the actual size of text may exceed its estimate.

The largest factor measured with models whose tokenizer is unknown was 1.32.
"""
_FRAME_TOKENS = 60
"""Size of the roles, tags and repair instruction in a summary request, in tokens."""
_ANSWER_SHARE = 3
"""The response may take up at most 1/_ANSWER_SHARE (a third) of the window.

This leaves room for the conversation even in a small window.
"""
_LEAST_CHUNK = 64
"""Size of the smallest chunk of a conversation, in tokens."""
_WITHOUT_SECTIONS = 200
"""Maximum number of characters in a draft without sections, about two sentences.

For little work, this is enough.
"""
_HEADING = "## "
"""Occurs in a prompt that requests sections."""
_REFUSED = frozenset({400, 413, 422})
"""HTTP statuses with which a server rejects a request because of its form or length."""


NO_SECTIONS = "The draft of the summary has none of the requested sections."


class SummaryWriter:
    """Asks the model for a summary, and at most once to repair its response.

    If a conversation is too long for one request, it is read in chunks. Each request then updates the summary
    of the earlier chunks.
    """

    def __init__(self, ctx: CompactionContext) -> None:
        self._ctx = ctx
        self._language = language_of(ctx.history)
        self._is_repaired = False
        self._answer_tokens = min(
            ctx.max_summary_tokens, ctx.summariser_window // _ANSWER_SHARE
        )

    async def write(
        self,
        messages: Messages,
        previous: str = "",
        *,
        first: str = "summary-first",
        update: str = "summary-update",
    ) -> str:
        """Return a summary of messages that includes the previous summary.

        Args:
            first: name of the prompt for a first summary.
            update: name of the prompt for updating a summary.
        """
        summary = previous
        unread = await asyncio.to_thread(serialise, messages)
        while unread:
            prompt_name = update if summary else first
            summary, unread = await self.read_chunk(
                prompt_name, unread, summary, messages
            )
        return summary

    async def read_chunk(
        self,
        prompt_name: str,
        conversation: str,
        previous: str,
        messages: Messages,
    ) -> tuple[str, str]:
        """Update a summary with as much of a conversation as fits into one request.

        Args:
            conversation: the text of `messages`, or the part of it that has not been read yet.

        Returns:
            The new summary, and the part of the conversation that has not been read yet.
        """
        prompt = load_prompt(prompt_name, self._language)
        instructions = [prompt, *extra_instructions(self._ctx, self._language)]
        quoted = []
        if previous:
            half = self._room(*instructions) // 2
            quoted.append(delimited("previous-summary", _shortened(previous, half)))
        room = self._room(*quoted, *instructions)
        chunk = first_chunk(conversation, room)
        parts = [delimited("conversation", chunk), *quoted, *instructions]
        source = SummarySource((*_as_summary(previous), *messages), self._ctx.focus)
        summary = await self.ask(parts, source, sectioned=_HEADING in prompt)
        if self._ctx.llm.dialect == OFFLINE:  # it has read all of `messages`
            return summary, ""
        return summary, conversation[len(chunk) :].lstrip("\n")

    def _room(self, *texts: str) -> int:
        """Return how many tokens remain for the conversation in a request with these texts, as estimated."""
        window = self._ctx.summariser_window - self._answer_tokens
        room = int(window / ESTIMATE_MARGIN) - _FRAME_TOKENS
        for text in (load_prompt("summariser", self._language), *texts):
            room -= estimate_tokens(text)
        return max(1, room)

    async def ask(
        self,
        parts: Sequence[str],
        source: SummarySource | None = None,
        *,
        sectioned: bool = False,
    ) -> str:
        """Return the model's response to a request consisting of these parts.

        Args:
            sectioned: whether the parts request sections.

        Raises:
            DraftRejected: the response is unusable, and the only repair did not help or has been used up.
            LLMError: the request failed.
        """
        any_form = self._ctx.any_form
        answer = await self._send(parts, source)
        try:
            return _checked(answer, sectioned, any_form=any_form)
        except DraftRejected as rejected:
            if self._is_repaired:
                raise
            self._is_repaired = True
            repair = _repair(self._language, rejected, self._answer_tokens)
        answer = await self._send([*parts, repair], source)
        return _checked(answer, sectioned, any_form=any_form)

    async def _send(
        self, parts: Sequence[str], source: SummarySource | None
    ) -> AssistantMessage:
        system = SystemMessage(
            parts=text_parts(load_prompt("summariser", self._language))
        )
        request = Request(
            messages=(system, _instruction("\n\n".join(parts))),
            max_output=self._answer_tokens,
            summarises=source,
        )
        return await answer_of(self._ctx.llm, request)


def _as_summary(previous: str) -> Messages:
    """Return the previous summary as a message, if there is one."""
    return (
        (SystemMessage(origin="summary", parts=text_parts(previous)),)
        if previous
        else ()
    )


def first_chunk(conversation: str, room: int) -> str:
    """Return the beginning of a conversation, at most `room` tokens long.

    If possible, the chunk ends between two messages.
    """
    room = max(room, _LEAST_CHUNK)
    if fits(conversation, room):
        return conversation
    end = longest(len(conversation), room, lambda length: conversation[:length])
    boundary = conversation.rfind("\n\n[", end // 2, end)
    if boundary > 0:
        end = boundary
    return conversation[:end]


def _shortened(summary: str, room: int) -> str:
    """Shorten a summary to `room` tokens by cutting out the middle.

    A summary that already fits is returned unchanged.
    """
    if fits(summary, room):
        return summary
    spans = kept_spans(summary, room)
    return joined(summary, spans, ["[…]"] * (len(spans) - 1))


async def cached_summary(
    ctx: CompactionContext, position: int, prompt_name: str
) -> str | None:
    """Ask for a summary by extending the ordinary request.

    The provider has cached that request up to `position`. Returns None if this kind of request is not
    possible or is rejected, or if the response is unusable.
    """
    if not ctx.prefix_cached:
        return None
    language = language_of(ctx.history)
    prompt = load_prompt(prompt_name, language)
    instructions = "\n\n".join([prompt, *extra_instructions(ctx, language)])
    text = load_prompt("summary-cached", language).replace(
        "{instructions}", instructions
    )
    prefix = paired(ctx.history[:position])
    limit = ctx.max_summary_tokens
    window = min(ctx.max_context_size, ctx.llm.info.window)
    size = ctx.request_tokens((*prefix, _instruction(text)))
    if size + limit > window:
        return None
    try:
        # The second request asks for a repair. The cache contains its prefix, too.
        for _ in range(2):
            messages = (*prefix, _instruction(text))
            source = SummarySource(prefix, ctx.focus)
            request = Request(
                messages,
                tools=ctx.tools,
                max_output=limit,
                tools_off=True,
                summarises=source,
            )
            try:
                return _checked(await answer_of(ctx.llm, request), _HEADING in prompt)
            except DraftRejected as rejected:
                text = f"{text}\n\n{_repair(language, rejected, limit)}"
    except LLMError as error:
        if error.status not in _REFUSED:
            raise
    return None


def _instruction(text: str) -> UserMessage:
    return UserMessage(origin="machine", parts=text_parts(text))


def extra_instructions(ctx: CompactionContext, language: Language) -> list[str]:
    """Return the user's guidance and focus as instructions."""
    parts = []
    if ctx.guidance:
        text = load_prompt("summary-guidance", language).replace(
            "{guidance}", ctx.guidance
        )
        parts.append(text.replace("{draft}", defused(ctx.earlier_draft or "", "draft")))
    if ctx.focus:
        parts.append(f"Additional focus: {ctx.focus}")
    return parts


def _repair(language: Language, rejected: DraftRejected, answer_tokens: int) -> str:
    """Return the instruction asking the model to repair a rejected response."""
    text = load_prompt("summary-repair", language).replace(
        "{reason}", str(rejected).rstrip(".")
    )
    return text.replace("{tokens}", str(answer_tokens * 2 // 3))


async def answer_of(llm: LLM, request: Request) -> AssistantMessage:
    """Return the complete response to a request."""
    async with aclosing(llm.stream(request)) as chunks:
        async for chunk in chunks:
            if isinstance(chunk, Answer):
                return chunk.message
    raise DraftRejected("The answer broke off before its end.")


def _checked(
    answer: AssistantMessage, sectioned: bool, *, any_form: bool = False
) -> str:
    """Return the text of a usable draft (docs/design/invariants.md).

    If `any_form` is set, text without sections gets a heading.

    Raises:
        DraftRejected: the draft cannot be used.
    """
    if answer.calls:
        raise DraftRejected("The draft of the summary was a tool call.")
    if answer.stop_reason == "length":
        raise DraftRejected("The draft of the summary was cut off at the output limit.")
    if answer.stop_reason not in ("stop", None):
        raise DraftRejected(
            f"The draft of the summary ended early ({answer.stop_reason})."
        )
    # Omit lists that the model copied from an earlier summary: they are written again from the history.
    notes = notes_of(unwrapped(answer.text))
    if not notes:
        raise DraftRejected("The draft of the summary was empty.")
    if not sectioned or is_sectioned(notes):
        return notes
    if any_form:
        return f"{SECTIONS.critical.heading}\n{notes}"
    if len(notes) > _WITHOUT_SECTIONS:
        raise DraftRejected(NO_SECTIONS)
    return notes
