"""How a view is rewritten: strategies, the engine that runs them, and the prompts they use."""

from .digest import DigestCompaction
from .engine import Plan, Proposal, automation_paused, largest_items, plan, propose
from .prompts import load_prompt
from .strategy import CompactionContext, CompactionFailed, CompactionStrategy, DraftRejected
from .summary import SummaryCompaction

__all__ = [
    "CompactionContext",
    "CompactionFailed",
    "CompactionStrategy",
    "DigestCompaction",
    "DraftRejected",
    "Plan",
    "Proposal",
    "SummaryCompaction",
    "automation_paused",
    "largest_items",
    "load_prompt",
    "plan",
    "propose",
]
