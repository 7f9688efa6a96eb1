"""`HierarchicalCompaction`: messages are shortened, turns become notes, topics become milestones."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from foldline.context.conversation import delimited, labelled_blocks
from foldline.context.cut import Cut
from foldline.context.digest import Focus
from foldline.context.language import Language, language_of
from foldline.context.tokens import estimate_tokens
from foldline.llm import ContextOverflow
from foldline.protocol import BaseMessage

from .notes import Note, Record, fitted, joined, overview_in, parsed, promotion, size_of
from .strategy import CompactionContext, load_prompt
from .summary import ERRS_HIGH, SummaryCompaction, Writer, extra_instructions
from .summary_text import notes_of, unframed
from .turns import BREVITIES, parts_of, shortened

_OVERVIEW_SHARE = 0.4
"""Of the summary, what the overview is asked to keep to; milestones and notes of turns have the rest."""
_NOTE_SHARE, _LEAST_NOTE = 5, 48
"""One note takes at most this part of the summary, but so many tokens if need be."""
_PASSAGE_SHARE, _PASSAGE = 4, 160
"""Of the room beside the notes, what passages about the focus may take at most; and tokens of one of them."""


class HierarchicalCompaction(SummaryCompaction):
    """Compacts into an overview, milestones of what lies far back, and a note on each newer turn.

    Each level is made from the one below, once: a later compaction reads notes and milestones back from the
    summary, a draft made again finds them in memory. The request of a split turn stays verbatim.
    """

    async def notes(self, ctx: CompactionContext, cut: Cut[BaseMessage]) -> str:
        limit = int(ctx.max_summary_tokens / ERRS_HIGH)
        for_overview = int(limit * _OVERVIEW_SHARE)
        language = language_of(ctx.history)
        writer = Writer(
            ctx, language, memory=self._memory, note_tokens=max(_LEAST_NOTE, limit // _NOTE_SHARE)
        )
        earlier = [notes_of(unframed(message)) for message in cut.previous]
        before = _together([parsed(notes) for notes in earlier])
        request = (cut.request,) if cut.request and cut.prefix else ()
        compacted = (*cut.history, *request, *cut.prefix)
        new = await writer.levels.notes(compacted, after=before.last)
        grown = replace(before, turns=(*before.turns, *new))
        promoted = await asyncio.to_thread(promotion, grown, limit - for_overview)
        milestones = tuple(await writer.levels.milestones(promoted.topics))
        overview = await _overview(
            ctx,
            writer,
            _instructions(ctx, language, for_overview),
            "\n\n".join(earlier),
            new,
            (*milestones, *promoted.turns),
            compacted,
        )
        return fitted(Record(overview, milestones, promoted.turns), limit).rendered()


def _together(records: Sequence[Record]) -> Record:
    """Several earlier summaries as one; their overviews are written anew."""
    return Record(
        milestones=tuple(note for record in records for note in record.milestones),
        turns=tuple(note for record in records for note in record.turns),
    )


def _instructions(ctx: CompactionContext, language: Language, tokens: int) -> list[str]:
    """The prompt of an overview, and what the user adds to it: of an earlier draft only the overview is
    written again."""
    draft = ctx.earlier_draft and overview_in(ctx.earlier_draft)
    prompt = load_prompt("overview", language).replace("{tokens}", str(tokens))
    return [prompt, *extra_instructions(replace(ctx, earlier_draft=draft), language)]


async def _overview(
    ctx: CompactionContext,
    writer: Writer,
    instructions: Sequence[str],
    earlier_text: str,
    new: Sequence[Note],
    stays: Sequence[Note],
    compacted: Sequence[BaseMessage],
) -> str:
    """The sections over all, from the notes below them and the earlier summary.

    Args:
        new: notes on the turns of this compaction.
        stays: milestones and notes that stay; read where the new ones are too long.
    """
    levels = writer.levels
    earlier = await writer.within_half(earlier_text, *instructions)
    while True:
        room = min(writer.room(*earlier, *instructions), levels.most)
        notes = await levels.within(new if size_of(new) <= room else stays, room)
        passages_room = min(room // _PASSAGE_SHARE, room - size_of(notes))
        quoted = await asyncio.to_thread(_passages, ctx, compacted, passages_room)
        parts = [delimited("conversation", joined(notes)), *quoted, *earlier, *instructions]
        try:
            return overview_in(await writer.ask(parts))
        except ContextOverflow:
            if not levels.refused(size_of(notes)):
                raise


def _passages(ctx: CompactionContext, compacted: Sequence[BaseMessage], room: int) -> list[str]:
    """Passages of the compacted messages about what the user asked for: earlier notes know nothing of it."""
    wanted = Focus(" ".join(filter(None, (ctx.focus, ctx.guidance))))
    if not wanted:
        return []
    passages = [
        part
        for message in compacted
        for block in labelled_blocks([shortened(message, BREVITIES[0])])
        for part in parts_of(block, _PASSAGE)
    ]
    shares = [wanted.share(passage) for passage in passages]
    chosen: list[int] = []
    for place in sorted(range(len(passages)), key=lambda place: (-shares[place], -place)):
        cost = estimate_tokens(passages[place]) + 1
        if shares[place] > 0 and cost <= room:
            chosen.append(place)
            room -= cost
    return [delimited("passages", "\n\n".join(passages[p] for p in sorted(chosen)))] if chosen else []
