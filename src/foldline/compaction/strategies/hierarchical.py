"""`HierarchicalCompaction`: summarises turns in notes, and older notes in milestones."""

import asyncio
import re
from dataclasses import dataclass, replace

from foldline.compaction.strategy import CompactionContext, load_prompt
from foldline.compaction.summary_view import split_turn
from foldline.compaction.summary_writer import SummaryWriter
from foldline.memory.clip import first_lines
from foldline.memory.conversation import serialise
from foldline.memory.language import language_of
from foldline.protocol import BaseMessage, ToolResultMessage
from foldline.text.shorten import shorten
from foldline.text.tags import delimited
from foldline.view.cut import Cut
from foldline.view.items import with_text
from foldline.view.tokens import estimate_tokens

from .summary import SummaryCompaction

MILESTONES = "## Milestones"
TURNS = "## Turns"
_PROMPT = "levels"
_RESULT_CHARACTERS = 500
"""Maximum number of characters of a tool result that the model receives.

See docs/decisions/0063-strategies-as-designed.md.
"""
_LEVEL_SHARE = 4
"""Milestones and turn notes may each take up at most 1/_LEVEL_SHARE (a quarter) of the summary's tokens."""
_HEADING = re.compile(r"^#{1,2} ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Levels:
    """The levels of a summary: the overview, milestones of older work, and notes on newer turns."""

    overview: str
    milestones: str = ""
    turns: str = ""

    def updated(self, answer: str) -> "Levels":
        """Return the levels, updated with the overview and notes from a model's response."""
        new = parse_levels(answer)
        turns = f"{self.turns}\n{new.turns}".strip()
        return replace(self, overview=new.overview, turns=turns)

    def render(self) -> str:
        parts = [self.overview]
        if self.milestones:
            parts.append(f"{MILESTONES}\n{self.milestones}")
        if self.turns:
            parts.append(f"{TURNS}\n{self.turns}")
        return "\n\n".join(parts)


def parse_levels(summary: str) -> Levels:
    """Parse the levels of a summary.

    A summary written by another strategy becomes the overview.
    """
    upper, _, turns = f"\n{summary}".partition(f"\n{TURNS}\n")
    overview, _, milestones = upper.partition(f"\n{MILESTONES}\n")
    return Levels(overview.strip(), _below_level(milestones), _below_level(turns))


def _below_level(text: str) -> str:
    """Lower all first- and second-level headings to the third level."""
    return _HEADING.sub("### ", text).strip()


class HierarchicalCompaction(SummaryCompaction):
    """Compacts into an overview, milestones of older work, and a note on each newer turn.

    The note on a turn is written only once. The overview is updated each time. When the notes take up too
    much room, the oldest ones are merged into milestones. The levels are parsed from the text of the previous
    summary.
    """

    async def notes(
        self, ctx: CompactionContext, cut: Cut[BaseMessage], previous: str
    ) -> str:
        writer = SummaryWriter(ctx)
        levels = parse_levels(previous)
        messages = [_shortened(message) for message in (*cut.history, *split_turn(cut))]
        unread = await asyncio.to_thread(serialise, messages)
        while unread:
            answer, unread = await writer.read_chunk(
                _PROMPT, unread, levels.overview, messages
            )
            levels = levels.updated(answer)
        levels = await _merged(ctx, writer, levels)
        return levels.render()


def _shortened(message: BaseMessage) -> BaseMessage:
    """Return a message with a long tool result shortened."""
    if (
        not isinstance(message, ToolResultMessage)
        or len(message.text) <= _RESULT_CHARACTERS
    ):
        return message
    return with_text(message, shorten(message.text, _RESULT_CHARACTERS))


async def _merged(
    ctx: CompactionContext, writer: SummaryWriter, levels: Levels
) -> Levels:
    """Merge older notes into milestones if the notes take up too much room."""
    room = ctx.max_summary_tokens // _LEVEL_SHARE
    if estimate_tokens(levels.turns) <= room:
        return levels
    older_turns, newer_turns = _divided(levels.turns, room // 2)
    parts = [delimited("conversation", older_turns)]
    if levels.milestones:
        parts.append(delimited("previous-summary", levels.milestones))
    prompt = load_prompt("topics", language_of(ctx.history))
    parts.append(prompt.replace("{tokens}", str(room)))
    answer = _below_level(await writer.ask(parts))
    milestones = first_lines(f"{answer}\n", room).strip()
    return replace(levels, milestones=milestones, turns=newer_turns)


def _divided(turns: str, room: int) -> tuple[str, str]:
    """Divide notes into older ones and the newest ones.

    The newest notes fit into `room` tokens.
    """
    older = re.split(r"\n(?=### )", turns)
    newer = ""
    while older:
        longer = f"{older[-1]}\n{newer}".strip()
        if estimate_tokens(longer) > room:
            break
        newer = longer
        older.pop()
    return "\n".join(older), newer
