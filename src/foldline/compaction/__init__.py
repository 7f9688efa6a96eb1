"""How a view is rewritten: strategies, the engine that runs them, and the prompts they use."""

from .automation import automation_paused, fold_taken_back, kind_of, largest_items, no_step_since_fold
from .digest import DigestCompaction
from .engine import Plan, Wishes, plan, propose
from .hiding import ToolResultHidingCompaction
from .ladder import WORDS
from .lighter import TruncateTurns
from .prompts import load_prompt
from .proposal import Outline, Proposal
from .strategy import CompactionContext, CompactionFailed, CompactionStrategy, DraftRejected
from .summary import SummaryCompaction

__all__ = [
    "WORDS",
    "CompactionContext",
    "CompactionFailed",
    "CompactionStrategy",
    "DigestCompaction",
    "DraftRejected",
    "Outline",
    "Plan",
    "Proposal",
    "SummaryCompaction",
    "ToolResultHidingCompaction",
    "TruncateTurns",
    "Wishes",
    "automation_paused",
    "fold_taken_back",
    "kind_of",
    "largest_items",
    "load_prompt",
    "no_step_since_fold",
    "plan",
    "propose",
]
