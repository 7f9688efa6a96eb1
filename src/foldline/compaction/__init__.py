"""How a view is rewritten: strategies, the engine that runs them, and the prompts they use."""

from .automation import fold_taken_back, kind_of, largest_items, no_step_since_fold, pause_reason
from .climb import WORDS
from .engine import Plan, Wishes, plan, propose
from .hierarchical import HierarchicalCompaction
from .importance import ImportanceCompaction
from .ladder import LadderCompaction
from .lighter import TruncateTurns
from .loading import (
    BUILT_IN,
    DEFAULT,
    Dependencies,
    check_strategy,
    dependencies,
    for_fold,
    load_strategy,
    plans_by_cut,
)
from .metering import Progress
from .prompts import load_prompt
from .proposal import Outline, Proposal
from .semantic import SemanticCompaction
from .simple import (
    AdaptiveCompaction,
    DigestCompaction,
    HidingThenSummaryCompaction,
    SimpleCompaction,
    ToolResultHidingCompaction,
)
from .strategy import CompactionContext, CompactionFailed, CompactionStrategy, DraftRejected
from .summary import SummaryCompaction

__all__ = [
    "BUILT_IN",
    "DEFAULT",
    "WORDS",
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
    "SemanticCompaction",
    "SimpleCompaction",
    "SummaryCompaction",
    "ToolResultHidingCompaction",
    "TruncateTurns",
    "Wishes",
    "check_strategy",
    "dependencies",
    "fold_taken_back",
    "for_fold",
    "kind_of",
    "largest_items",
    "load_prompt",
    "load_strategy",
    "no_step_since_fold",
    "pause_reason",
    "plan",
    "plans_by_cut",
    "propose",
]
