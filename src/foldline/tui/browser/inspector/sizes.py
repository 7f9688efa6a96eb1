"""The Inspector by size: the window by category, and the effect of a compaction."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from foldline.agent.session.state import AgentState
from foldline.compaction import Plan
from foldline.compaction.automation import INEFFECTIVE
from foldline.frontend.commands import key_of
from foldline.frontend.state import ContextUse, ViewWeights
from foldline.protocol import FoldlineError
from foldline.text import numbers
from foldline.text.harmless import clean_line
from foldline.text.numbers import many
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.plain import RowBlock, RowColumn, RuleBlock
from foldline.tui.browser.keys import key_name
from foldline.tui.browser.panels.entry_list import EntryList
from foldline.tui.browser.panels.frame import Panel, TextLines
from foldline.tui.look.cells import RowPiece, Span, piece, row, width_of, wrap_spans
from foldline.tui.look.lines import hint
from foldline.tui.look.meter import GLYPHS, PART_STYLES, Part, bar_spans
from foldline.view.budget import Size
from foldline.view.items import total_tokens
from foldline.view.projection import Projection
from foldline.view.tally import FIXED, KEPT
from foldline.view.weight import (
    Category,
    Schemas,
    Share,
    categories,
    prompt_weight,
    request_breakdown,
)

USE_WIDTH: Final = 46
"""Width of the Use panel beside other panels, in cells."""


@dataclass(frozen=True, slots=True)
class WindowUse:
    """The contents of the window at one point in the history.

    All sizes are in tokens. Only the current state of an open session has an agent.
    """

    projection: Projection
    room: ContextUse
    """The sizes that the meter shows."""
    agent: AgentState | None = None
    plan: Plan | None = None
    """The plan of a manual compaction, if there is one."""
    prompts: Sequence[str] = ()
    """Prompts that are not sent yet."""
    subagents: tuple[int, int, int] = (0, 0, 0)
    """The number of subagents, the tokens they used, and the tokens of their answers in the view."""

    @property
    def schemas(self) -> Sequence[Schemas]:
        return () if self.agent is None else self.agent.tools.schemas

    @property
    def waiting(self) -> int:
        """The size of the unsent prompts."""
        return sum(prompt_weight(self.projection, text) for text in self.prompts)

    @property
    def reserve(self) -> int | None:
        """Tokens reserved for the response.

        None if there is no threshold.
        """
        threshold = self.room.threshold
        if threshold is None:
            return None
        used = self.room.size + self.waiting
        return max(0, self.room.window - max(used, threshold))

    @property
    def free(self) -> int:
        """Free tokens.

        Negative if the request and the unsent prompts exceed the window.
        """
        used = self.room.size + self.waiting
        return self.room.window - used - (self.reserve or 0)


def use_at(projection: Projection, size: Size, overhead: int, window: int) -> WindowUse:
    """Return the contents of the window at a point in the history, without an agent.

    Args:
        size: the size of the view at this point.
        overhead: estimated size of the tool schemas.
        window: size of the context window; 0 if unknown.
    """
    shares = categories(projection, overhead=overhead)
    weights = ViewWeights(shares.system, shares.summaries, 0, shares.verbatim)
    room = ContextUse(size.tokens, window, weights=weights, estimated=size.estimated)
    return WindowUse(projection, room)


def use_now(
    agent: AgentState,
    room: ContextUse,
    plan: Plan | None,
    prompts: Sequence[str],
    subagents: tuple[int, int, int] = (0, 0, 0),
) -> WindowUse:
    """Return the current contents of an agent's window.

    Args:
        plan: the plan of a manual compaction, if there is one.
        prompts, subagents: as in `WindowUse`.
    """
    projection = agent.session.projection
    if plan is not None and plan.cut is not None and not room.weights.compacting:
        scale = projection.meter.scale
        weights = room.weights
        compacting = round(total_tokens(plan.cut.compacted) * scale)
        compacting = min(compacting, weights.verbatim)
        verbatim = weights.verbatim - compacting
        room = replace(
            room,
            weights=replace(weights, compacting=compacting, verbatim=verbatim),
            cut=weights.system + weights.summaries + compacting,
        )
    return WindowUse(projection, room, agent, plan, prompts, subagents)


def budget_error(agent: AgentState) -> str:
    """Return a message that explains why the window is too small.

    Returns an empty string if the window is large enough.
    """
    try:
        agent.budget.limits  # noqa: B018
    except FoldlineError as failure:
        return str(failure)
    return ""


# --- The window by category -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class UseRow(RowBlock):
    """A row of the Use panel, with a sentence about its category."""

    about: str = field(kw_only=True)
    category: Category | None = field(default=None, kw_only=True)
    """The category of items; None if the row is not about items."""

    @property
    def name(self) -> str:
        return self.main[0][0]


_CATEGORIES: Final[dict[Category, tuple[str, str]]] = {
    "system": (
        "system prompt",
        "Sent first. prompts/system.md in the config folder replaces it.",
    ),
    "instructions": (
        "instruction files",
        "AGENTS.md and CLAUDE.md are sent with every request, so keep them short.",
    ),
    "tools": (
        "Foldline tools",
        "The schemas of Foldline's own tools are sent with every request.",
    ),
    "summaries": (
        "summaries",
        "Written by compactions. The next compaction rewrites them.",
    ),
    "pins": ("pins", "Compactions keep them verbatim. Press {pin} to unpin one."),
    "skills": (
        "skills",
        "Loaded instructions, never compacted. /skill lists and unloads them.",
    ),
    "user": (
        "your prompts",
        "Compactions summarise older prompts, and quote constraints that still apply.",
    ),
    "assistant": (
        "answers and calls",
        "Written by the model. Press {drop} to drop one with its results.",
    ),
    "results": (
        "tool results",
        "Tool output is hidden first, and compactions shorten it.",
    ),
    "images": (
        "pictures",
        "Counted by size. A compaction replaces them with text.",
    ),
    "clipped": (
        "clipped results",
        "Long results that are sent without their middle part.",
    ),
    "hidden": (
        "hidden results",
        "Each hidden result is sent as a one-line placeholder.",
    ),
    "notes": (
        "program notes",
        "Messages from Foldline to the model, such as rewinds or changed tools.",
    ),
    "thinking": (
        "thinking sent back",
        "This provider needs reasoning sent back. Compactions remove the oldest.",
    ),
    "difference": (
        "correction",
        "Difference between the measured total and the estimated parts.",
    ),
}
_ROOMY: Final = 16
"""Minimum width of a category's name, in cells, at which its number of items is shown."""
_COUNT: Final = 5
_TOKENS: Final = 8
_SHARE: Final = 5
SHOWS_LARGEST: Final = "Enter goes to the largest item"
TOTAL: Final = "The size of the next request, as shown by the meter."
ASSUMED: Final = (
    "This model's window is unknown, so it is assumed. context.window sets it."
)
UNSENT: Final = "Not sent yet: waiting for a compaction, queued, or in the editor."
OVER: Final = (
    "It does not fit. Compact, hide or drop something, or use a larger window."
)
FREE: Final = "Tokens left before a compaction is due."
RESERVED: Final = "Reserved for the answer. Set compaction.reserve_tokens to change it."
SUBAGENTS: Final = (
    "{subagents} used {used} tokens. Their answers take {answers} of the rows above."
)
SERVER_TOOLS: Final = "To leave these tools out, set enabled = false in [mcp.{server}]."


def use_rows(use: WindowUse) -> list[Block]:
    """Return the rows of the Use panel: categories, total, unsent prompts and free tokens."""
    usage = request_breakdown(use.projection, use.schemas)
    window = use.room.window or usage.size.tokens
    return [
        *(_share_row((0, at), share, window) for at, share in enumerate(usage.shares)),
        RuleBlock((-1, 0), "", "muted", stop=False, wide=False),
        *_totals(use),
    ]


def _use_row(
    key: Key,
    name: str,
    tokens: int,
    about: str,
    window: int,
    style: str = "muted",
    sign: Span = (" ", ""),
    *,
    items: int = 0,
    estimated: bool = False,
    category: Category | None = None,
) -> UseRow:
    shown = numbers.tokens(abs(tokens), estimated=estimated and tokens >= 0)
    if tokens < 0 and category is not None:
        shown = f"−{shown}"
    share = numbers.percent(tokens, window) if window > 0 and tokens >= 0 else ""
    columns = (
        RowColumn(
            f"{items:,}" if items else "", _COUNT, "muted", space=1, drop="first"
        ),
        RowColumn(shown, _TOKENS, style, space=1),
        RowColumn(share, _SHARE, "muted", space=1, drop="last"),
    )
    return UseRow(
        key,
        (sign, (" ", "")),
        ((name, style),),
        columns,
        roomy=_ROOMY,
        about=about,
        category=category,
    )


def _share_row(key: Key, share: Share, window: int) -> UseRow:
    name, about = _CATEGORIES[share.category]
    server = clean_line(share.server)
    if server:
        name = f"{server} tools"
        about = SERVER_TOOLS
    sign, style = _glyph(_part_of(share.category)), "text"
    if share.category == "difference":
        sign, style = (" ", ""), "muted"
    pin, drop = key_name("pin"), key_name("drop")
    return _use_row(
        key,
        name,
        round(share.tokens),
        about.format(pin=pin, drop=drop, server=server),
        window,
        style,
        sign,
        items=share.items,
        estimated=share.estimated,
        category=share.category,
    )


def _totals(use: WindowUse) -> Iterator[UseRow]:
    """Yield the rows below the categories."""
    room = use.room
    window = room.window
    about = ASSUMED if room.assumed else TOTAL
    style = "alert bold" if room.past_threshold else "text bold"
    name = "next request"
    is_estimate = room.estimated
    yield _use_row((1, 0), name, room.size, about, window, style, estimated=is_estimate)
    if use.prompts:
        count = len(use.prompts)
        yield _use_row(
            (2, 0),
            "+ unsent prompts",
            use.waiting,
            UNSENT,
            window,
            "text",
            items=count,
            estimated=True,
        )
    if window > 0 > use.free:
        sign = ("!", "alert")
        yield _use_row((3, 0), "over the window", use.free, OVER, window, "alert", sign)
    elif window > 0:
        yield _use_row((3, 0), "free", use.free, FREE, window, sign=_glyph("free"))
    if use.reserve:
        name = "reserved for answer"
        sign = _glyph("threshold")
        yield _use_row((4, 0), name, use.reserve, RESERVED, window, sign=sign)
    count, used, answers = use.subagents
    if count:
        used_text = numbers.short_tokens(used)
        about = SUBAGENTS.format(
            subagents=many(count, "subagent"),
            used=used_text,
            answers=numbers.tokens(answers),
        )
        name = f"subagents, used {used_text}"
        yield _use_row((5, 0), name, answers, about, window, items=count)


def use_heading(width: int) -> list[Span]:
    """Return the row of column names.

    The last cell is left free for the scrollbar.
    """
    head = f"{'items':>{_COUNT}} {'tokens':>{_TOKENS}} {'share':>{_SHARE}} "
    return [(f"{head:>{width}}"[-width:] if width > 0 else "", "muted")]


class UsePanel(Panel):
    """The panel that shows the use of the window by category."""

    def __init__(self, use: WindowUse) -> None:
        """Create the panel. It shows `use` as soon as `show` is called."""
        self._heading = TextLines(id="heading")
        super().__init__(EntryList(id="use"), title="1 Use", above=self._heading)
        self.shown = use
        """The displayed use of the window."""

    def show(self, use: WindowUse) -> None:
        """Show the use of the window."""
        self.shown = use
        self.view.set_blocks(use_rows(use))

    @property
    def about(self) -> str:
        """The sentence about the category at the cursor."""
        block = self.view.block(self.view.cursor or (-1, 0))
        return block.about if isinstance(block, UseRow) else ""

    def describe(self, *, is_active: bool) -> None:
        """Update the text in the frame and the names of the columns."""
        width = self.size.width or USE_WIDTH
        self._heading.show(use_heading(width - 2))
        self.head("~ estimated")
        self.foot(SHOWS_LARGEST if is_active else "")


def _part_of(category: Category) -> Part:
    if category in KEPT:
        return "summaries"
    return "system" if category in FIXED or category == "tools" else "verbatim"


def _glyph(part: Part) -> Span:
    return GLYPHS[part], PART_STYLES[part]


# --- Above the panels -----------------------------------------------------------------------------------

NOTHING_OLD: Final = "nothing is old enough"
OVERDUE: Final = "before the next request: {excess} over {threshold}"
PRICE_TIER: Final = "· at {size}, where the price rises, if this saves money"
FREES_LITTLE: Final = "frees almost nothing"


def window_rows(use: WindowUse, width: int) -> list[list[Span]]:
    """Return the bar, and two rows about compacting now and automatically.

    If the window is too small, they are replaced by the reason.
    """
    agent = use.agent
    if agent is None:
        return [_bar_row(use.room, width)]
    error = budget_error(agent)
    if not error:
        compacting = [_now_row(use.plan, width), _automatic_row(use, agent, width)]
        return [_bar_row(use.room, width), *compacting]
    lines = wrap_spans([(f"! {clean_line(error)}", "alert")], max(width - 2, 1))
    rows = [row([RowPiece(tuple(line), cut="right")], [], width) for line in lines[:2]]
    return [_bar_row(use.room, width), *rows]


def _bar_row(room: ContextUse, width: int) -> list[Span]:
    """Draw the meter across the screen.

    `▐▓▓▓▒▒░░░░░███████·····┆···┃···▌ 116.2k of 131k  89%`
    """
    style = "alert bold" if room.past_threshold else "text bold"
    words: list[Span] = [(numbers.tokens(room.size, estimated=room.estimated), style)]
    if room.window:
        window = numbers.short_tokens(room.window, estimated=room.assumed)
        words.append((f" of {window}  ", "muted"))
        words.append((numbers.percent(room.size, room.window), style))
    bar = bar_spans(room, max(width - 5 - width_of(words), 4))
    ends = RowPiece((("▐", "muted"), *bar, ("▌", "muted")))
    return row([ends, RowPiece(tuple(words), gap=1)], [], width)


def _labelled(part: Part, label: str, width: int, *parts: RowPiece) -> list[Span]:
    name = RowPiece((_glyph(part), (f" {label:<13}", "muted")))
    return row([name, *parts], [], width)


def _now_row(plan: Plan | None, width: int) -> list[Span]:
    """Draw the row that previews compacting now.

    ` ░ compact now   116.2k → ~27k · 123 entries into one summary · F3 previews it `.
    """
    if plan is None:
        return _labelled("compacting", "compact now", width, piece(NOTHING_OLD, gap=0))
    change = f"{numbers.tokens(plan.tokens_before)} → {numbers.about_tokens(plan.tokens_expected)}"
    if plan.tokens_expected > INEFFECTIVE * plan.tokens_before:
        change = FREES_LITTLE  # without the tokens that clipping frees
    into = ""
    if plan.compacted:
        into = f"{many(plan.compacted, 'entry', 'entries')} into one summary"
    elif plan.clipped:
        into = f"{many(len(plan.clipped), 'large result')} clipped"
    shows = hint(key_of("preview"), "previews it", of_keys="muted")
    first = RowPiece((("· ", "muted"), *shows), gap=1, rank=2)
    parts = [piece(change, gap=0), piece(f"· {into}", gap=1, rank=1), first]
    return _labelled("compacting", "compact now", width, *parts)


def _automatic_row(use: WindowUse, agent: AgentState, width: int) -> list[Span]:
    """Draw the row that shows when the next automatic compaction is due.

    ` ┃ automatic    in about 12.3k, at 114.7k `.
    """
    threshold = use.room.threshold
    if threshold is None:
        return row([], [], width)
    if stopped := agent.compaction.blocker:
        why = piece(f"not now: {clean_line(stopped)}", "altered", gap=0, cut="right")
        return _labelled("threshold", "automatic", width, why)
    until = threshold - use.room.size - use.waiting
    at = numbers.tokens(threshold)
    when = f"in about {numbers.tokens(until)}, at {at}"
    if until <= 0:
        when = OVERDUE.format(excess=numbers.tokens(-until), threshold=at)
    if agent.compaction.mode == "ask":
        when = f"asks you {when}"
    parts = [piece(when, gap=0)]
    if (tier := agent.budget.tier) is not None:
        words = PRICE_TIER.format(size=numbers.short_tokens(tier.above))
        parts.append(piece(words, "muted", gap=1, rank=2))
    return _labelled("threshold", "automatic", width, *parts)
