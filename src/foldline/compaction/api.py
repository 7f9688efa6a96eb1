"""The public names of `foldline.compaction`: strategies, the engine that runs them, and prompts."""

from foldline.compaction.strategies.adaptive import AdaptiveCompaction
from foldline.compaction.strategies.digest import DigestCompaction
from foldline.compaction.strategies.hide import (
    ToolResultHidingCompaction,
    with_hidden_results,
)
from foldline.compaction.strategies.hide_then_summary import HidingThenSummaryCompaction
from foldline.compaction.strategies.hierarchical import HierarchicalCompaction
from foldline.compaction.strategies.importance import ImportanceCompaction
from foldline.compaction.strategies.ladder import LadderCompaction
from foldline.compaction.strategies.semantic import SemanticCompaction
from foldline.compaction.strategies.simple import SimpleCompaction
from foldline.compaction.strategies.summary import SummaryCompaction

from .automation import (
    compaction_undone,
    kind_of,
    largest_items,
    no_request_since_compaction,
    pause_reason,
)
from .engine import WORTH_WHILE, Plan, RedraftOptions, plan, plan_early, propose
from .fallbacks import WORDS
from .ledger import SessionLedger
from .price import step_growth, steps_until_full, tier_gain
from .proposal import CompactionSizes, Proposal
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
from .strategy import (
    CompactionContext,
    CompactionFailed,
    CompactionStrategy,
    DraftRejected,
    Progress,
    load_prompt,
)
from .truncation import TruncateTurns

__all__ = [
    "BUILT_IN",
    "DEFAULT",
    "WORDS",
    "WORTH_WHILE",
    "AdaptiveCompaction",
    "CompactionContext",
    "CompactionFailed",
    "CompactionSizes",
    "CompactionStrategy",
    "Dependencies",
    "DigestCompaction",
    "DraftRejected",
    "HidingThenSummaryCompaction",
    "HierarchicalCompaction",
    "ImportanceCompaction",
    "LadderCompaction",
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
    "with_hidden_results",
]
