"""`LadderCompaction`: a summary, a harder one, truncation."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from foldline.context.clip import clip_to_tokens
from foldline.context.cut import giant_limit
from foldline.context.tokens import estimate_tokens
from foldline.context.view import is_preamble, with_text
from foldline.protocol import NEW, AssistantMessage, BaseMessage, FoldlineError, UserMessage

from .simple import ClipGiants, TruncateTurns
from .strategy import CompactionContext, DraftRejected, tokens_of
from .summary import SummaryCompaction, cut_for

View = Sequence[BaseMessage]


class LadderCompaction:
    """Compress, then aggressive, then truncate: each is tried once, until the view has room again.

    A view no larger than what would be left comes back unchanged. Every summary is made from the messages the
    run was given. A rejected draft leads to the next rung; a request that fails is the engine's to deal with.
    """

    def __init__(self) -> None:
        self.rung = "none"
        """How far the newest run went, for its log record."""

    async def compact(self, ctx: CompactionContext) -> View | None:
        self.rung = "none"
        if _is_small(ctx):
            return None
        rungs = {"compress": self._compress, "aggressive": self._aggressive, "truncate": self._truncate}
        if ctx.first_kept_index is not None:
            rungs = {"compress": self._compress}  # the user chose what stays
        view: View = ctx.history
        failed: FoldlineError | None = None
        for name, rung in rungs.items():
            try:
                shorter = await rung(ctx, view)
                if shorter is not None:
                    view, self.rung = _smaller(shorter, view), name
            except FoldlineError as failure:
                if self.rung == "none" and not isinstance(failure, DraftRejected):
                    raise
                failed = failure
            else:
                if tokens_of(view) <= _room(ctx):
                    break
        if self.rung == "none" and failed is not None:
            raise failed
        return view if self.rung != "none" else None

    async def _compress(self, ctx: CompactionContext, _: View) -> View | None:
        """A summary of what lies before the cut, and the recent work."""
        return await SummaryCompaction().compact(ctx)

    async def _aggressive(self, ctx: CompactionContext, _: View) -> View | None:
        """A summary of all but the last message and its group; None where that is the same cut again."""
        closer = replace(ctx, keep_recent_tokens=1, cut_position=None)
        if _first_kept(closer) == _first_kept(ctx):
            return None
        return await SummaryCompaction().compact(closer)

    async def _truncate(self, ctx: CompactionContext, view: View) -> View | None:
        """No model: long texts and results lose their middle; without a summary, the oldest turns go."""
        room = _room(ctx)
        if tokens_of(view) <= room:
            return None
        clipped = list(_clipped_texts(ctx, view))
        now = replace(ctx, history=clipped)
        now = replace(ctx, history=await ClipGiants().compact(now) or clipped)
        if not any(message.index == NEW for message in view):
            now = replace(ctx, history=await TruncateTurns(room).compact(now) or now.history)
        return now.history if tokens_of(now.history) < tokens_of(view) else None


def _clipped_texts(ctx: CompactionContext, view: View) -> Iterator[BaseMessage]:
    """The messages; what was said in many words is clipped, but for the last word and the request."""
    limit = giant_limit(0, ctx.max_context_size)
    said = [message for message in view if isinstance(message, UserMessage | AssistantMessage)]
    stays = {message.key for message in (*said[-1:], *_unanswered(said))}
    long = {message.key for message in said if estimate_tokens(message.text) > limit} - stays
    for message in view:
        if message.key in long and message.index not in ctx.pins:
            yield with_text(message, clip_to_tokens(message.text, limit, message.index))
        else:
            yield message


def _unanswered(said: View) -> list[BaseMessage]:
    """The request that is being worked on, if there is one."""
    for message in reversed(said):
        if isinstance(message, UserMessage):
            return [message]
        if isinstance(message, AssistantMessage) and not message.calls:
            break
    return []


# --- sizes, in estimated tokens before calibration --------------------------------------------------------


def _is_small(ctx: CompactionContext) -> bool:
    """Whether a compaction would leave no less than there is, and nothing else calls for one."""
    due = ctx.token_count + ctx.reserved_context_size >= ctx.max_context_size or ctx.may_clip_unseen
    if due or ctx.first_kept_index is not None:
        return False
    stays = tokens_of([m for m in ctx.history if is_preamble(m) or m.index in ctx.pins])
    return tokens_of(ctx.history) <= stays + ctx.keep_recent_tokens + ctx.max_summary_tokens // 2


def _room(ctx: CompactionContext) -> int:
    """What a view may take. As much as is kept verbatim stays free, or the next step would compact again."""
    threshold = ctx.max_context_size - ctx.reserved_context_size
    return int(threshold / ctx.scale) - ctx.tools_tokens - ctx.keep_recent_tokens


def _smaller(view: View, before: View) -> View:
    """The view, if it is smaller. Raises DraftRejected where it is not."""
    if tokens_of(view) >= tokens_of(before):
        raise DraftRejected("The draft of the summary is not smaller than what it replaces.")
    return view


def _first_kept(ctx: CompactionContext) -> int | None:
    cut = cut_for(ctx)
    return cut.position if cut else None
