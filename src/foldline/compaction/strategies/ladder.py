"""`LadderCompaction`: agentkit's ladder of a summary, a more aggressive summary, and truncation."""

from dataclasses import replace

from foldline.compaction.strategy import CompactionContext, DraftRejected, tokens_of
from foldline.compaction.summary_view import cut_for
from foldline.compaction.truncation import ClipGiants, TruncateTurns
from foldline.protocol import NEW, FoldlineError, UserMessage
from foldline.view.items import Messages

from .summary import SummaryCompaction


class LadderCompaction:
    """Tries "compress", "aggressive" and "truncate" once each, until the view has room again.

    A view that is no larger than the expected result is not compacted. Every summary is made from the
    original input. After a rejected draft, the next rung is tried. If a request fails, the engine handles the
    error.
    """

    def __init__(self) -> None:
        self.rung = "none"
        """The rung that made the newest view, for the log record; "none" if there is no view."""

    async def compact(self, ctx: CompactionContext) -> Messages | None:
        self.rung = "none"
        if _is_small(ctx):
            return None
        rungs = {"compress": _compress}
        if ctx.first_kept_index is None:  # otherwise, the user chose what stays
            rungs |= {"aggressive": _compress_all, "truncate": _truncate}
        view: Messages = ctx.history
        failure: FoldlineError | None = None
        for name, rung in rungs.items():
            try:
                smaller_view = await rung(ctx, view)
            except FoldlineError as error:
                if self.rung == "none" and not isinstance(error, DraftRejected):
                    raise
                failure = error
                continue
            if smaller_view is not None:
                view = smaller_view
                self.rung = name
            if tokens_of(view) <= _room(ctx):
                break
        if self.rung != "none":
            return view
        if failure is not None:
            raise failure
        return None


async def _compress(ctx: CompactionContext, view: Messages) -> Messages | None:
    """Summarise everything before the cut.

    Raises:
        DraftRejected: the new view is not smaller than `view`.
    """
    summarised = await SummaryCompaction().compact(ctx)
    if summarised is not None and tokens_of(summarised) >= tokens_of(view):
        raise DraftRejected(
            "The draft of the summary is not smaller than the messages it replaces."
        )
    return summarised


async def _compress_all(ctx: CompactionContext, view: Messages) -> Messages | None:
    """Summarise everything except the last message and its group.

    Returns None if the cut would be the same as in `_compress`.
    """
    harder = replace(ctx, keep_recent_tokens=1, cut_position=None)
    if cut_for(harder) == cut_for(ctx):
        return None
    return await _compress(harder, view)


async def _truncate(ctx: CompactionContext, view: Messages) -> Messages | None:
    """Clip large messages and, if there is no summary, drop the oldest turns.

    The newest request and the newest message are kept in full.
    """
    room = _room(ctx)
    requests = [message.index for message in view if isinstance(message, UserMessage)]
    pins = ctx.pins.union(requests[-1:], [view[-1].index])
    clipping = ClipGiants(room, clips_talk=True)
    shorter = await clipping.compact(replace(ctx, history=view, pins=pins)) or view
    has_summary = any(message.index == NEW for message in view)
    if not has_summary:
        shorter = (
            await TruncateTurns(room).compact(replace(ctx, history=shorter)) or shorter
        )
    if tokens_of(shorter) >= tokens_of(view):
        return None
    return shorter


def _is_small(ctx: CompactionContext) -> bool:
    """Return whether no compaction is due, and a compaction would free nothing anyway."""
    threshold = ctx.max_context_size - ctx.reserved_context_size
    if ctx.token_count >= threshold or ctx.may_clip_unseen:
        return False
    if ctx.first_kept_index is not None:
        return False
    kept_tokens = ctx.fixed_tokens + ctx.keep_recent_tokens
    return tokens_of(ctx.history) <= kept_tokens + ctx.max_summary_tokens // 2


def _room(ctx: CompactionContext) -> int:
    """Return the target size of the view, in estimated tokens.

    The target leaves enough room that the next step does not trigger another compaction.
    """
    threshold = ctx.max_context_size - ctx.reserved_context_size
    return int(threshold / ctx.scale) - ctx.tools_tokens - ctx.keep_recent_tokens
