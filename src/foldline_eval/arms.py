"""The arms of a comparison: strategies, and two references for judging them.

Each run gets a new arm.
"""

from foldline.compaction import BUILT_IN, Dependencies, TruncateTurns, load_strategy
from foldline.protocol import OptionError

from .replay import Arm

RAW = "raw"
"""Name of the arm that sends the entire history in each request, as if the window were unlimited."""
TRUNCATE = "truncate"
"""Name of the arm that leaves out the oldest turns, down to half of the window."""
NO_STRATEGY = (
    "No strategy named {name}. Available: {names}, and your own as module:ClassName."
)


def arm_named(name: str, window: int, dependencies: Dependencies) -> Arm:
    """Create an arm.

    Arms must not be reused, because strategies may remember earlier compactions.

    Raises:
        FoldlineError: the strategy does not exist, or cannot be created.
    """
    if name == RAW:
        return Arm(name, None)
    if name == TRUNCATE:
        return Arm(name, TruncateTurns(window // 2))
    if name not in BUILT_IN and ":" not in name:
        all_names = ", ".join([RAW, TRUNCATE, *BUILT_IN])
        raise OptionError(NO_STRATEGY.format(name=name, names=all_names))
    return Arm(name, load_strategy(name, dependencies))
