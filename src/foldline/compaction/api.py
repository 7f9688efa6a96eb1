"""All that `foldline.compaction` offers: strategies, the engine that runs them, and the prompts they use."""

from .automation import compaction_undone, kind_of, largest_items, no_request_since_compaction, pause_reason
from .engine import WORTH_WHILE, Plan, RedraftOptions, plan, plan_early, propose
from .fallbacks import WORDS
from .hierarchical import HierarchicalCompaction
from .ladder import LadderCompaction
from .ledger import SessionLedger
from .price import idle_gain, step_growth, steps_until_full, tier_gain
from .proposal import Outline, Proposal
from .registry import (
    BUILT_IN,
    DEFAULT,
    Dependencies,
    asks_model,
    check_strategy,
    dependencies,
    load_strategy,
    plans_by_cut,
    strategy_for,
    strategy_name,
)
from .selection import ImportanceCompaction, SemanticCompaction
from .simple import (
    AdaptiveCompaction,
    DigestCompaction,
    HidingThenSummaryCompaction,
    SimpleCompaction,
    ToolResultHidingCompaction,
    TruncateTurns,
)
from .strategy import (
    CompactionContext,
    CompactionFailed,
    CompactionStrategy,
    DraftRejected,
    Progress,
    load_prompt,
)
from .summary import SummaryCompaction

__all__ = [
    "BUILT_IN",
    "DEFAULT",
    "WORDS",
    "WORTH_WHILE",
    "AdaptiveCompaction",
    "CompactionContext",
    "CompactionFailed",
    "CompactionStrategy",
    "Dependencies",
    "DigestCompaction",
    "DraftRejected",
    "HidingThenSummaryCompaction",
    "HierarchicalCompaction",
    "ImportanceCompaction",
    "LadderCompaction",
    "Outline",
    "Plan",
    "Progress",
    "Proposal",
    "RedraftOptions",
    "SemanticCompaction",
    "SessionLedger",
    "SimpleCompaction",
    "SummaryCompaction",
    "ToolResultHidingCompaction",
    "TruncateTurns",
    "asks_model",
    "check_strategy",
    "compaction_undone",
    "dependencies",
    "idle_gain",
    "kind_of",
    "largest_items",
    "load_prompt",
    "load_strategy",
    "no_request_since_compaction",
    "pause_reason",
    "plan",
    "plan_early",
    "plans_by_cut",
    "propose",
    "step_growth",
    "steps_until_full",
    "strategy_for",
    "strategy_name",
    "tier_gain",
]
